"""Accepted, and no release all the same: what a ladder did not confirm, and what was a tour."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import RecordError, SignoffError
from pipeline.signoff.eligible import demand_eligible, halved

HALF = "/data/.quant-gate/stages/halves/0123456789abcdef/first-half"
WHOLE = "quant-gate run --model some/model --recipe int4"


def demand(
    runs: Path, model: str = "some/model", command: str = WHOLE, digest: str = "d", release: bool = True
) -> None:
    run = {"model": model, "recipe": "int4", "command": command}
    demand_eligible(runs, run, {"policy": {"release": release}, "golden_set": {"digest": digest}})


def ladder(
    runs: Path, confirm: str | None, confirmation: str | None, chosen: str | None = None, name: str = "ladder-1"
) -> None:
    """A ladder of which int4 of some/model is a candidate, in the form of its record."""
    judgement = {
        "verdict": "ACCEPT", "golden_set": "s", "golden_set_digest": "d", "turns": 9, "why": "", "next_step": "",
        "metrics": [], "baseline_weight_bytes": 9, "candidate_weight_bytes": 3, "speed_representative": True,
        "quantize_s": 1.0, "run": "a-run",
    }  # fmt: skip
    candidate = {"recipe": "int4", "state": "judged", "judgement": judgement}
    if confirmation:
        candidate["confirmation"] = {"verdict": confirmation, "note": ""}
    verdict, code = ("ACCEPT", 0) if chosen else ("REJECT", 10)
    record = {
        "model": "some/model", "command": "", "verdict": verdict, "exit_code": code, "chosen": chosen, "all": False,
        "confirm": confirm, "alpha": 0.05, "candidates": [candidate],
        "error": {"candidates": 1, "alpha": 0.05, "basis": "boole", "bound": 0.05} if chosen else None,
    }  # fmt: skip
    (runs / name).mkdir(parents=True)
    (runs / name / "ladder.json").write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.parametrize(
    ("confirm", "confirmation"), [("half", "REJECT"), ("half", None), ("other/set", "INCONCLUSIVE")]
)
def test_what_a_ladder_did_not_confirm_is_no_release(confirm: str, confirmation: str | None, tmp_path: Path) -> None:
    ladder(tmp_path, confirm, confirmation)
    with pytest.raises(SignoffError, match="the ladder ladder-1 did not confirm int4 on other turns"):
        demand(tmp_path)


@pytest.mark.parametrize(("confirm", "confirmation"), [("half", "ACCEPT"), (None, None)])
def test_what_it_confirmed_or_need_not_confirm_is_one(
    confirm: str | None, confirmation: str | None, tmp_path: Path
) -> None:
    ladder(tmp_path, confirm, confirmation, chosen="int4")
    demand(tmp_path, command=f"{WHOLE} --golden {HALF}" if confirm else WHOLE)


def test_a_half_alone_is_none(tmp_path: Path) -> None:
    """The ladder was stopped before it wrote anything."""
    assert halved(f"{WHOLE} --golden {HALF}") == "first-half"
    assert halved(f"{WHOLE} --golden /data/first-half") is None
    with pytest.raises(SignoffError, match="judged on the first-half of a golden set"):
        demand(tmp_path, command=f"{WHOLE} --golden {HALF}")


def test_a_damaged_ladder_is_told(tmp_path: Path) -> None:
    ladder(tmp_path, "half", "ACCEPT", chosen="int4")
    (tmp_path / "ladder-1" / "ladder.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RecordError, match=r"ladder-1/ladder\.json"):
        demand(tmp_path)


def test_the_newest_ladder_about_the_same_has_the_word(tmp_path: Path) -> None:
    ladder(tmp_path, "half", "REJECT", name="20260101-ladder")
    demand(tmp_path, digest="another set")
    demand(tmp_path, model="another/model")
    with pytest.raises(SignoffError, match="20260101-ladder did not confirm int4"):
        demand(tmp_path)
    ladder(tmp_path, "half", "ACCEPT", chosen="int4", name="20260102-ladder")
    demand(tmp_path)


def test_a_tour_is_one_for_the_embedded_model_alone(tmp_path: Path) -> None:
    demand(tmp_path, model="demo", release=False)
    with pytest.raises(SignoffError, match="release: false"):
        demand(tmp_path, release=False)
