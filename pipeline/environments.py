"""The Python environments: built with uv from the pins in ``configs/envs/``, only when missing or changed.

Quantizer and engine pin conflicting packages, so each has an environment of its own; the pipeline
starts them as processes and never imports them. ``python3 -m pipeline.environments setup`` builds
all of them with nothing but the standard library; ``make setup`` calls it.

An environment is complete when its stamp file holds the digest of everything it was built from.
``QUANT_GATE_<NAME>_PYTHON`` points at an interpreter of your own instead.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import EnvironmentMissing, UsageError

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "configs" / "envs"
UV_VERSION = "0.13.9"
STAMP = ".quant-gate-stamp"
# The active virtual environment may be the very one that is to be removed and built again.
BASE_PYTHON = getattr(sys, "_base_executable", None) or sys.executable
MINIMUM_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment: where it lives and what is installed into it."""

    name: str
    directory: Path
    pins: Path
    overrides: Path | None = None
    projects: tuple[Path, ...] = ()
    """Parts of this project that are installed into it, by directory."""
    editable: bool = False

    def digest(self) -> str:
        """SHA-256 (hex) over pins, overrides, own parts, Python's version and the kind of device."""
        digest = hashlib.sha256(f"{sys.version_info[:2]} uv {UV_VERSION} gpu {has_gpu()}".encode())
        sources = [self.pins, *([self.overrides] if self.overrides else [])]
        for project in self.projects:
            sources.extend([project / "pyproject.toml"] if self.editable else _sources_of(project))
        for source in sources:
            digest.update(source.relative_to(ROOT).as_posix().encode() + b"\0" + source.read_bytes())
        return digest.hexdigest()

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.directory / "bin" / "python"

    def is_current(self) -> bool:
        """Whether it was built completely and from the present pins."""
        stamp = self.directory / STAMP
        return self.python.exists() and stamp.is_file() and stamp.read_text() == self.digest()


def _sources_of(project: Path) -> list[Path]:
    found = (p for p in project.rglob("*") if p.suffix in {".py", ".toml"})
    return sorted(p for p in found if "build" not in p.relative_to(project).parts)


@functools.cache
def has_gpu() -> bool:
    """Whether ``nvidia-smi`` lists a GPU."""
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0 and "GPU " in listing.stdout


@functools.cache
def environments() -> dict[str, Environment]:
    """All environments by name, for the device at hand."""
    device = "cuda" if has_gpu() else "cpu"
    overrides = PINS / f"overrides-{device}.txt"
    venvs = ROOT / ".venvs"
    return {
        "pipeline": Environment("pipeline", ROOT / ".venv", PINS / "pipeline.txt", None, (ROOT,), editable=True),
        "serve": Environment(
            "serve",
            venvs / "serve",
            PINS / f"serve-{device}.txt",
            overrides,
            (ROOT / "pipeline" / "serving" / "engine" / "cpu_fp8",),
        ),
        "quantize": Environment("quantize", venvs / "quantize", PINS / "quantize.txt", overrides),
    }


def python_of(name: str) -> Path:
    """The interpreter of environment ``name``.

    :raises EnvironmentMissing: it is absent or was built from other pins.
    """
    own = os.environ.get(f"QUANT_GATE_{name.upper()}_PYTHON")
    if own:
        if not (Path(own).is_file() and os.access(own, os.X_OK)):
            raise EnvironmentMissing(
                f"QUANT_GATE_{name.upper()}_PYTHON={own} is not an executable", "Correct or unset it."
            )
        return Path(own).absolute()
    environment = environments()[name]
    if not environment.is_current():
        state = "was built from other pins" if environment.directory.exists() else "is missing"
        raise EnvironmentMissing(
            f"environment {name!r} ({environment.directory.relative_to(ROOT)}) {state}", "Run `make setup`."
        )
    return environment.python


def env_digest(name: str) -> str:
    """Digest of what environment ``name`` is built from; of its interpreter's path when it is the user's own."""
    own = os.environ.get(f"QUANT_GATE_{name.upper()}_PYTHON")
    return hashlib.sha256(own.encode()).hexdigest() if own else environments()[name].digest()


# --- building ----------------------------------------------------------------------------------


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("setup: waiting for another setup to finish", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str | Path], name: str, log: Path) -> None:
    """Run one build command; its output goes to ``log``."""
    with log.open("ab") as handle:
        handle.write(f"$ {' '.join(map(str, command))}\n".encode())
        handle.flush()
        done = subprocess.run(
            command,
            stdout=handle,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=_build_environment(),
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise EnvironmentMissing(
            f"building environment {name!r} failed (exit {done.returncode}); end of {log.relative_to(ROOT)}:\n{tail}",
            "Check that the package index is reachable and that the disk has 8 GB free, then run `make setup` again.",
        )


def _uv(log: Path) -> Path:
    """The pinned uv, installed into an environment of its own when missing."""
    directory = ROOT / ".venvs" / f"uv-{UV_VERSION}"
    uv = directory / "bin" / "uv"
    if not uv.exists():
        if subprocess.run([BASE_PYTHON, "-c", "import ensurepip"], capture_output=True, check=False).returncode != 0:
            raise UsageError(
                "this Python has no ensurepip, so it cannot make a virtual environment",
                "On Debian: apt-get install python3-venv",
            )
        shutil.rmtree(directory, ignore_errors=True)
        _run([BASE_PYTHON, "-m", "venv", directory], "uv", log)
        _run([directory / "bin" / "python", "-m", "pip", "install", "-q", f"uv=={UV_VERSION}"], "uv", log)
    return uv


def _build_environment() -> dict[str, str]:
    """Our environment for pip and uv; pip's certificates (``PIP_CERT``) are passed on, as uv does not read them."""
    environment = dict(os.environ)
    if certificates := environment.get("PIP_CERT"):
        environment.setdefault("SSL_CERT_FILE", certificates)
    return environment


def _find_links() -> list[str]:
    """pip's ``PIP_FIND_LINKS`` passed on to uv, which does not read it."""
    return [part for link in os.environ.get("PIP_FIND_LINKS", "").split() for part in ("--find-links", link)]


def _torch_source(uv: Path, log: Path) -> list[str]:
    """Where torch comes from on a machine without a GPU: local wheels, PyTorch's CPU index, or PyPI as it is."""
    if has_gpu():
        return []
    links = _find_links()
    probe: list[str | Path] = [uv, "pip", "compile", "-q", "--no-deps", "--python", BASE_PYTHON, "-"]
    choices: tuple[list[str], ...] = (links, ["--torch-backend", "cpu"])
    for choice in choices:
        wanted = "torch==2.13.0+cpu"
        if not choice:
            continue
        try:
            found = subprocess.run(
                [*probe, *choice],
                input=wanted,
                capture_output=True,
                text=True,
                timeout=60,
                env=_build_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        if found.returncode == 0:
            return choice
    with log.open("a") as handle:
        handle.write("no CPU build of torch found; the ordinary, larger one is installed\n")
    return []


def _build(environment: Environment, uv: Path, torch_source: list[str], log: Path) -> None:
    (environment.directory / STAMP).unlink(missing_ok=True)
    shutil.rmtree(environment.directory, ignore_errors=True)
    _run([uv, "venv", "-q", "--python", BASE_PYTHON, environment.directory], environment.name, log)
    install: list[str | Path] = [uv, "pip", "install", "-q", "--python", environment.python]
    pins: list[str | Path] = ["-r", environment.pins]
    if environment.overrides:
        pins += ["--override", environment.overrides, *torch_source]
    _run([*install, *pins], environment.name, log)
    for project in environment.projects:
        editable = ["-e"] if environment.editable else []
        _run([*install, "--no-deps", *editable, project], environment.name, log)
    (environment.directory / STAMP).write_text(environment.digest())


def setup(names: list[str]) -> None:
    """Build the named environments that are not current, at the same time; do nothing for the others.

    :raises UsageError: this Python is too old or cannot make environments.
    :raises EnvironmentMissing: a build failed; the end of its log is in the message.
    """
    if sys.version_info < MINIMUM_PYTHON:
        raise UsageError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old",
            "Install Python 3.11 or later; `make PYTHON=python3.12`.",
        )
    logs = ROOT / ".venvs" / "logs"
    with _locked(ROOT / ".venvs" / "setup.lock"):
        stale = [e for name, e in environments().items() if name in names and not e.is_current()]
        if not stale:
            return
        logs.mkdir(parents=True, exist_ok=True)
        for old in logs.glob("*.log"):
            old.unlink()
        print(f"setup: building {', '.join(e.name for e in stale)} (logs in .venvs/logs)", file=sys.stderr)
        uv = _uv(logs / "uv.log")
        torch_source = _torch_source(uv, logs / "uv.log") if any(e.overrides for e in stale) else []
        with concurrent.futures.ThreadPoolExecutor() as pool:
            builds = {pool.submit(_build, e, uv, torch_source, logs / f"{e.name}.log"): e.name for e in stale}
            for build in concurrent.futures.as_completed(builds):
                build.result()
                print(f"setup: {builds[build]} is ready", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """``python3 -m pipeline.environments setup [NAME ...]``; returns the exit code."""
    known = list(environments())
    if not arguments or arguments[0] != "setup" or not set(arguments[1:]) <= set(known):
        print(f"usage: python3 -m pipeline.environments setup [{' | '.join(known)} ...]", file=sys.stderr)
        return UsageError.exit_code
    try:
        setup(arguments[1:] or known)
    except (EnvironmentMissing, UsageError) as error:
        print(f"error: {error.message}\n  {error.remedy}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("setup: interrupted; run again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
