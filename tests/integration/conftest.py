"""What the integration tests share: the demo checkpoint and one running engine per session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import environments
from pipeline.errors import EnvironmentMissing
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan, make_plan
from pipeline.serving.server import Server
from pipeline.settings import load_serving
from pipeline.stages import resolve
from pipeline.store import Store


def _no_registry(uri: str, directory: Path) -> Path:
    raise AssertionError(f"{uri} asked for in {directory}")


@pytest.fixture(scope="session")
def demo_checkpoint() -> Checkpoint:
    """The embedded demo model, from the ordinary store, where a gate run leaves it."""
    try:
        environments.python_of("quantize")
    except EnvironmentMissing as error:
        pytest.skip(f"no quantize environment: {error.message}")
    return resolve.run(Store(), "demo", Silent(), _no_registry)


@pytest.fixture(scope="session")
def engine_plan() -> EnginePlan:
    """The plan of configs/serving/default.yaml on this machine."""
    try:
        return make_plan(load_serving())
    except EnvironmentMissing as error:
        pytest.skip(f"no serve environment: {error.message}")


@pytest.fixture(scope="session")
def real_server(
    demo_checkpoint: Checkpoint, engine_plan: EnginePlan, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The demo checkpoint, served by the real engine, which was held at first. Do not stop it."""
    server = Server(engine_plan, demo_checkpoint.path, tmp_path_factory.mktemp("server") / "server.log")
    server.start(held=True)
    with server:
        yield server
