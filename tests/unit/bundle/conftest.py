"""Kept runs on a fake machine, for tests of bundles and sign-off: real replies, outcomes and decisions, no engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, write_golden, write_policy

from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.store import Store

Rerun = Callable[..., RunResult]


@pytest.fixture
def gated(machine: FakeMachine, store: Store, tmp_path: Path) -> Rerun:
    """Runs the gate once; ``policy`` is put before the text of the policy."""
    golden = write_golden(tmp_path / "orders")

    def gated_(policy: str = "", margin: str = "0.1", explore: bool = False) -> RunResult:
        path = write_policy(tmp_path / "gate.yaml")
        path.write_text(policy + path.read_text("utf-8").replace("margin: 0.1", f"margin: {margin}"), "utf-8")
        return run(Request("some/model", golden=str(golden), policy=path, explore=explore), store, Silent())

    return gated_


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of one accepted run, in a store of its own; not to be written to."""
    home = tmp_path_factory.mktemp("accepted")
    with pytest.MonkeyPatch.context() as patch:
        FakeMachine().install(patch)
        patch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
        golden, policy = write_golden(home / "orders"), write_policy(home / "gate.yaml")
        return run(Request("some/model", golden=str(golden), policy=policy), Store(home / "home"), Silent()).directory


@pytest.fixture
def kept(accepted: Path, tmp_path: Path) -> Path:
    """A copy of that run, to be spoiled."""
    return Path(shutil.copytree(accepted, tmp_path / accepted.name))
