"""Fake endpoints that answer the fakes' golden set, and a tracking server that refuses at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "fakes"), str(Path(__file__).resolve().parents[1])]

from gate_fakes import DEAD_SERVER, write_golden, write_policy  # noqa: E402
from openai_server import FakeServer  # noqa: E402

Wrong = Callable[[str], bool]


def respond(body: dict[str, Any], wrong: Wrong) -> dict[str, Any]:
    """Look the order up that is asked for; where ``wrong``, ask which."""
    text = body["messages"][-1]["content"]
    if "where is order" not in text or wrong(text.split()[-1]):
        return {"role": "assistant", "content": "Which order is it?"}
    call = {"name": "get_order", "arguments": json.dumps({"order_id": text.split()[-1]})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": call}]}


@pytest.fixture
def endpoint() -> Iterator[Callable[..., FakeServer]]:
    """Start endpoints that do not tell token ids; all are closed at the end."""
    servers: list[FakeServer] = []

    def start(wrong: Wrong = lambda order: False, **settings: Any) -> FakeServer:
        server = FakeServer()
        server.respond = lambda body: respond(body, wrong)
        server.tells_tokens = False
        for name, value in settings.items():
            setattr(server, name, value)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """``golden`` and ``policy`` of a request: 45 turns in 15 scenarios, which prove 1 - 0.05^(1/15) = 18.1 points."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
    for name in ("OPENAI_API_KEY", "QUANT_GATE_BASELINE_KEY", "QUANT_GATE_CANDIDATE_KEY"):
        monkeypatch.delenv(name, raising=False)
    golden, policy = write_golden(tmp_path / "orders", 45), write_policy(tmp_path / "gate.yaml", margin=0.2)
    return {"golden": str(golden), "policy": policy}
