"""Whether two replays may be compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluators.turn import Reply
from pipeline.errors import Verdict
from pipeline.serving.records import Record, write_records
from pipeline.stages.comparability import Conditions, comparable, without_effect
from pipeline.statistics.facts import ReasonCode

ENGINE = {
    "identity": {"version": "1.0", "flags": ["--tool-call-parser", "hermes"], "hardware": "a processor"},
    "running": {"version": "1.0", "settings": {"dtype": "bfloat16", "kv_cache_dtype": "auto"}, "kernels": ["a"]},
}


def record(turn: str, **changes: Any) -> Record:
    return replace(Record(turn, f"asked {turn}", Reply(turn, content="x"), f"tokens {turn}", 9, 0.1, 1), **changes)


def kept(directory: Path, *records: Record, engine: Any = ENGINE) -> Conditions:
    """The conditions of a replay that left these files."""
    directory.mkdir()
    write_records(directory / "replies.jsonl", records)
    if engine is not None:
        (directory / "engine.json").write_text(engine if isinstance(engine, str) else json.dumps(engine))
    return Conditions.of(directory)


@pytest.fixture
def baseline(tmp_path: Path) -> Conditions:
    return kept(tmp_path / "baseline", record("a"), record("b"))


def changed(part: str, **values: Any) -> dict[str, Any]:
    return {**ENGINE, part: {**ENGINE[part], **values}}  # type: ignore[dict-item]


def test_a_variant_that_the_engine_ignores_is_told(baseline: Conditions, tmp_path: Path) -> None:
    kept(tmp_path / "same", record("a"))
    kept(
        tmp_path / "other",
        record("a"),
        engine=changed("running", settings={"dtype": "bfloat16", "kv_cache_dtype": "fp8"}),
    )

    def idle(name: str, setting: str, value: str = "fp8") -> list[str]:
        return without_effect(tmp_path / "baseline", tmp_path / name, {setting: ("auto", value)})

    (told,) = idle("same", "kv_cache_dtype")
    assert told.startswith(
        "that the candidate's kv_cache_dtype does anything: kv_cache_dtype in effect is auto on both"
    )
    assert idle("other", "kv_cache_dtype") == []
    assert idle("same", "kv_cache_dtype", "float8 of the checkpoint") == []  # the engine obeys it without a word
    assert idle("same", "max_num_seqs") == []  # the engine tells nothing of it


def test_equal_sides_may_be_compared_whatever_the_weights_made_of_it(baseline: Conditions, tmp_path: Path) -> None:
    said = Reply("a", content="something else")
    engine = changed("running", kernels=["another"], seconds_to_start=3)  # kernels follow from the weights
    other = kept(tmp_path / "other", record("a", reply=said, latency_s=9.0), record("b"), engine=engine)
    assert comparable(baseline, {"candidate": other}) == []


@pytest.mark.parametrize(("digest", "unknown"), [("others", 0), (None, 1)])
def test_other_or_unknown_tokens_are_found(
    digest: str | None, unknown: int, baseline: Conditions, tmp_path: Path
) -> None:
    other = kept(tmp_path / "other", record("a"), record("b", prompt_token_ids_digest=digest))
    (reason,) = comparable(baseline, {"candidate": other})
    assert (reason.code, reason.verdict) == (ReasonCode.PROMPTS_DIFFER, Verdict.INVALID)
    assert reason.figures == {"turns": 2, "differing": 1, "unknown": unknown}
    assert "1 of 2 turns: b" in reason.text


def test_other_requests_are_found(baseline: Conditions, tmp_path: Path) -> None:
    """Sampling, messages and tools are all in the request's digest."""
    other = kept(tmp_path / "other", record("a", request_digest="hotter"), record("b"))
    (reason,) = comparable(baseline, {"candidate": other})
    assert reason.code is ReasonCode.CONDITIONS_DIFFER
    assert reason.figures == {"turns": 2, "differing": 1}


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (changed("identity", flags=["--tool-call-parser", "mistral"]), "flags"),
        (changed("identity", hardware="another"), "hardware"),
        (changed("identity", chat_template="f00"), "chat_template"),
        (changed("running", version="1.1"), "version in effect"),
        (changed("running", settings={"dtype": "bfloat16", "kv_cache_dtype": "fp8"}), "kv_cache_dtype in effect"),
        (changed("running", settings={"dtype": "bfloat16"}), "kv_cache_dtype in effect"),
    ],
)
def test_another_engine_or_setting_is_found_and_shown(
    engine: dict[str, Any], name: str, baseline: Conditions, tmp_path: Path
) -> None:
    other = kept(tmp_path / "other", record("a"), record("b"), engine=engine)
    (reason,) = comparable(baseline, {"candidate": other})
    assert reason.code is ReasonCode.CONDITIONS_DIFFER
    assert set(reason.figures or {}) == {f"{name} (baseline)", f"{name} (candidate)"}


@pytest.mark.parametrize("engine", [None, "{", "{}", "[]", '{"identity": {}, "running": {"version": "1"}}'])
def test_an_unknown_engine_is_a_difference(engine: Any, baseline: Conditions, tmp_path: Path) -> None:
    other = kept(tmp_path / "other", record("a"), record("b"), engine=engine)
    (reason,) = comparable(baseline, {"baseline repeat 1": other})
    assert reason.code is ReasonCode.CONDITIONS_DIFFER
    assert "not known" in reason.text and "baseline repeat 1" in reason.text


def test_every_side_is_looked_at(baseline: Conditions, tmp_path: Path) -> None:
    odd = kept(tmp_path / "odd", record("a", prompt_token_ids_digest="others"), record("b"))
    fine = kept(tmp_path / "fine", record("a"), record("b"))
    reasons = comparable(baseline, {"candidate": fine, "baseline repeat 1": odd})
    assert ["baseline repeat 1" in reason.text for reason in reasons] == [True]
