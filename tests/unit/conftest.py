"""What every unit test can rely on."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.golden import GoldenSet, load
from pipeline.processes import supervised
from pipeline.settings import PROJECT_ROOT
from pipeline.store import Store

if TYPE_CHECKING:
    from gate_fakes import FakeMachine


@pytest.fixture(autouse=True)
def _reopened() -> Iterator[None]:
    """Let processes be started again after a test that was interrupted on purpose."""
    yield
    with supervised():
        pass


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of stage outputs."""
    return Store(tmp_path / "home")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """The gate without model, quantizer, engine or tracking server."""
    from gate_fakes import DEAD_SERVER, FakeMachine  # most tests need no gate, which takes a second to import

    fake = FakeMachine()
    fake.install(monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
    return fake


@pytest.fixture(scope="session")
def shipped() -> GoldenSet:
    """The golden set that ships with the project."""
    return load(PROJECT_ROOT / "golden_sets" / "support")


@pytest.fixture(scope="session")
def ready_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database to be copied. Making one takes seconds, so one worker does it for all.

    The tracker made it on first use, beside the leavings of one that was killed meanwhile.
    """
    from pipeline.tracking import Tracker

    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # that of the whole session
    folder = root / "tracking store" / "mlruns"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "mlflow.db").exists():
            (folder / "mlflow.work").write_bytes(b"half a database")
            tracker = Tracker("quant-gate/first", "first", f"sqlite:///{folder}/mlflow.db")
            tracker.start()
            assert tracker.finish(wait_s=300) is None
            assert {path.name for path in folder.iterdir()} == {"mlflow.db", "mlflow.lock"}
    return folder / "mlflow.db"


@pytest.fixture
def mlflow_store(ready_store: Path, tmp_path: Path) -> str:
    """URI of an MLflow store of this test's own."""
    (tmp_path / "mlruns").mkdir()
    path = shutil.copyfile(ready_store, tmp_path / "mlruns" / "mlflow.db")
    return f"sqlite:///{path}"
