"""Checkpoint-level faults on a tiny candidate: each is found by the check that it names, and touches nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from selftest_samples import MODULES, make_turn

from pipeline.golden import GoldenSet
from pipeline.inspection import CHECKS, Severity, inspect_artifact, load_hardware
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint, read_checkpoint
from pipeline.selftest import checkpoint_level
from pipeline.selftest.case import Case, anywhere, wrong_reply
from pipeline.selftest.catalogue import Fault, faults
from pipeline.selftest.checkpoint_level import run_fault
from pipeline.selftest.copies import Copy, Weight, read_weights
from pipeline.selftest.reply_level import decision_of
from pipeline.settings import Recipe, load_recipe
from pipeline.store import Store

MakeCandidate = Callable[[str], tuple[Path, Path]]
SCHEMES = {"fp8-dynamic": "fp8", "int4-rtn": "int4"}
INSPECTED = [  # without those that need the candidate of another model
    fault
    for fault in faults("checkpoint")
    if fault.caught_by.startswith("inspect ") and not hasattr(fault.module, "SOURCE")
]


def decisive(candidate: Path, baseline: Path) -> set[str]:
    found = inspect_artifact(
        candidate,
        baseline,
        hardware_targets=load_hardware(),
        turns=[make_turn(n) for n in range(3)],
        intended=MODULES,
    )
    return {finding.check for finding in found if finding.severity in (Severity.FATAL, Severity.PARITY)}


@pytest.mark.parametrize("scheme", SCHEMES.values())
def test_the_sound_candidate_has_no_finding(make_candidate: MakeCandidate, scheme: str) -> None:
    baseline, candidate = make_candidate(scheme)
    assert decisive(candidate, baseline) == set()


@pytest.mark.parametrize("fault", INSPECTED, ids=lambda fault: fault.name)
def test_the_named_check_finds_it(fault: Fault, make_candidate: MakeCandidate, tmp_path: Path) -> None:
    baseline, candidate = make_candidate(SCHEMES[getattr(fault.module, "RECIPE", "fp8-dynamic")])
    before = {file.name: file.read_bytes() for file in candidate.iterdir()}
    copy = Copy.of(candidate, baseline, tmp_path / "copy")
    fault.module.edit(copy)
    check = fault.caught_by.removeprefix("inspect ")
    assert check in CHECKS
    assert check in decisive(copy.path, baseline)
    assert {file.name: file.read_bytes() for file in candidate.iterdir()} == before


def test_a_copy_takes_no_room(make_candidate: MakeCandidate, tmp_path: Path) -> None:
    baseline, candidate = make_candidate("fp8")
    copy = Copy.of(candidate, baseline, tmp_path / "copy")
    for file in candidate.iterdir():
        assert file.stat().st_ino == (copy.path / file.name).stat().st_ino


def test_an_edit_that_changes_nothing_is_refused(make_candidate: MakeCandidate, tmp_path: Path) -> None:
    copy = Copy.of(*reversed(make_candidate("fp8")), tmp_path / "copy")
    with pytest.raises(ValueError, match=r"config\.json: nothing to spoil"):
        copy.edit_json("config.json", lambda config: config.update(architectures=config["architectures"]))


def test_weights_are_written_as_the_format_wants(tmp_path: Path) -> None:
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([1, -2], np.int64),
        "c": np.ones(3, np.float16),
    }
    folder = tmp_path / "source"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    copy = Copy.of(folder, folder, tmp_path / "copy")

    def add(weights: dict[str, Weight]) -> None:
        weights["d"] = Weight("I8", np.array([[7]], np.int8))

    copy.edit_weights(add)
    with safe_open(copy.path / "model.safetensors", framework="numpy") as handle:
        assert set(handle.keys()) == {"a", "b", "c", "d"}
        for name, values in tensors.items():
            assert handle.get_tensor(name).dtype == values.dtype
            np.testing.assert_array_equal(handle.get_tensor(name), values)
        np.testing.assert_array_equal(handle.get_tensor("d"), [[7]])
    assert "d" not in json.dumps(list(read_weights(folder / "model.safetensors")))


@pytest.mark.parametrize(
    ("value", "bits"),
    [  # bfloat16: 8 bits of exponent, 7 of mantissa
        (1.0, 0x3F80),
        (-2.5, 0xC020),
        (1.00390625, 0x3F80),  # half way between 0x3F80 and 0x3F81: to even
        (1.01171875, 0x3F82),  # half way between 0x3F81 and 0x3F82: to even
        (1.005, 0x3F81),
        (float("nan"), 0x7FC0),
    ],
)
def test_bfloat16_is_rounded_to_nearest_even(value: float, bits: int) -> None:
    weight = Weight("BF16", np.zeros(1, "<u2"))
    weight.values = np.array([value], np.float32)
    assert weight.raw.tolist() == [bits]


# --- judging -----------------------------------------------------------------------------------


@dataclass
class FakeGate:
    """What judging reads of a gate; ``decision`` stands for serving the candidate and deciding."""

    baseline: Checkpoint
    golden: GoldenSet
    recipe: Recipe
    progress: Silent
    request: None = None
    store: None = None
    decision: object = None


@pytest.fixture
def gate(make_candidate: MakeCandidate, golden: GoldenSet) -> FakeGate:
    baseline, _ = make_candidate("fp8")
    return FakeGate(read_checkpoint(baseline, "tiny"), golden, load_recipe("fp8-dynamic"), Silent())


@pytest.mark.parametrize(
    ("name", "verdict"), [("scale_nan", "REJECT"), ("template_token_changed", "INVALID"), ("norm_missing", "REJECT")]
)
def test_what_the_inspection_finds_is_never_served(
    gate: FakeGate, make_candidate: MakeCandidate, tmp_path: Path, name: str, verdict: str
) -> None:
    fault = next(fault for fault in INSPECTED if fault.name == name)
    result = run_fault(gate, fault, make_candidate("fp8")[1], tmp_path / "copy")  # type: ignore[arg-type]
    assert (result.ok, result.verdict) == (True, verdict), result


def test_what_the_inspection_cannot_see_is_served_and_decided(
    gate: FakeGate,
    make_candidate: MakeCandidate,
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = []

    def serve(*_: object) -> FakeGate:
        spoilt = case.spoil(case.chosen("x", 0.5, anywhere), lambda turn, reply: wrong_reply(turn))
        served.append(True)
        record = decision_of(Store(tmp_path / "store"), spoilt)
        return replace(gate, decision=SimpleNamespace(path=record.parent))

    monkeypatch.setattr(checkpoint_level, "_gate", serve)
    fault = next(fault for fault in faults("checkpoint") if fault.name == "activations_clipped")
    result = run_fault(gate, fault, make_candidate("fp8")[1], tmp_path / "copy")  # type: ignore[arg-type]
    assert served
    assert (result.ok, result.verdict) == (True, "REJECT"), result
