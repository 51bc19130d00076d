"""A faked machine, a golden set and policy, a store, and the whole command line."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gate_fakes import write_golden, write_policy

from pipeline import cli
from pipeline.request import Request
from pipeline.store import Store


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_golden(tmp_path_factory.mktemp("sets") / "orders"))


@pytest.fixture
def request_(golden: str, tmp_path: Path) -> Request:
    return Request(model="some/model", golden=golden, policy=write_policy(tmp_path / "gate.yaml"))


@pytest.fixture
def signals() -> Iterator[None]:
    """The command line takes over signals; give them back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def ending(
    signals: None, request_: Request, store: Store, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int | str | None]:
    """Runs the whole command line and tells its exit code."""
    monkeypatch.setenv("QUANT_GATE_HOME", str(store.root))
    program, _, *options = shlex.split(request_.command)

    def end(*words: str, command: str = "run") -> int | str | None:
        monkeypatch.setattr("sys.argv", [program, command, *options, *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code

    return end
