"""Fixtures of the serving tests: the fake server, and a plan that starts the fake engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FAKES = Path(__file__).resolve().parents[2] / "fakes"
sys.path.insert(0, str(FAKES))

from openai_server import FakeServer  # noqa: E402

from pipeline.serving import server as server_module  # noqa: E402
from pipeline.serving.plan import EnginePlan  # noqa: E402


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeServer]]:
    """Start fake servers; all are closed at the end."""
    servers: list[FakeServer] = []

    def start(script: dict[str, list[str]] | None = None) -> FakeServer:
        servers.append(FakeServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def fake_plan(monkeypatch: pytest.MonkeyPatch) -> Callable[..., EnginePlan]:
    """Plans that start the real launcher with this interpreter and the fake engine."""
    monkeypatch.setattr(server_module, "GRACE_S", 0.5)

    def plan(modes: str = "", startup_timeout_s: float = 60) -> EnginePlan:
        return EnginePlan(
            name="vllm",
            version="9.9.9",
            device="cpu",
            hardware="none",
            flags=("--seed", "0"),
            environment={"PYTHONPATH": f"{FAKES}:{FAKES / 'fake_engine'}", "FAKE_ENGINE": modes},
            chat_template=None,
            python=Path(sys.executable),
            env_digest="fake",
            kv_cache_gib=1,
            startup_timeout_s=startup_timeout_s,
            speed_representative=False,
        )

    return plan
