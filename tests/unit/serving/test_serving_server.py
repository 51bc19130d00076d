"""Server and launcher with a fake engine: starting, dying, and leaving nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from openai_server import FakeServer

from pipeline import processes
from pipeline.errors import Interrupted, ServerError, SettingsError
from pipeline.serving import server as module
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server

Plan = Callable[..., EnginePlan]


def below(root: int) -> list[int]:
    """Ids of living processes below ``root``, by /proc; the tests' own reading, not the launcher's."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == root and state != "Z":
            found += [int(directory.name), *below(int(directory.name))]
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(ids: list[int], within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while any(map(alive, ids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_serves_tells_its_facts_and_is_gone_afterwards(fake_plan: Plan, tmp_path: Path) -> None:
    began = time.time()
    with Server(fake_plan(), tmp_path, tmp_path / "log") as server:
        server.check()
        ids = below(os.getpid())
        assert len(ids) == 2  # supervisor and engine
        facts = server.facts()
        assert began <= facts.pop("started") + 0.1 <= time.time()
        assert facts == {
            "version": "9.9.9",
            "arguments": f"{{'port': {server.port}}}",
            "settings": {
                **{"dtype": "torch.bfloat16", "max_seq_len": "8192", "kv_cache_dtype": "auto"},
                **{"enforce_eager": "True", "seed": "0", "enable_prefix_caching": "True"},
                **{"enable_chunked_prefill": "True", "speculative_config": "None"},
            },
            "kernels": [],
            "kv_cache": "CPU KV cache size: 1,000 tokens",
            "seconds_to_start": round(server.seconds_to_start, 1),
        }
    assert not any(map(alive, ids))
    assert not server.alive()
    server.stop()  # again, without harm


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4)", "ngram"),
        ("SpeculativeConfig(method='mtp', model='/a (copy), b', num_spec_tokens=4)", "mtp"),
    ],
)
def test_speculation_in_effect_is_told_without_the_draft_models_path(
    told: str, kept: str, serve: Callable[..., FakeServer], fake_plan: Plan, tmp_path: Path
) -> None:
    """A model that drafts for itself lies elsewhere on each side (vLLM's SpeculativeConfig.__repr__)."""
    log = tmp_path / "log"
    log.write_text(f"Initializing a V1 LLM engine (v1) with config: model='m', speculative_config={told}, seed=0\n")
    server = Server(fake_plan(), tmp_path, log)
    server.port = int(serve().url.rpartition(":")[2])
    settings = server.facts()["settings"]
    assert settings == {
        "speculative_config": f"SpeculativeConfig(method='{kept}', num_spec_tokens=4)",
        "seed": "0",
    }


def test_a_held_engine_imports_and_does_no_more_until_it_is_waited_for(fake_plan: Plan, tmp_path: Path) -> None:
    server = Server(fake_plan(), tmp_path, tmp_path / "log")
    assert not server.held
    server.start(held=True)
    try:
        until(lambda: "imported" in server.log.read_text())
        assert server.held and server.alive()
        time.sleep(0.2)
        assert "non-default args" not in server.log.read_text()
        released, port, process = time.monotonic(), server.port, server._process
        with socket.socket() as taken:  # by another meanwhile
            taken.bind(("127.0.0.1", port))
            taken.listen()
            server.__enter__()
        with server:
            assert not server.held and server.port != port
            assert server._process is process  # not one that was started instead
            server.check()
            assert server.seconds_to_start <= time.monotonic() - released
            assert server.facts()["version"] == "9.9.9"
            ids = below(os.getpid())
            assert len(ids) == 2
    finally:
        server.stop()
    assert not any(map(alive, ids))


def test_a_held_engine_can_be_stopped_instead(fake_plan: Plan, tmp_path: Path) -> None:
    server = Server(fake_plan("ignore_sigterm"), tmp_path, tmp_path / "log")
    server.start(held=True)
    ids = below(os.getpid())
    server.stop()
    assert ids and not any(map(alive, ids))


def test_an_engine_that_died_while_it_was_held_is_found_out(fake_plan: Plan, tmp_path: Path) -> None:
    server = Server(fake_plan(), tmp_path, tmp_path / "log")
    server.start(held=True)
    until(lambda: "imported" in server.log.read_text())
    os.kill(below(os.getpid())[-1], signal.SIGKILL)  # the engine, below its supervisor
    until(lambda: not server.alive())
    with pytest.raises(ServerError, match=r"died while starting \(exit 137\)"), server:
        pass
    assert below(os.getpid()) == []


def test_children_that_refuse_to_stop_and_left_the_session_are_gone_too(fake_plan: Plan, tmp_path: Path) -> None:
    with Server(fake_plan("children,ignore_sigterm"), tmp_path, tmp_path / "log"):
        until(lambda: len(below(os.getpid())) == 4)
        ids = below(os.getpid())
    assert not any(map(alive, ids))


def test_death_at_the_start_shows_the_engines_own_words(fake_plan: Plan, tmp_path: Path) -> None:
    server = Server(fake_plan("die_early"), tmp_path, tmp_path / "log")
    with pytest.raises(ServerError, match=r"died while starting \(exit 3\)[\s\S]*scripted fault while loading"), server:
        pass
    assert not server.alive()


def test_refused_flag_is_the_users_to_mend(fake_plan: Plan, tmp_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match="unrecognized arguments: --nonsense") as raised,
        Server(fake_plan("refuse_flag"), tmp_path, tmp_path / "log"),
    ):
        pass
    assert "Correct extra_args in" in raised.value.remedy


@pytest.mark.parametrize(
    ("argument", "setting"),
    [
        ("--kv-cache-dtype", "kv_cache_dtype"),
        ("--tensor-parallel-size/-tp", "tensor_parallel_size"),
        ("-tp/--tensor-parallel-size", "tensor_parallel_size"),
        ("--block-size", "extra_args"),
    ],
)
def test_a_refused_value_names_its_setting(argument: str, setting: str, fake_plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"vllm serve: error: argument {argument}: invalid choice: 'x'\n")
    death = Server(fake_plan(), tmp_path, tmp_path / "log")._death("died")
    assert isinstance(death, SettingsError) and f"Correct {setting} in" in death.remedy


def test_start_up_has_a_limit_and_leaves_nothing(fake_plan: Plan, tmp_path: Path) -> None:
    before = below(os.getpid())
    with (
        pytest.raises(ServerError, match="not ready after 1 s"),
        Server(fake_plan("never_ready,children", startup_timeout_s=1), tmp_path, tmp_path / "log"),
    ):
        pass
    assert below(os.getpid()) == before


def test_port_taken_meanwhile_is_exchanged_for_another(
    fake_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = iter([taken.getsockname()[1], module._free_port()])
        monkeypatch.setattr(module, "_free_port", lambda: next(ports))
        taken.settimeout(0.01)
        with Server(fake_plan(), tmp_path, tmp_path / "log") as server:
            assert server.port != taken.getsockname()[1]


def test_another_model_on_the_port_is_not_measured(fake_plan: Plan, tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match=r"serves \[\('gate', 'elsewhere'\)\] instead of"),
        Server(fake_plan("wrong_model"), tmp_path, tmp_path / "log"),
    ):
        pass


def test_check_raises_once_the_engine_is_dead(fake_plan: Plan, tmp_path: Path) -> None:
    with Server(fake_plan(), tmp_path, tmp_path / "log") as server:
        supervisor = server._process
        assert supervisor is not None
        (engine,) = below(supervisor.pid)
        os.kill(engine, signal.SIGKILL)
        until(lambda: not server.alive())
        with pytest.raises(ServerError, match=r"died \(exit 137\)"):
            server.check()


def test_stopping_from_another_thread_interrupts_the_start(fake_plan: Plan, tmp_path: Path) -> None:
    server = Server(fake_plan("never_ready"), tmp_path, tmp_path / "log")
    stopper = threading.Timer(0.5, processes.stop_all)  # knows the server because it enrolled itself
    with pytest.raises(Interrupted), processes.supervised():
        stopper.start()
        with server:
            pass
    stopper.join()
    assert not server.alive()


CHILD = """
import sys
from pathlib import Path
import conftest  # noqa: puts the fakes on the path
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
import time
plan = EnginePlan("vllm", "9.9.9", "cpu", "none", (), {environment!r}, None, Path(sys.executable), "fake", 1, 60, False)
server = Server(plan, Path({model!r}), Path({log!r}))
server.start(held={held})
if not {held}:
    server.wait()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("held", [False, True])
def test_no_process_outlives_a_killed_gate(fake_plan: Plan, tmp_path: Path, held: bool, how: signal.Signals) -> None:
    """Supervisor and engine, and what a working engine started."""
    environment, log = dict(fake_plan("children").environment), tmp_path / "log"
    code = CHILD.format(environment=environment, model=str(tmp_path), log=str(log), held=held)
    root = Path(module.__file__).resolve().parents[2]
    ours = {**os.environ, "PYTHONPATH": f"{root}:{Path(__file__).parent}"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=ours) as gate:
        assert gate.stdout is not None
        assert gate.stdout.readline() == b"ready\n"
        until(lambda: "imported" in log.read_text() if held else len(below(gate.pid)) == 4)
        ids = below(gate.pid)
        assert len(ids) == (2 if held else 4)
        gate.send_signal(how)
        gate.wait()
        assert gone(ids)


def test_engine_stops_when_its_supervisor_is_killed(fake_plan: Plan, tmp_path: Path) -> None:
    with Server(fake_plan(), tmp_path, tmp_path / "log") as server:
        assert server._process is not None
        ids = below(server._process.pid)
        server._process.kill()
        assert gone(ids)


def test_root_cause_is_told_before_its_consequences(fake_plan: Plan, tmp_path: Path) -> None:
    # Lines of a real log: a checkpoint that was cut off.
    (tmp_path / "log").write_text(
        "(APIServer pid=30085) INFO 11-30 06:43:44 [model.py:733] Resolved architecture: LlamaForCausalLM\n"
        "(APIServer pid=30085) WARNING 11-30 06:43:44 [system_utils.py:255] Found ulimit of 20000 and failed with "
        "errors like `OSError: [Errno 24] Too many open files`\n"
        "(EngineCore pid=30288) ERROR 11-30 06:43:49 [core.py:1510] EngineCore failed to start.\n"
        "(EngineCore pid=30288) ERROR 11-30 06:43:49 [core.py:1510] Traceback (most recent call last):\n"
        '(EngineCore pid=30288) ERROR 11-30 06:43:49 [core.py:1510]   File "core.py", line 1482, in run_engine_core\n'
        "(EngineCore pid=30288) ERROR 11-30 06:43:49 [core.py:1510] safetensors._safetensors_rust.SafetensorError: "
        "Error while deserializing header: incomplete metadata, file not fully covered\n"
        "Traceback (most recent call last):\n"
        '  File "core_client.py", line 1120, in __init__\n'
        "RuntimeError: Engine core initialization failed. See root cause above. Failed proc(s): {'EngineCore': 1}\n"
    )
    with pytest.raises(ServerError) as raised:
        Server(fake_plan(), tmp_path, tmp_path / "log").check()
    first, _, *told = raised.value.message.splitlines()
    assert first == (
        "the engine died (exit None): safetensors._safetensors_rust.SafetensorError: "
        "Error while deserializing header: incomplete metadata, file not fully covered"
    )
    assert [line.split()[0] for line in told] == [
        "Resolved",
        "Found",
        "EngineCore",
        "safetensors._safetensors_rust.SafetensorError:",
        "RuntimeError:",
    ]
