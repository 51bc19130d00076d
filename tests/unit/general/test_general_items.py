"""The generated items of the general tasks: reproducible, solvable, long enough, and seen by nobody."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from pipeline.errors import GoldenSetError, SettingsError
from pipeline.general.suite import Suite, demand_unseen, load_suite
from pipeline.golden.contamination import SeenText
from pipeline.golden.reading import Record, read_jsonl
from pipeline.settings import PROJECT_ROOT, SuiteSettings, SuiteTask, load_settings

ROOT = PROJECT_ROOT / "golden_sets" / "general"
TASKS = ("arithmetic", "instructions", "reading", "choice", "json", "long_context")
GOLDEN = sorted((PROJECT_ROOT / "golden_sets" / "support" / "transcripts").glob("*.jsonl"))
CALIBRATION = sorted((PROJECT_ROOT / "golden_sets" / "calibration").glob("*.jsonl"))


def module(path: Path) -> ModuleType:
    """A script of the suite, which is no package."""
    spec = importlib.util.spec_from_file_location(f"general_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    sys.path.insert(0, str(ROOT / "authoring"))
    return module(ROOT / "authoring" / "generate.py")


@pytest.fixture(scope="module")
def scoring() -> ModuleType:
    return module(ROOT / "tasks" / "scoring.py")


def rows(task: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()]


def suite() -> Suite:
    return load_suite("own")


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_alone_makes_the_files(generate: ModuleType, task: str) -> None:
    assert generate.text_of(task) == (ROOT / f"{task}.jsonl").read_text(encoding="utf-8")
    assert generate.text_of(task, seed=1) != generate.text_of(task)


def test_every_kind_has_items_and_there_are_enough() -> None:
    counts = suite().counts()
    assert set(counts) == {f"general.{task}" for task in TASKS}
    assert min(counts.values()) >= 60
    assert sum(counts.values()) == sum(len(rows(task)) for task in TASKS) >= 300


def test_ids_are_unique() -> None:
    ids = [row["id"] for task in TASKS for row in rows(task)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("question", "answer"),
    [  # worked out by hand
        ("Gudrun packs peaches into 5 crates of 20 each and sells 30 of them at the gate.", "70"),
        ("Three friends share a bill of 84 euros equally. Edwina pays 5 euros more than that as a tip.", "33"),
        ("A rope of 75 metres is cut into pieces of 9 metres.", "3"),
        ("Dmitri walks 3162 steps to work and the same way back, 6 days a week. Ilse walks 749 steps less", "37195"),
        ("A hall has 15 rows of 24 seats. For a concert 50 seats stay empty.", "310"),
    ],
)
def test_word_problems_are_solved(question: str, answer: str) -> None:
    (found,) = [row for row in rows("arithmetic") if row["question"].startswith(question)]
    assert found["answer"] == answer


def test_answers_of_word_problems_are_whole_and_positive() -> None:
    assert all(re.fullmatch(r"[1-9]\d*|0", row["answer"]) for row in rows("arithmetic"))


def test_the_object_to_extract_follows_its_schema() -> None:
    for row in rows("json"):
        schema, _ = json.JSONDecoder().raw_decode(row["question"].partition("Schema: ")[2])
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(row["answer"]), schema)


@pytest.mark.parametrize("task", ["reading", "long_context"])
def test_the_text_holds_the_answer_and_the_others(task: str) -> None:
    computed = ("How many minutes did the second", "rough weather", "How many minutes does the way back")
    for row in rows(task):
        if any(part in row["question"] for part in computed):
            continue
        assert any(answer in row["question"] for answer in row["answers"]), row["id"]
        assert not set(row["answers"]) & set(row["others"]), row["id"]
        if task == "long_context":
            assert all(other in row["question"] for other in row["others"]), row["id"]


def test_long_texts_take_thousands_of_tokens() -> None:
    """The embedded model's tokenizer makes 1.3 tokens of a word of prose: 2,098 to 5,717 tokens."""
    words = [len(row["question"].split()) for row in rows("long_context")]
    assert min(words) > 1000
    assert max(words) < 4600


def test_choices_differ_and_the_right_one_is_among_them() -> None:
    for row in rows("choice"):
        assert len(set(row["choices"])) == 4
        assert row["answer"] in range(4)
    right = {row["question"]: row["choices"][row["answer"]] for row in rows("choice")}
    assert right["What is the capital of Australia?"] == "Canberra"
    assert right["What is the past tense of the verb 'to swim'?"] == "swam"
    places = [row["answer"] for row in rows("choice")]
    assert min(map(places.count, range(4))) > 30  # no place is a good guess


# --- scoring -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ({"type": "words", "at_least": 2, "at_most": 3}, "It's a dog", "one"),
        ({"type": "sentences", "count": 2}, "One is. Two are.", "One is. Two are. Three"),
        ({"type": "lower_case"}, "all small", "All small"),
        ({"type": "upper_case"}, "ALL BIG 7", "ALL Big"),
        ({"type": "without", "texts": [","]}, "no comma", "a, b"),
        ({"type": "with", "texts": ["river", "copper"]}, "The River is copper.", "riverside copper"),
        ({"type": "without_words", "words": ["the"]}, "there they went", "The end"),
        ({"type": "starts", "text": "Listen:"}, "Listen: a bell", "Now listen: a bell"),
        ({"type": "ends", "text": "So it goes."}, "A bell. So it goes.", "So it goes. A bell."),
        ({"type": "bullets", "count": 2}, "- a\n- b", "Here:\n- a\n- b"),
        ({"type": "numbered", "count": 2}, "1. a\n2. b", "1. a\n3. b"),
        ({"type": "quoted"}, '"a bell"', 'a "bell"'),
        ({"type": "title"}, "<<A Bell>>\nIt rang.", "A Bell"),
        ({"type": "paragraphs", "count": 2}, "a\n\nb", "a\nb"),
        ({"type": "exactly", "text": "Greta sleeps."}, "Greta sleeps.\n", "Greta sleeps"),
    ],
)
def test_instructions_are_verified(scoring: ModuleType, check: dict[str, Any], good: str, bad: str) -> None:
    doc = {"checks": json.dumps([check])}
    assert scoring.followed(doc, [good]) == {"followed": 1.0}
    assert scoring.followed(doc, [bad]) == {"followed": 0.0}
    assert scoring.followed(doc, ["  \n"]) == {"followed": 0.0}


def test_every_check_of_the_items_is_known(scoring: ModuleType) -> None:
    used = {check["type"] for row in rows("instructions") for check in json.loads(row["checks"])}
    assert used == set(scoring._CHECKS)


def test_a_text_that_rules_ask_for_does_not_break_another_rule(scoring: ModuleType) -> None:
    for row in rows("instructions"):
        checks = json.loads(row["checks"])
        asked = [check["text"] for check in checks if check["type"] in ("starts", "ends")]
        others = [check for check in checks if check["type"] in ("without", "without_words")]
        assert all(scoring._CHECKS[check["type"]](text, check) for check in others for text in asked), row["id"]


def test_naming_a_wrong_answer_as_well_is_no_answer(scoring: ModuleType) -> None:
    doc = {"answers": ["Monday"], "others": ["Tuesday"]}
    assert scoring.named(doc, ["On Mondays."]) == {"named": 1.0}
    assert scoring.named(doc, ["Monday or Tuesday"]) == {"named": 0.0}
    assert scoring.named(doc, ["Mondayish"]) == {"named": 0.0}
    assert scoring.named(doc, [""]) == {"named": 0.0}


@pytest.mark.parametrize(
    ("reply", "passed"),
    [
        ('{"b": true, "a": 1}', True),
        ('```json\n{"a": 1, "b": true}\n```', True),
        ('Here it is: {"a": 1, "b": true}', False),
        ('{"a": 1, "b": 1}', False),
        ('{"a": "1", "b": true}', False),
        ('{"a": 1, "b": true, "c": null}', False),
        ("", False),
    ],
)
def test_objects_are_compared_as_json(scoring: ModuleType, reply: str, passed: bool) -> None:
    doc = {"answer": '{"a": 1, "b": true}'}
    assert scoring.extracted(doc, [reply]) == {"extracted": float(passed)}


# --- leaks -------------------------------------------------------------------------------------


def test_no_item_stands_in_golden_transcripts_or_calibration_text() -> None:
    text = [record for path in (*GOLDEN, *CALIBRATION) for record in read_jsonl(path)]
    demand_unseen(suite(), [(str(record), record.data) for record in text if isinstance(record, Record)])


def test_no_item_stands_in_the_demo_models_training_text() -> None:
    sys.path.insert(0, str(PROJECT_ROOT / "examples" / "demo_model"))
    import generate as training

    made = [
        (f"{business} {number}", conversation)
        for business in training.BUSINESSES
        for number, conversation in enumerate(training.conversations(business, seed=1, per_template=1))
    ]
    assert len(made) > 300
    demand_unseen(suite(), made)


def test_no_golden_transcript_stands_in_the_items() -> None:
    seen = SeenText()
    assert seen.add_files(ROOT / f"{task}.jsonl" for task in TASKS) == []
    for path in GOLDEN:
        for record in read_jsonl(path):
            assert isinstance(record, Record)
            assert list(seen.check(record)) == []


def test_a_leak_is_refused_with_its_place() -> None:
    leak = {"messages": [{"role": "user", "content": rows("reading")[3]["question"]}]}
    with pytest.raises(GoldenSetError, match=r"reading-003.*log\.jsonl:1"):
        demand_unseen(suite(), [("log.jsonl:1", leak)])


# --- suites ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((PROJECT_ROOT / "configs" / "lm_eval").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_suites_are_valid(path: Path) -> None:
    settings = load_settings(path, SuiteSettings)
    assert load_suite(path.stem).tasks == settings.tasks


def test_a_policy_that_asks_for_an_unknown_task_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"general\.tasks: poetry: not in the suite"):
        load_suite("own", ["reading", "poetry"])
    assert list(load_suite("own", ["reading"]).tasks) == ["reading"]


def test_the_digest_of_a_suite_follows_its_items(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "a.jsonl").write_text('{"question": "x"}\n')
    made = Suite("s", tmp_path, {"a": SuiteTask(task="t", metric="acc", interface="chat", items="a.jsonl")})
    before = made.digest
    (tmp_path / "a.jsonl").write_text('{"question": "y"}\n')
    assert before is not None
    assert made.digest not in (None, before)
    assert Suite("hub", None, {}).digest is None
