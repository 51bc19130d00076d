"""What a gate asks of its recipe before any work, and what the quantizer is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from gate_fakes import FakeMachine, write_golden, write_policy
from llama_shapes import projections
from safetensors.numpy import save_file

from pipeline import gate
from pipeline.bundle.verifying import opened, verify
from pipeline.errors import RecipeError
from pipeline.gate import Gate
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.request import Request
from pipeline.runner import run
from pipeline.settings import Recipe, load_recipe
from pipeline.store import StageOutput, Store


@pytest.fixture
def machine(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.setattr(gate.environments, "compute_capability", lambda: None)
    return machine


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    golden = write_golden(tmp_path / "sets" / "orders")
    return Request(model="some/model", golden=str(golden), policy=write_policy(tmp_path / "gate.yaml"))


def test_what_a_cpu_cannot_serve_is_refused_before_any_work(
    machine: FakeMachine, request_: Request, tmp_path: Path
) -> None:
    for step in ("serve environment", "resolve", "plan"):
        machine.hooks[step] = lambda step=step: machine.done.append(step)  # type: ignore[misc]
    with pytest.raises(RecipeError, match="fp8-block: this machine serves on its CPU"):
        run(replace(request_, recipe="fp8-block"), Store(tmp_path / "home"), Silent())
    assert machine.done == []
    assert not list((tmp_path / "home").glob("runs/*"))


def test_a_model_at_hand_that_the_recipe_does_not_fit_is_named_with_the_hardware(
    machine: FakeMachine, request_: Request, tmp_path: Path
) -> None:
    """The embedded model's q and k have 576 and 192 rows, and blocks have 128: a GPU would not help."""
    names = [f"model.layers.0.{name}" for name in projections(576, 1536, 192)]
    shapes = dict(zip(names, projections(576, 1536, 192).values(), strict=True))
    model = tmp_path / "model"
    model.mkdir()
    save_file({f"{n}.weight": numpy.zeros(s, numpy.float16) for n, s in shapes.items()}, model / "model.safetensors")
    blocks = replace(request_, model=str(model), recipe="fp8-block")
    with pytest.raises(RecipeError, match=r"blocks of 128 rows do not divide") as raised:
        run(blocks, Store(tmp_path / "home"), Silent())
    assert "self_attn.q_proj (out=576)" in raised.value.message
    assert "Besides, recipe fp8-block: this machine serves on its CPU" in raised.value.message
    assert raised.value.remedy == "Use fp8-dynamic or fp8-static for this model."
    assert machine.done == []


@pytest.mark.usefixtures("machine")
def test_an_engine_that_is_too_old_is_named(request_: Request, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "description: for an engine to come\nmethod: rtn\nscheme: FP8_DYNAMIC\n"
        "hardware: {compute_capability: 8.9, engine: 99.0.0}\n"
    )
    with pytest.raises(RecipeError, match=r"own: the engine is vLLM 9\.9\.9; the format is served from 99\.0\.0 on"):
        _ = Gate(replace(request_, recipe=str(own)), Store(tmp_path / "home"), Silent()).plan


def test_the_record_names_the_calibration_text(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quantize(store: Store, checkpoint: Checkpoint, recipe: Recipe, *more: Any) -> tuple[StageOutput, Checkpoint]:
        """The stage's own inputs, as far as the record tells them."""
        inputs = {"recipe": recipe.name, "calibration": "c0" * 32 if recipe.calibration else None}
        return store.make("quantize", inputs, lambda _: None), machine.quantize(store, checkpoint, recipe, *more)[1]

    monkeypatch.setattr(gate.quantize, "run", quantize)
    made = run(replace(request_, recipe="int4-gptq"), Store(tmp_path / "home"), Silent())
    assert made.decision["inputs"]["calibration"] == "c0" * 32
    with opened(made.directory) as root:
        assert not verify(root, made.directory).differences
    assert "calibration" not in run(request_, Store(tmp_path / "home"), Silent()).decision["inputs"]


def test_the_quantizer_gets_the_golden_set_and_the_users_own_text(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def quantize(*arguments: Any) -> Any:
        given.extend(arguments)
        return machine.quantize(*arguments)

    monkeypatch.setattr(gate.quantize, "run", quantize)
    own = replace(request_, recipe="int4-gptq", calibration="my/logs")
    made = Gate(own, Store(tmp_path / "home"), Silent())
    _ = made.candidate
    assert given[2] == load_recipe("int4-gptq")
    assert given[3] == Path("my/logs")
    assert given[4] is made.golden
    assert own.command.endswith("--calibration my/logs")
    assert "--calibration" not in request_.command
