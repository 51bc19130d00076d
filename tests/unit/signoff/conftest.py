"""Keys, a small MLflow store and kept runs on a fake machine, for tests of sign-off."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, write_golden, write_policy

from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import run
from pipeline.runs import read_kept_run, write_kept_run
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


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Gated:
    """Directory of a run, not recorded in MLflow; the same one each time that the same is asked for, to be copied."""

    @cache
    def made_(name: str, **answers: Callable[[int], bool]) -> Path:
        home = tmp_path_factory.mktemp("gated")  # of its own: candidates of one name share their replays
        golden, policy = write_golden(home / "orders"), write_policy(home / "gate.yaml")
        machine = FakeMachine(candidate_name=name, **answers)
        with pytest.MonkeyPatch.context() as patch:
            machine.install(patch)
            patch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
            request = Request("some/model", golden=str(golden), policy=policy)
            return run(request, Store(home), Silent()).directory

    return made_


@pytest.fixture
def gated(made: Gated, tmp_path: Path) -> Gated:
    """Directory of a run, a copy of this test's own, with the candidate's checkpoint in ``home/fake-<name>``."""

    def gated_(name: str = "candidate", **answers: Callable[[int], bool]) -> Path:
        source = made(name, **answers)
        store = source.parents[1].name
        directory = Path(shutil.copytree(source, tmp_path / "home" / "runs" / f"{source.name}-{store}"))
        kept = read_kept_run(directory)
        weights = shutil.copytree(str(kept.candidate), tmp_path / "home" / f"fake-{name}")
        write_kept_run(directory, replace(kept, candidate=str(weights)))
        return directory

    return gated_
