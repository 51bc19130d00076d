"""The drift stage on records made by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.errors import RecordError, Verdict
from pipeline.golden import GoldenSet
from pipeline.serving.logprobs import TurnLogprobs
from pipeline.settings import DriftPolicy
from pipeline.stages import drift
from pipeline.statistics.facts import ReasonCode
from pipeline.store import Store

LINE = DriftPolicy(turns=2, catastrophe=1.0)


def turn(name: str, scenario: str, *slices: str) -> Turn:
    return Turn(name, name, scenario, slices, (), (), Expectation(Behaviour.ANSWER), {"role": "assistant"})


GOLDEN = GoldenSet("set", "set", "digest", 2, 2, (turn("a", "s1", "refunds"), turn("b", "s2", "tool_calls")), {})


def says(name: str, *shares: float, calls_from: int = 100, before: int = 10) -> TurnLogprobs:
    """A side that gives ``shares`` to the golden tokens 0, 1, ... and all the rest to one other token."""
    listings = tuple({n: math.log(share), 99: math.log(1 - share)} for n, share in enumerate(shares))
    return TurnLogprobs(name, "prompt", before, tuple(range(len(shares))), calls_from, listings)


def compare(tmp_path: Path, baseline: list[TurnLogprobs], candidate: list[TurnLogprobs]) -> tuple[dict[str, Any], Path]:
    for side, records in (("baseline", baseline), ("candidate", candidate)):
        (tmp_path / side).mkdir(exist_ok=True)
        (tmp_path / side / "logprobs.jsonl").write_text("".join(record.line() + "\n" for record in records))
    output = drift.run(
        Store(tmp_path / "store"), baseline=tmp_path / "baseline", candidate=tmp_path / "candidate", golden=GOLDEN
    )
    return drift.read_drift(output.path), output.path


def test_figures_over_all_tokens_and_by_group(tmp_path: Path) -> None:
    found, _ = compare(
        tmp_path,
        [says("a", 0.5, 0.5), says("b", 0.8, 0.5, calls_from=1, before=2047)],
        [says("a", 0.25, 0.5), says("b", 0.8, 0.25, calls_from=1, before=2047)],
    )
    moved = 0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75)  # from (1/2, 1/2) to (1/4, 3/4)
    rows = {(row["group"], row["name"]): row for row in found["rows"]}
    assert found["compared"] == 2
    assert next(iter(rows)) == ("all", "all tokens")
    everything = rows["all", "all tokens"]
    assert everything["mean"] == pytest.approx(moved / 2, abs=1e-5)
    assert everything["median"] == pytest.approx(moved / 2, abs=1e-5)
    assert everything["maximum"] == pytest.approx(moved, abs=1e-5)
    assert everything["same_top"] == 0.5  # the gold token is level with the other one, and the lower id
    assert everything["mean_change"] == pytest.approx(-0.125)
    assert everything["perplexity_ratio"] == pytest.approx(math.sqrt(2))
    assert everything["mean_interval"] is not None
    tokens = {group: row["tokens"] for group, row in rows.items()}
    assert tokens == {
        ("all", "all tokens"): 4,
        ("role", "assistant text"): 3,
        ("role", "tool call"): 1,
        ("position", "first 50 tokens"): 4,
        ("context", "past 2,048"): 1,
        ("context", "within 2,048"): 3,
        ("slice", "refunds"): 2,
        ("slice", "tool_calls"): 2,
    }
    assert rows["role", "tool call"]["mean"] == pytest.approx(moved, abs=1e-5)
    assert rows["slice", "refunds"]["mean_interval"] is None  # of one scenario


def test_positions_are_of_the_reply_and_contexts_of_the_conversation(tmp_path: Path) -> None:
    long = says("a", *[0.5] * 60, before=2000)
    found, _ = compare(tmp_path, [long, says("b", 0.5)], [long, says("b", 0.5)])
    tokens = {row["name"]: row["tokens"] for row in found["rows"]}
    assert (tokens["first 50 tokens"], tokens["later tokens"]) == (51, 10)
    # Token n of the reply (from 0) is number 2001 + n of the conversation: n = 48 to 59 lie past 2,048.
    assert (tokens["within 2,048"], tokens["past 2,048"]) == (49, 12)


def test_turns_are_listed_the_one_that_drifted_most_first(tmp_path: Path) -> None:
    found, path = compare(
        tmp_path, [says("a", 0.5), says("b", 0.5, 0.5, 0.5)], [says("a", 0.49), says("b", 0.5, 0.1, 0.4)]
    )
    lines = [json.loads(line) for line in (path / "drift_turns.jsonl").read_text().splitlines()]
    assert [line["turn_id"] for line in lines] == ["b", "a"]
    assert (lines[0]["worst_token"], lines[0]["worst_token_id"]) == (1, 1)
    assert lines[0]["slices"] == ["tool_calls"]
    assert found["turn_means"] == {line["turn_id"]: line["mean"] for line in lines}


def test_the_same_says_nothing_and_argues_for_nothing(tmp_path: Path) -> None:
    both = [says("a", 0.5, 0.9), says("b", 0.3)]
    found, _ = compare(tmp_path, both, both)
    assert found["rows"][0]["mean"] == 0
    assert found["rows"][0]["perplexity_ratio"] == 1
    assert drift.reasons(found, LINE) == []


def test_beyond_the_line_the_candidate_is_rejected(tmp_path: Path) -> None:
    before, after = [says("a", 0.99), says("b", 0.99)], [says("a", 0.01), says("b", 0.01)]
    found, _ = compare(tmp_path, before, after)
    assert found["rows"][0]["mean"] == pytest.approx(0.98 * math.log(99), abs=1e-4)  # 4.50 nats
    (reason,) = drift.reasons(found, LINE)
    assert (reason.code, reason.verdict) == (ReasonCode.DRIFT, Verdict.REJECT)
    assert "4.50 nats" in reason.text
    assert "0% of 2 tokens" in reason.text
    assert drift.reasons(found, DriftPolicy(turns=2, catastrophe=4.6)) == []


def unread(name: str) -> TurnLogprobs:
    return TurnLogprobs(name, error="HTTP 400: too long")


def test_what_one_side_could_not_read_is_invalid(tmp_path: Path) -> None:
    found, _ = compare(tmp_path, [says("a", 0.5), says("b", 0.5)], [says("a", 0.5), unread("b")])
    assert found["compared"] == 1
    (reason,) = drift.reasons(found, LINE)
    assert (reason.code, reason.verdict) == (ReasonCode.DRIFT_UNKNOWN, Verdict.INVALID)
    assert "at 1 of 2 turns: b: candidate: HTTP 400: too long." in reason.text


def test_what_neither_side_could_read_is_left_out_unless_it_is_all(tmp_path: Path) -> None:
    found, _ = compare(tmp_path, [says("a", 0.5), unread("b")], [says("a", 0.5), unread("b")])
    assert (found["compared"], list(found["unread"])) == (1, ["b"])
    assert drift.reasons(found, LINE) == []
    found, _ = compare(tmp_path, [unread("a"), unread("b")], [unread("a"), unread("b")])
    (reason,) = drift.reasons(found, LINE)
    assert (reason.code, reason.verdict) == (ReasonCode.DRIFT_UNKNOWN, Verdict.INVALID)


def test_a_few_turns_do_not_speak_for_many_that_neither_side_could_read(tmp_path: Path) -> None:
    found, _ = compare(tmp_path, [says("a", 0.5), unread("b")], [says("a", 0.5), unread("b")])
    found |= {"turns": 3, "unread": found["unread"] | {"c": "both: HTTP 400"}}
    (reason,) = drift.reasons(found, LINE)
    assert (reason.code, reason.verdict) == (ReasonCode.DRIFT_UNKNOWN, Verdict.INVALID)
    assert "not known at 2 of 3 turns: b: " in reason.text
    (nothing,) = drift.reasons(found | {"turns": 0, "compared": 0, "unread": {}}, LINE)
    assert nothing.code is ReasonCode.DRIFT_UNKNOWN


def test_a_turn_without_a_record_is_not_known(tmp_path: Path) -> None:
    found, _ = compare(tmp_path, [says("a", 0.5), says("b", 0.5)], [says("a", 0.5)])
    assert [reason.code for reason in drift.reasons(found, LINE)] == [ReasonCode.DRIFT_UNKNOWN]


@pytest.mark.parametrize(
    "other", [replace(says("b", 0.5), token_ids=(7,)), replace(says("b", 0.5), prompt_digest="other")]
)
def test_other_tokens_on_one_side_are_another_prompt(tmp_path: Path, other: TurnLogprobs) -> None:
    found, _ = compare(tmp_path, [says("a", 0.5), says("b", 0.5)], [says("a", 0.5), other])
    (reason,) = drift.reasons(found, LINE)
    assert (reason.code, reason.verdict) == (ReasonCode.PROMPTS_DIFFER, Verdict.INVALID)


def test_missing_records_break_the_run(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="log-probabilities"):
        drift.run(Store(tmp_path), baseline=tmp_path / "no", candidate=tmp_path / "such", golden=GOLDEN)
