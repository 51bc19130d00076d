"""A baseline on disk, and inspecting a candidate beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import CONFIG, SCHEMES, Tensors, llama, quantize, write
from inspecting import Inspect

from pipeline.inspection import Finding, inspect_artifact, load_hardware


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The llama of :func:`checkpoints.llama` as a checkpoint."""
    return write(tmp_path_factory.mktemp("baseline") / "model", llama(), CONFIG)


@pytest.fixture
def candidate(tmp_path: Path) -> Callable[..., Path]:
    """Writes a candidate of a scheme, from the given tensors or from the baseline's."""

    def make(
        scheme: str = "int4",
        tensors: Tensors | None = None,
        config: dict[str, Any] | None = None,
        declared: dict[str, Any] | None = None,
        files: int = 1,
    ) -> Path:
        how, declaration = SCHEMES[scheme]
        made = quantize(llama(), how) if tensors is None else tensors
        settings = {**CONFIG, **(config or {}), "quantization_config": {**declaration, **(declared or {})}}
        return write(tmp_path / "candidate", made, settings, files)

    return make


@pytest.fixture(scope="session")
def hardware() -> Any:
    """The shipped table of hardware, read once."""
    return load_hardware()


@pytest.fixture
def inspect(baseline: Path, hardware: Any) -> Inspect:
    """Inspects a candidate beside ``baseline``, or another one."""

    def run(folder: Path, beside: Path | None = None, **options: Any) -> tuple[Finding, ...]:
        return inspect_artifact(folder, beside or baseline, hardware_targets=hardware, **options)

    return run
