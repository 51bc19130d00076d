"""Choosing calibration conversations."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evaluators.turn import Expectation, Turn
from pipeline.errors import GoldenSetError
from pipeline.golden import GoldenSet
from pipeline.quantizers.calibration import demand_disjoint, select, write
from pipeline.settings import PROJECT_ROOT
from pipeline.stages.quantize import demand_no_leak, shipped_sets
from pipeline.store import Store


def conversation(n: int, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": f"a{n}"}], **more}


def written(root: Path, lines: list[Any], name: str = "some.jsonl") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def test_choice_depends_on_conversations_and_seed_only(tmp_path: Path) -> None:
    lines = [conversation(n) for n in range(20)]
    together = select(written(tmp_path / "a", lines), 5)
    parts = written(written(tmp_path / "b", lines[10:], "x.jsonl"), lines[9::-1], "y.jsonl")
    assert select(parts, 5).samples == together.samples
    assert select(parts, 5).digest == together.digest
    assert select(parts, 5, seed=1).samples != together.samples
    assert select(parts, 6).digest != together.digest
    assert (together.available, len(together.samples)) == (20, 5)


def test_the_same_conversation_counts_once(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="2 different conversations, the recipe asks for 3"):
        select(written(tmp_path, [conversation(1), conversation(2), conversation(1)]), 3)


def test_policy_and_tools_are_found_in_a_golden_set_beside(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "properties": {}}}}
    (tmp_path / "support" / "policies").mkdir(parents=True)
    (tmp_path / "support" / "tools").mkdir()
    (tmp_path / "support" / "transcripts").mkdir()
    (tmp_path / "support" / "policies" / "shop.md").write_text("---\nid: shop\nrules: []\n---\nBe kind.\n")
    (tmp_path / "support" / "tools" / "shop.json").write_text(json.dumps([tool]))
    root = written(tmp_path / "calibration", [conversation(1, policy="shop", tools="shop")])
    (sample,) = select(root, 1).samples
    assert sample["messages"][0] == {"role": "system", "content": "Be kind."}
    assert sample["tools"] == [tool]
    bad = written(tmp_path / "other", [conversation(1, tools="nowhere")])
    with pytest.raises(GoldenSetError, match=r"some\.jsonl:1: -: tools: no tool file 'nowhere'"):
        select(bad, 1)


TOOLS = [{"type": "function", "function": {"name": "t"}}]


def test_what_lies_beside_and_is_no_golden_set_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibration text may lie anywhere: beside it stand other people's folders, some of them locked."""
    for folder in ("other/tools", "set/tools", "set/transcripts", "locked"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "other" / "tools" / "hammer.json").write_text('{"weight": 3}')
    (tmp_path / "set" / "tools" / "broken.json").write_text("{")
    (tmp_path / "set" / "tools" / "shop.json").write_text(json.dumps(TOOLS))
    stat = os.stat

    def locked(path: Any, *more: Any, **named: Any) -> os.stat_result:
        if "/locked/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *more, **named)

    monkeypatch.setattr(os, "stat", locked)
    assert select(written(tmp_path / "plain", [conversation(1)]), 1).available == 1
    (sample,) = select(written(tmp_path / "named", [conversation(1, tools="shop")]), 1).samples
    assert sample["tools"] == TOOLS
    with pytest.raises(GoldenSetError, match="tools: no tool file 'hammer' here or in a golden set beside"):
        select(written(tmp_path / "a", [conversation(1, tools="hammer")]), 1)
    with pytest.raises(GoldenSetError, match=r"no tool file 'broken' .*\n.*set/tools/broken\.json:1: broken: .*JSON"):
        select(written(tmp_path / "b", [conversation(1, tools="broken")]), 1)


def test_golden_transcripts_are_refused_by_place_and_by_content(tmp_path: Path) -> None:
    golden = written(tmp_path / "support" / "transcripts", [conversation(1)])
    with pytest.raises(GoldenSetError, match="lies inside the golden set"):
        select(golden, 1)
    link = tmp_path / "calibration"
    link.mkdir()
    (link / "sly.jsonl").symlink_to(golden / "some.jsonl")
    with pytest.raises(GoldenSetError, match="lies inside the golden set"):
        select(link, 1)
    marked = conversation(1)
    marked["messages"][1]["expect"] = {"behaviour": "answer"}
    with pytest.raises(GoldenSetError, match=r"some\.jsonl:2: -: messages\[1\]\.expect"):
        select(written(tmp_path / "c", [conversation(0), marked]), 1)


@pytest.mark.parametrize("line", ["not json", "[]", '{"messages": []}', '{"messages": "x"}'])
def test_broken_line_is_named(tmp_path: Path, line: str) -> None:
    written(tmp_path, [conversation(1)])
    with (tmp_path / "some.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(GoldenSetError, match=r"some\.jsonl:2: "):
        select(tmp_path, 1)


USER = {"role": "user", "content": "q"}


def called(*calls: Any) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", "content": None, "tool_calls": list(calls)}]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"messages": [USER, "a"]}, "messages[1]: a chat message is a JSON object"),
        ({"messages": [{"content": "q"}]}, "messages[0].role: one of system, developer, user, assistant, tool is need"),
        ({"messages": [USER, {"role": "bot", "content": "a"}]}, "messages[1].role: one of system"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content: text is needed"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content: text is needed"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content: text is needed"),
        ({"messages": [USER, {"role": "assistant"}]}, "messages[1].content: text is needed; only an assistant that"),
        ({"messages": [{"role": "system", "content": "s"}]}, "messages: no message of a user"),
        ({"messages": called({"name": "t"})}, "messages[1].tool_calls[0]: an OpenAI tool call is needed"),
        ({"messages": called("t")}, "messages[1].tool_calls[0]: an OpenAI tool call is needed"),
        ({"messages": called({"function": {"name": "t"}})}, "messages[1].tool_calls[0].function.arguments: a JSON obj"),
        (
            {"messages": called({"function": {"name": "t", "arguments": "{not json"}})},
            "messages[1].tool_calls[0].function.arguments: a JSON object is needed, or its text",
        ),
        (
            {"messages": called({"function": {"name": "t", "arguments": "[1]"}})},
            "messages[1].tool_calls[0].function.arguments: a JSON object",
        ),
        ({"messages": [USER | {"tool_calls": 3}]}, "messages[0].tool_calls: a list of tool calls is needed"),
        (conversation(1, tools=7), "tools: a list of OpenAI function tools is needed, or the name of a tool file"),
        (conversation(1, tools=[{"name": "t"}]), "tools[0]: an OpenAI function tool is needed"),
        (conversation(1, policy=3), "policy: the name of a policy file is needed"),
    ],
)
def test_what_no_template_can_render_is_named_with_its_field(tmp_path: Path, line: Any, complaint: str) -> None:
    with pytest.raises(GoldenSetError) as raised:
        select(written(tmp_path, [conversation(1), line]), 1)
    told = raised.value.message.splitlines()
    assert told[1].startswith(f"{tmp_path}/some.jsonl:2: -: {complaint}")
    assert raised.value.remedy == "Mend the lines named, then run again."


def test_all_broken_lines_are_named_at_once(tmp_path: Path) -> None:
    broken = {"messages": [{"role": "user"}]}
    with pytest.raises(GoldenSetError) as raised:
        select(written(tmp_path, [broken, conversation(1), broken]), 1)
    assert [line.split(": ")[0] for line in raised.value.message.splitlines()[1:]] == [
        f"{tmp_path}/some.jsonl:1",
        f"{tmp_path}/some.jsonl:3",
    ]


def test_what_logs_hold_beside_is_left_alone(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": ""}}
    logged = {
        "model": "some",
        "tools": [{"type": "function", "function": {"name": "t", "parameters": {}, "cached": True}}],
        "messages": [
            {"role": "developer", "content": "d"},
            USER | {"name": "anna"},
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
            {"role": "tool", "content": ""},
            {"role": "assistant", "content": "a", "tool_calls": None},
        ],
    }
    (sample,) = select(written(tmp_path, [logged]), 1).samples
    assert sample == {"messages": logged["messages"], "tools": logged["tools"]}


def test_a_file_that_is_a_link_to_itself(tmp_path: Path) -> None:
    root = written(tmp_path, [conversation(1)])
    (root / "b.jsonl").symlink_to("b.jsonl")
    with pytest.raises(GoldenSetError, match=r"b\.jsonl: where it lies cannot be told"):
        select(root, 1)


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match=r"no \*\.jsonl file"):
        select(tmp_path, 1)


def test_written_text_is_one_conversation_a_line(tmp_path: Path) -> None:
    odd = {"messages": [{"role": "user", "content": "line\u2028end\nnew"}]}
    text = select(written(tmp_path, [odd, conversation(1)]), 2)
    write(text, tmp_path / "out")
    read = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").split("\n") if line]
    assert read == list(text.samples)


# A run of 13 words is the n-gram of Brown et al. 2020, appendix C; twelve are not enough.
THIRTEEN = "my parcel with the blue lamp has not arrived since the third of"
TWELVE = THIRTEEN.rsplit(" ", 1)[0]


def golden(user: str, assistant: str = "I am sorry.") -> GoldenSet:
    """A set of one transcript with two checkpointed turns."""
    asked = {"role": "user", "content": user}
    turns = tuple(
        Turn(
            id=f"t#{2 * n + 1}",
            transcript_id="t",
            scenario="s",
            slices=(),
            messages=(asked, {"role": "assistant", "content": assistant}, asked)[: 2 * n + 1],
            tools=(),
            expect=Expectation(behaviour="answer"),
            gold={"role": "assistant", "content": assistant},
        )
        for n in (0, 1)
    )
    return GoldenSet("support", "support", "d", 1, 1, turns, {})


def texts(root: Path, user: str, assistant: str = "Well.") -> Path:
    said = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return written(root, [conversation(1), {"messages": said}])


def test_a_leak_names_the_transcript_and_the_calibration_line(tmp_path: Path) -> None:
    text = select(texts(tmp_path, f"Hello, {THIRTEEN.title()} May!"), 2)
    with pytest.raises(GoldenSetError) as raised:
        demand_disjoint(text, golden(f"Well: {THIRTEEN}, no?"))
    (first, second) = raised.value.message.splitlines()[1:]
    assert first.startswith("support:0: t: messages[0].content: the customer's words also stand in ")
    assert f"{tmp_path}/some.jsonl:2" in first
    assert "messages[2].content" in second
    assert "out of the calibration text" in raised.value.remedy


def test_twelve_words_and_an_assistants_phrases_are_no_leak(tmp_path: Path) -> None:
    text = select(texts(tmp_path, f"so {TWELVE}", assistant=f"I see that {THIRTEEN}"), 2)
    demand_disjoint(text, golden(f"but {TWELVE}, really", assistant=f"You say {THIRTEEN} May."))


def test_only_the_chosen_conversations_count(tmp_path: Path) -> None:
    root = texts(tmp_path, THIRTEEN)
    one = select(root, 1)
    other = select(root, 1, seed=next(s for s in range(50) if select(root, 1, seed=s).samples != one.samples))
    leaking, clean = sorted((one, other), key=lambda text: THIRTEEN not in json.dumps(text.samples))
    demand_disjoint(clean, golden(THIRTEEN))
    with pytest.raises(GoldenSetError):
        demand_disjoint(leaking, golden(THIRTEEN))


def test_other_sets_are_looked_through_too(tmp_path: Path) -> None:
    line = {"id": "o1", "scenario": "s", "messages": conversation(7)["messages"]}
    line["messages"][0]["content"] = f"{THIRTEEN} June"
    written(tmp_path / "other" / "transcripts", [line])
    text = select(texts(tmp_path / "calibration", THIRTEEN), 2)
    demand_disjoint(text, golden("Where is my parcel?"))
    with pytest.raises(GoldenSetError, match=r"some\.jsonl:1: o1: messages\[0\]\.content"):
        demand_disjoint(text, golden("Where is my parcel?"), [tmp_path / "other"])


def test_an_unreadable_set_is_not_taken_for_a_clean_one(tmp_path: Path) -> None:
    folder = written(tmp_path / "other" / "transcripts", [{}])
    (folder / "some.jsonl").write_text("not json\n")
    text = select(texts(tmp_path / "calibration", "Hello"), 2)
    with pytest.raises(GoldenSetError, match=r"some\.jsonl:1: "):
        demand_disjoint(text, golden("Where is my parcel?"), [tmp_path / "other"])


def test_shipped_text_is_enough_and_disjoint() -> None:
    text = select(PROJECT_ROOT / "golden_sets" / "calibration", 256)
    demand_disjoint(text, golden("Where is my parcel?"), shipped_sets())
    assert any("tool_calls" in message for sample in text.samples for message in sample["messages"])
    assert all(sample["tools"] for sample in text.samples)


def test_text_that_holds_a_general_item_is_refused_whatever_the_policy_asks(tmp_path: Path) -> None:
    line = (PROJECT_ROOT / "golden_sets" / "general" / "reading.jsonl").read_text(encoding="utf-8").splitlines()[0]
    text = select(texts(tmp_path / "calibration", json.loads(line)["question"]), 2)
    with pytest.raises(GoldenSetError, match=r"suite own:\n.*reading\.jsonl:1: reading-000"):
        demand_no_leak(Store(tmp_path / "home"), text, golden("Where is my parcel?"), [])
