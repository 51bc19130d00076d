"""Keys, a small MLflow store and kept runs on a fake machine, for tests of sign-off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, write_golden, write_policy

from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import run
from pipeline.signoff.keys import KEYS, PASSWORD, PUBLIC, SigningKey, load_key, new_keys, public_keys
from pipeline.store import Store

Gated = Callable[..., Path]


@pytest.fixture
def mlflow_store(mlflow_store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same, named to the program."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    return mlflow_store


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SigningKey:
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))
    monkeypatch.delenv(PASSWORD, raising=False)
    private, _ = new_keys(tmp_path / "keys", None)
    return load_key(private, lambda: None)


@pytest.fixture
def trusted(key: SigningKey) -> dict[Path, Any]:
    return public_keys([key.path.with_name(PUBLIC)])


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    """Directory of a new run; not recorded in MLflow."""
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")

    def gated_(name: str = "candidate", **answers: Callable[[int], bool]) -> Path:
        machine = FakeMachine(candidate_name=name, **answers)
        with pytest.MonkeyPatch.context() as patch:
            machine.install(patch)
            patch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
            request = Request("some/model", golden=str(golden), policy=policy)
            return run(request, Store(tmp_path / "home"), Silent()).directory

    return gated_
