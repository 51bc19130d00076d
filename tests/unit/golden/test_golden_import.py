"""Importers: what becomes of each case, and why the others are dropped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.golden import load
from pipeline.golden.check import check
from pipeline.golden.importers import Imported, Options, import_transcripts

REAL_CASES = Path(__file__).resolve().parents[4] / "shared" / "real_cases"

GET_ORDER = {
    "type": "function",
    "function": {
        "name": "get_order",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "A-1"}'}}
USER = {"role": "user", "content": "where is A-1?"}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "{}"}


def run(form, path, options=None, **how):
    """(imported transcripts, reasons of the dropped)"""
    results = list(import_transcripts(form, [path], options or Options(), **how))
    return (
        [r.data for r in results if isinstance(r, Imported)],
        [r.reason for r in results if not isinstance(r, Imported)],
    )


def lines(path: Path, *rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


# --- OpenAI-style logs -------------------------------------------------------------------------


def test_a_logged_tool_call_becomes_a_turn(tmp_path):
    row = {"messages": [USER, CALLS, RESULT, {"role": "assistant", "content": "On its way."}], "tools": [GET_ORDER]}
    (data,), dropped = run("openai", lines(tmp_path / "log.jsonl", row), Options(licence="MIT", slices=("logged",)))
    assert dropped == []
    assert data["id"] == "log-1"
    assert (data["source"], data["licence"], data["slices"]) == ("OpenAI-style log", "MIT", ["logged"])
    assert [message["role"] for message in data["messages"]] == ["user", "assistant"]
    assert data["messages"][1]["expect"] == {
        "behaviour": "tool_call",
        "tool_calls": [{"name": "get_order", "arguments": {"order_id": "A-1"}}],
    }


def test_request_and_response_the_older_form_and_text_parts(tmp_path):
    older = {**USER, "content": [{"type": "text", "text": "where is"}, {"type": "text", "text": "A-1?"}]}
    answer = {"role": "assistant", "content": None, "function_call": CALL["function"]}
    row = {
        "id": "chat/7",
        "request": {
            "messages": [{"role": "developer", "content": "Help."}, older],
            "functions": [GET_ORDER["function"]],
        },
        "response": {"choices": [{"message": answer}]},
    }
    (data,), _ = run("openai", lines(tmp_path / "log.jsonl", row))
    assert data["id"] == "chat/7"
    assert data["messages"][0] == {"role": "system", "content": "Help."}
    assert data["messages"][1] == {"role": "user", "content": "where is\nA-1?"}
    assert data["messages"][2]["expect"]["tool_calls"][0]["arguments"] == {"order_id": "A-1"}
    assert data["tools"] == [GET_ORDER]


def test_a_recorded_refusal_is_expected_again(tmp_path):
    row = {"messages": [USER, {"role": "assistant", "content": None, "refusal": "I cannot help with that."}]}
    (data,), _ = run("openai", lines(tmp_path / "log.jsonl", row))
    assert data["messages"][1] == {
        "role": "assistant",
        "content": "I cannot help with that.",
        "expect": {"behaviour": "refuse"},
    }


def test_a_conversation_logged_as_it_grows_gives_each_turn_once(tmp_path):
    second = {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "c2"}]}
    grown = [USER, CALLS, RESULT, {"role": "user", "content": "again please"}, second]
    path = lines(
        tmp_path / "log.jsonl",
        {"messages": [USER, CALLS], "tools": [GET_ORDER]},
        {"messages": grown, "tools": [GET_ORDER]},
        {"messages": grown, "tools": [GET_ORDER]},
    )
    imported, dropped = run("openai", path)
    assert [[i for i, m in enumerate(data["messages"]) if "expect" in m] for data in imported] == [[1], [4]]
    assert [data["scenario"] for data in imported] == ["log-1", "log-1"]
    assert dropped == ["all its turns stand in log-2 already"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"messages": [USER, {"role": "assistant", "content": "Hi."}]}, "no reply that the record itself decides"),
        ({"prompt": "x"}, "has no messages"),
        (
            {"messages": [{**USER, "content": [{"type": "image_url"}]}, CALLS]},
            "holds content that is not text: image_url",
        ),
        ({"messages": [USER, CALLS]}, "unknown tool 'get_order'; offered: none"),
        ('{"messages": ', "not JSON: column"),
        ({"messages": [{"content": "no role"}]}, "not an OpenAI chat record: KeyError: 'role'"),
        (
            {
                "messages": [
                    USER,
                    {**CALLS, "tool_calls": [{**CALL, "function": {"name": "get_order", "arguments": "{"}}]},
                ]
            },
            "messages[1]: a call's arguments are not JSON",
        ),
    ],
)
def test_logs_that_cannot_be_turns(tmp_path, row, reason):
    imported, dropped = run("openai", lines(tmp_path / "log.jsonl", row))
    assert imported == []
    assert len(dropped) == 1
    assert reason in dropped[0]


# --- BFCL --------------------------------------------------------------------------------------

BOOK = {
    "name": "hotel.book",
    "description": "Book.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "price": {"type": "float"},
            "room": {"type": "dict", "properties": {"beds": {"type": "integer"}, "view": {"type": "string"}}},
            "span": {"type": "tuple", "items": {"type": "integer"}},
        },
        "required": ["city"],
    },
}


def bfcl(tmp_path, answer, category="simple_python", question="book in NEW-YORK please", function=BOOK):
    name = f"BFCL_v4_{category}.json"
    lines(tmp_path / "possible_answer" / name, {"id": "x_0", "ground_truth": [{"hotel.book": answer}]})
    row = {"id": "x_0", "question": [[{"role": "user", "content": question}]], "function": [function]}
    return run("bfcl", lines(tmp_path / name, row))


def test_bfcl_types_names_and_acceptable_values(tmp_path):
    (data,), dropped = bfcl(tmp_path, {"city": ["New York"], "price": ["", 20.5], "span": [[1, 2]]})
    assert dropped == []
    function = data["tools"][0]["function"]
    assert function["name"] == "hotel_book"
    assert function["parameters"]["type"] == "object"
    types = {name: part["type"] for name, part in function["parameters"]["properties"].items()}
    assert types == {"city": "string", "price": "number", "room": "object", "span": "array"}
    (call,) = data["messages"][-1]["expect"]["tool_calls"]
    assert call["arguments"] == {"price": 20.5, "span": [1, 2]}
    assert call["optional"] == ["price"]
    # As in the answer, as the customer wrote it (case and hyphen do not count in BFCL), and other cases.
    assert call["acceptable"]["city"] == ["New York", "NEW-YORK", "new york", "New york", "NEW YORK"]
    assert (data["source"], data["licence"]) == ("BFCL", "Apache-2.0")


def test_bfcl_objects_list_what_each_key_may_be(tmp_path):
    (data,), _ = bfcl(tmp_path, {"city": ["x"], "room": [{"beds": [1, 2], "view": ["sea", ""]}]})
    (call,) = data["messages"][-1]["expect"]["tool_calls"]
    expected = [{"beds": 1, "view": "sea"}, {"beds": 1}, {"beds": 2, "view": "sea"}, {"beds": 2}]
    assert call["acceptable"]["room"] == expected


def test_bfcl_other_spellings_only_where_the_schema_allows_them(tmp_path):
    function = json.loads(json.dumps(BOOK))
    function["parameters"]["properties"]["city"]["enum"] = ["New York"]
    (data,), _ = bfcl(tmp_path, {"city": ["New York"]}, function=function)
    assert data["messages"][-1]["expect"]["tool_calls"][0] == {"name": "hotel_book", "arguments": {"city": "New York"}}


def test_bfcl_irrelevance_forbids_every_tool(tmp_path):
    row = {"id": "i_0", "question": [[{"role": "user", "content": "hi"}]], "function": [BOOK]}
    (data,), _ = run("bfcl", lines(tmp_path / "BFCL_v4_irrelevance.json", row))
    assert data["messages"][-1]["expect"] == {"behaviour": "answer", "forbidden_tools": ["hotel_book"]}


def test_bfcl_contradictory_answer_is_dropped(tmp_path):
    imported, dropped = bfcl(tmp_path, {"city": [5]})
    assert imported == []
    assert "city: 5 is not of type 'string'" in dropped[0]


def test_bfcl_categories_that_need_more_than_comparing(tmp_path):
    row = {"id": "m_0", "question": [[USER], [USER]], "function": [BOOK]}
    _, dropped = run("bfcl", lines(tmp_path / "BFCL_v4_multi_turn_base.json", row))
    assert dropped == ["category multi_turn_base: needs BFCL's own environment or another language to score"]


def test_bfcl_without_its_answers(tmp_path):
    path = lines(tmp_path / "BFCL_v4_simple_python.json", {"id": "x"})
    with pytest.raises(InputError, match=r"its answers .* are missing"):
        run("bfcl", path)


# --- tau2 --------------------------------------------------------------------------------------


def tau2(tmp_path, **task):
    task = {
        "id": "7",
        "user_scenario": {
            "instructions": {
                "reason_for_call": "You want your order A-1.\n\nIf refused, you insist.",
                "known_info": "You are Ann. Your user id is ann_1.",
            }
        },
        "initial_state": None,
        **task,
    }
    path = tmp_path / "retail" / "tasks.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([task]))
    return run("tau2", path, Options(tools=(GET_ORDER,), system="Be kind."))


def gold(*actions):
    return {"actions": [{"name": name, "arguments": arguments, **more} for name, arguments, more in actions]}


def test_tau2_first_turn(tmp_path):
    (data,), dropped = tau2(tmp_path, evaluation_criteria=gold(("get_order", {"order_id": "A-1"}, {})))
    assert dropped == []
    system, user, turn = data["messages"]
    assert system == {"role": "system", "content": "Be kind."}
    assert user["content"] == "I want my order A-1.\nI am Ann. My user id is ann_1."
    assert turn["expect"]["tool_calls"] == [{"name": "get_order", "arguments": {"order_id": "A-1"}}]
    assert (data["id"], data["source"], data["licence"]) == ("tau2-retail-7", "tau2-bench retail", "MIT")


def test_tau2_arguments_that_are_not_compared_are_free(tmp_path):
    actions = gold(("get_order", {"order_id": "A-1"}, {"compare_args": []}))
    (data,), _ = tau2(tmp_path, evaluation_criteria=actions)
    assert data["messages"][-1]["expect"]["tool_calls"] == [{"name": "get_order", "free": ["order_id"]}]


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ({"evaluation_criteria": {"actions": []}}, "its gold has no call"),
        ({"evaluation_criteria": gold(("get_order", {"order_id": "B-9"}, {}))}, "has not stated"),
        ({"evaluation_criteria": gold(("cancel_order", {"order_id": "A-1"}, {}))}, "changes something"),
        ({"evaluation_criteria": gold(("get_order", {}, {"requestor": "user"}))}, "is the simulated customer's"),
        ({"user_scenario": {"instructions": "Call and complain."}}, "its instructions are free text"),
        ({"initial_state": {"message_history": [USER]}}, "starts in the middle"),
        ({"user_scenario": None}, "not in tau2's form"),
    ],
)
def test_tau2_tasks_that_need_the_simulator(tmp_path, task, reason):
    imported, dropped = tau2(tmp_path, **task)
    assert imported == []
    assert reason in dropped[0]


def test_tau2_needs_tools(tmp_path):
    with pytest.raises(InputError, match="carry no tool schemas"):
        run("tau2", tmp_path / "tasks.json")


# --- real cases --------------------------------------------------------------------------------


def case(**changes):
    return {
        "id": "c",
        "source": "S",
        "licence": "MIT",
        "slice": "tool_calls",
        "messages": [USER],
        "tools": [GET_ORDER],
        "expect": {
            "behaviour": "tool_call",
            "tool_calls": [{"name": "get_order", "arguments": {"order_id": "A-1"}}],
            "forbidden_tools": [],
            "must_include": [],
            "must_not_include": [],
            **changes,
        },
        "meta": {},
    }


def test_an_indicative_call_leaves_every_call_open_that_is_not_forbidden(tmp_path):
    other = {"type": "function", "function": {"name": "pay"}}
    row = {**case(partial=True, forbidden_tools=["pay"]), "tools": [GET_ORDER, other]}
    (data,), _ = run("real-cases", lines(tmp_path / "x.jsonl", row))
    expect = data["messages"][-1]["expect"]
    assert expect["forbidden_tools"] == ["pay"]
    assert expect["alternatives"] == [
        {"behaviour": "tool_call", "tool_calls": [{"name": "get_order", "free": ["order_id"]}]},
        {"behaviour": "answer", "say": [["re:\\S"]]},
    ]


def test_an_indicative_call_that_forbids_nothing_checks_nothing(tmp_path):
    _, dropped = run("real-cases", lines(tmp_path / "x.jsonl", case(partial=True)))
    assert dropped == ["the source calls its expected call only indicative and forbids nothing: checks nothing"]


def test_words_that_must_and_must_not_be_said(tmp_path):
    row = case(behaviour="answer", tool_calls=[], must_include=["yes", "20"], must_not_include=["no"])
    (data,), _ = run("real-cases", lines(tmp_path / "x.jsonl", row))
    assert data["messages"][-1]["expect"] == {"behaviour": "answer", "say": [["yes"], ["20"]], "never_say": ["no"]}


needs_real_cases = pytest.mark.skipif(not REAL_CASES.is_dir(), reason="needs the public cases beside the project")


@needs_real_cases
def test_all_contradictory_gold_is_caught_for_the_reason_its_collectors_give():
    path = REAL_CASES / "bfcl_contradictory_gold.jsonl"
    imported, dropped = run("real-cases", path)
    assert imported == []
    assert len(dropped) == 26
    known = [json.loads(line)["meta"]["schema_errors"][0] for line in path.read_text().splitlines()]
    for reason, schema_error in zip(dropped, known, strict=True):
        tool = schema_error.partition(":")[0]
        assert f"breaks the schema of {tool}" in reason or "left out, the call breaks the schema" in reason


@needs_real_cases
@pytest.mark.parametrize(
    ("name", "taken", "left"),
    [
        ("abcd_support", 65, {"the source calls its expected call only indicative and forbids nothing": 43}),
        ("bfcl_tool_calls", 126, {"with the optional parameters left out, the call breaks the schema": 1}),
        ("injection", 87, {}),
        ("tau_retail_airline", 80, {}),
        ("xstest_refusals", 140, {}),
    ],
)
def test_real_cases_are_imported_and_pass_the_check(name, taken, left, tmp_path):
    imported, dropped = run("real-cases", REAL_CASES / f"{name}.jsonl")
    assert len(imported) == taken
    assert Counter(next(k for k in left if k in reason) for reason in dropped) == Counter(left)
    licences = {json.loads(line)["licence"] for line in (REAL_CASES / f"{name}.jsonl").read_text().splitlines()}
    assert {data["licence"] for data in imported} == licences
    path = lines(tmp_path / f"{name}.jsonl", *imported)
    assert [str(c) for c in check(path, against=()) if c.severity == "error"] == []
    assert len(load(path).turns) == taken


@needs_real_cases
@pytest.mark.parametrize("name", ["abcd_support", "tau_retail_airline"])
def test_redacted_real_cases_still_pass_the_check(name, tmp_path):
    plain, _ = run("real-cases", REAL_CASES / f"{name}.jsonl")
    imported, _ = run("real-cases", REAL_CASES / f"{name}.jsonl", redacted=True)
    assert len(imported) == len(plain)
    path = lines(tmp_path / f"{name}.jsonl", *imported)
    assert [str(c) for c in check(path, against=()) if c.severity == "error"] == []
