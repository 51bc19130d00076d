"""The command line: help, wrong use, doctor, and how a real process ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main
from gate_fakes import DEAD_SERVER, write_golden, write_policy

from pipeline import cli
from pipeline.comparing import commands as comparing_commands
from pipeline.environments import environments
from pipeline.errors import EnvironmentMissing
from pipeline.golden import commands as golden_commands
from pipeline.settings import CONFIGS, PROJECT_ROOT

SCREEN_LINES = 24
GROUP = typer.main.get_command(cli.app)
COMMANDS = sorted(getattr(GROUP, "commands"))  # noqa: B009 - a click group, which typer does not export

End = Callable[..., SimpleNamespace]


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[End]:
    """Runs the command line in this process: exit code, output and errors."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*words: str) -> SimpleNamespace:
        monkeypatch.setattr("sys.argv", ["quant-gate", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        shown = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code, out=shown.out, err=shown.err)

    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_result_that_nobody_reads_is_a_broken_run(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    def unread() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # typer wraps both on this way out
    monkeypatch.setattr(cli, "environments", unread)
    done = end("doctor")
    assert done.code == 30
    assert "nobody reads the output any longer" in done.err


# --- help --------------------------------------------------------------------------------------


def test_the_commands_are_those_of_the_stages_and_a_few() -> None:
    stages = {"resolve", "quantize", "serve", "replay", "evaluate", "decide", "report"}
    assert stages | {"run", "doctor", "ui", "golden"} <= set(COMMANDS)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_commands_and_exit_codes(option: str, end: End) -> None:
    done = end(option)
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)
    told = " ".join(done.out.replace("│", " ").split())
    assert "0 ACCEPT, 10 REJECT, 20 INCONCLUSIVE, 30 INVALID or a broken run, 2 usage, 130 interrupted" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_explained(command: str, end: End) -> None:
    done = end(command, "--help")
    assert done.code == 0
    assert f"Usage: quant-gate {command}" in done.out
    explained = getattr(GROUP, "commands")[command]  # noqa: B009
    assert explained.help
    for option in explained.params:
        assert option.opts[0] in done.out or option.param_type_name == "argument"
        if option.name != "port":
            assert option.help, option.name


def test_without_arguments_it_shows_help_and_does_not_end_with_0(end: End) -> None:
    done = end()
    assert done.code == 2
    assert "Usage: quant-gate" in done.out + done.err


# --- wrong use ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "--modle", "demo"], "No such option: --modle"),
        (["run", "demo"], "unexpected extra argument"),
        (["rnu"], "No such command 'rnu'"),
        (["--verbose"], "No such option: --verbose"),
        (["replay", "--side", "middle"], "'middle' is not one of"),
        (["run", "--golden", "x", "--model"], "requires an argument"),
        (["ui", "--port", "70000"], "65535"),
        (["golden", "chekc"], "No such command 'chekc'"),
        (["run", "--model", "nonsense"], "model 'nonsense' not found"),
        (["run", "--model", ""], "model '' not found"),
        (["run", "--model", "./no/such/model"], "model './no/such/model' not found"),
        (["run", "--recipe", "int5"], "unknown name 'int5': no such file in configs/recipes"),
        (["run", "--recipe", "int5.yaml"], "int5.yaml: cannot read"),
        (["run", "--serving", "gpu[1]"], "unknown name 'gpu[1]': no such file in configs/serving"),
        (["run", "--policy", "strict:x:.yaml"], "strict:x:.yaml: cannot read"),
        (["run", "--golden", "./no-such-set"], "golden set no-such-set: no such file or directory"),
        (["evaluate", "--recipe", "int5"], "unknown name 'int5': no such file in configs/recipes"),
        (["decide", "--serving", "nope"], "unknown name 'nope': no such file in configs/serving"),
        (["quantize", "--model", "nonsense"], "model 'nonsense' not found"),
        (["resolve", "--model", "nonsense"], "model 'nonsense' not found"),
    ],
)
def test_wrong_use_ends_with_2_and_says_how_to_do_it(words: list[str], expected: str, end: End, tmp_path: Path) -> None:
    if words[0] in ("run", "evaluate", "decide", "quantize", "resolve") and "--golden" not in words:
        golden = str(write_golden(tmp_path / "set"))  # smaller than the shipped one
        words = [*words, *(["--golden", golden] if words[0] in ("run", "evaluate", "decide") else [])]
    done = end(*words)
    told = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2
    assert expected in told
    assert "remedy: " in told or "-h" in told or "requires an argument" in told
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= SCREEN_LINES
    assert done.out == ""
    assert not (tmp_path / "home" / "stages").exists()


def test_the_remedy_lists_what_there_is(end: End) -> None:
    told = " ".join(end("run", "--recipe", "int5").err.split())
    assert "Known: " + ", ".join(path.stem for path in sorted((CONFIGS / "recipes").glob("*.yaml"))) in told
    assert "Known: default" in end("run", "--serving", "nope").err


def test_a_fault_of_the_program_shows_its_trace_and_ends_with_30(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError("[bold]odd[/bold]")

    monkeypatch.setattr(cli, "environments", fail)
    done = end("doctor")
    assert done.code == 30
    assert "ZeroDivisionError: [bold]odd[/bold]" in done.err


# --- doctor ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ready", [True, False])
def test_doctor_says_what_is_there(ready: bool, end: End, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def python_of(name: str) -> Path:
        if name == "quantize" and not ready:
            raise EnvironmentMissing("environment 'quantize' (.venvs/quantize) is missing", "Run `make setup`.")
        if name == "autoawq":  # no fault of this machine
            raise EnvironmentMissing("environment 'autoawq' is missing", "It is built when a recipe needs it.")
        return Path(f"envs/{name}[1]/python")

    names = ("serve", "quantize", "autoawq")
    monkeypatch.setattr(cli, "environments", lambda: {name: environments()[name] for name in names})
    monkeypatch.setattr(cli, "python_of", python_of)
    monkeypatch.setattr(cli, "has_gpu", lambda: False)
    done = end("doctor")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    missing = "environment 'quantize' (.venvs/quantize) is missing. Run `make setup`."
    assert lines == [
        "device CPU (speed figures are not representative)",
        "serve ready (envs/serve[1]/python)",
        f"quantize {'ready (envs/quantize[1]/python)' if ready else missing}",
        "autoawq environment 'autoawq' is missing. It is built when a recipe needs it.",
        f"stage outputs {tmp_path / 'home'}",
        f"tracking {DEAD_SERVER}",
    ]
    assert done.code == (0 if ready else 30)


# --- real processes ----------------------------------------------------------------------------


def process(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=PROJECT_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MLFLOW_TRACKING_URI": DEAD_SERVER, **environment},
    )


def test_the_control_process_stays_light() -> None:
    code = "import sys, pipeline.cli; print(' '.join(sys.modules))"
    out, err = process(sys.executable, "-c", code).communicate(timeout=120)
    modules = set(out.split())
    loaded = {name.split(".")[0] for name in modules}
    assert {"pipeline", "evaluators", "typer"} <= loaded, err
    assert loaded & {"torch", "vllm", "llmcompressor", "transformers", "awq"} == set()
    slow = {"mlflow", "datasets", "lm_eval", "pandas", "openai", "scipy.stats"}  # seconds that `--help` would cost
    assert modules & slow == set()


def test_it_can_be_called_as_a_module(tmp_path: Path) -> None:
    done = process(sys.executable, "-m", "pipeline", "run", "--recipe", "int5", QUANT_GATE_HOME=str(tmp_path))
    out, err = done.communicate(timeout=120)
    assert (done.returncode, out) == (2, "")
    assert err.startswith("error: unknown name 'int5': no such file in configs/recipes\nremedy: ")


def test_quant_gate_is_the_same() -> None:
    declared = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["scripts"] == {"quant-gate": f"{cli.main.__module__}:{cli.main.__name__}"}


GATE = """
    import sys, threading
    sys.path.insert(0, {tests!r})
    import pytest
    from gate_fakes import FakeMachine
    from pipeline import cli, processes

    class Engine:
        stopped = threading.Event()
        def stop(self):
            print("stopped", flush=True)
            self.stopped.set()

    def serve():
        engine = Engine()
        processes.enrol(engine)
        print("serving", flush=True)
        engine.stopped.wait()
        raise RuntimeError("the engine is gone")

    FakeMachine(hooks={{"baseline": serve}}).install(pytest.MonkeyPatch())
    sys.argv = ["quant-gate", "run", "--model", "some/model", "--golden", {golden!r}, "--policy", {policy!r}]
    cli.main()
"""


def test_a_signal_ends_a_real_run_with_130_after_its_engine(tmp_path: Path) -> None:
    code = textwrap.dedent(GATE).format(
        tests=str(Path(__file__).parent),
        golden=str(write_golden(tmp_path / "set")),
        policy=str(write_policy(tmp_path / "gate.yaml")),
    )
    gate = process(sys.executable, "-c", code, QUANT_GATE_HOME=str(tmp_path / "home"))
    assert gate.stdout is not None
    assert gate.stdout.readline() == "serving\n"
    gate.send_signal(signal.SIGTERM)
    out, err = gate.communicate(timeout=120)
    assert gate.returncode == 130
    assert set(out.splitlines()) == {"stopped"}  # by the pool of the stages, and again by the one around it
    lines = err.splitlines()
    assert "error: interrupted" in lines
    assert "remedy: Run the same command again: what is complete is reused." in lines
    assert "Traceback" not in err
    assert not (tmp_path / "home" / "runs").exists()


def test_what_the_system_refuses_is_one_line_and_a_broken_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: End
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(cli, "run", refuse)
    done = end("run")
    assert done.code == 30
    assert "error: the system refused: [Errno 28] No space left on device" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", [["run"], ["compare"], ["ladder"], ["golden", "check"]])
def test_no_command_is_ended_by_a_library(words: list[str], monkeypatch: pytest.MonkeyPatch, end: End) -> None:
    def leave(*_: object, **__: object) -> None:
        sys.exit(0)

    monkeypatch.setattr(cli, "run", leave)
    monkeypatch.setattr(cli, "climb", leave)
    monkeypatch.setattr(comparing_commands, "compare", leave)
    monkeypatch.setattr(golden_commands, "survey", leave)
    done = end(*words)
    assert done.code == 30
    assert "something ended the program before there was a result (exit 0)" in done.err


def test_a_reader_who_is_gone_is_told_as_that(monkeypatch: pytest.MonkeyPatch, end: End) -> None:
    def leave(*_: object) -> None:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            sys.exit(1)  # as rich does

    monkeypatch.setattr(cli, "run", leave)
    done = end("run")
    assert done.code == 30
    assert "nobody reads the output any longer" in done.err


def test_closed_standard_streams_are_not_taken_by_pipes_to_children() -> None:
    code = (
        "import os; from pipeline import program; os.close(0); program.open_standard_streams(); print(min(os.pipe()))"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert int(told.stdout) > 2
