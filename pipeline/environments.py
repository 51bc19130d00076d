"""The Python environments: built with uv from the pins in ``configs/envs/``, only when missing or changed.

Quantizer and engine pin conflicting packages, so each has an environment of its own; the pipeline
starts them as processes and never imports them. ``python3 -m pipeline.environments setup [NAME ...]``
builds them with nothing but the standard library; ``make setup`` calls it. A run builds what it needs and
does not find (:func:`provide`).

An environment is complete when its stamp file holds the digest of everything it was built from; one whose
build fails or is interrupted is removed. ``QUANT_GATE_<NAME>_PYTHON`` points at an interpreter of your own instead.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.errors import EnvironmentMissing, Interrupted, UsageError
from pipeline.processes import Group, as_done, go_on, supervised
from pipeline.progress import Progress, Silent
from pipeline.secrets import scrubbed

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "configs" / "envs"
UV_VERSION = "0.13.9"
STAMP = ".quant-gate-stamp"
# The active virtual environment may be the very one that is to be removed and built again.
BASE_PYTHON = getattr(sys, "_base_executable", None) or sys.executable
MINIMUM_PYTHON = (3, 11)
TORCH = "torch==2.13.0+cpu"
LOOK_S = 0.2
"""Seconds between looks at a lock that another setup holds."""
_NOT_HERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN")
"""Variables of pip that do not go with a directory of ours that it is to install into."""
PROBE_S = 60
"""Seconds that a package index may take to say whether it has a CPU build of torch."""


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
    optional: bool = False
    """Built when something needs it, not by a plain ``setup``."""

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
def compute_capability() -> float | None:
    """The least compute capability of this machine's GPUs; None without any.

    NaN where the driver does not tell it of each: neither below nor above anything, so that nothing is refused, and
    nothing switched on, on a guess.
    """
    if not has_gpu():
        return None
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    told = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False).stdout.split()
    known = bool(told) and all(re.fullmatch(r"\d+\.\d+", each) for each in told)
    return min(map(float, told)) if known else math.nan


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
            (ROOT / "pipeline" / "serving" / "engine" / "cpu_kernels",),
        ),
        "quantize": Environment("quantize", venvs / "quantize", PINS / "quantize.txt", overrides),
        "autoawq": Environment("autoawq", venvs / "autoawq", PINS / "autoawq.txt", overrides, optional=True),
        "train": Environment("train", venvs / "train", PINS / "train.txt", overrides, optional=True),
        "lm_eval": Environment("lm_eval", venvs / "lm_eval", PINS / "lm_eval.txt", optional=True),
        "endpoints": Environment("endpoints", venvs / "endpoints", PINS / "endpoints.txt", overrides, optional=True),
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
        remedy = "It is built when a recipe needs it." if environment.optional else "Run `make setup`."
        raise EnvironmentMissing(f"environment {name!r} ({environment.directory.relative_to(ROOT)}) {state}", remedy)
    return environment.python


def provide(name: str, progress: Progress) -> Path:
    """The interpreter of environment ``name``, which is built first where it is missing or has other pins.

    Any number of threads and processes may ask for the same one: one builds it, the others wait.

    :raises EnvironmentMissing: the build failed; the end of its log is in the message.
    :raises UsageError: this Python cannot make virtual environments.
    :raises Interrupted: everything is being stopped.
    """
    if not os.environ.get(f"QUANT_GATE_{name.upper()}_PYTHON"):
        _make_current(environments()[name], progress)
    return python_of(name)


def env_digest(name: str) -> str:
    """Digest of what environment ``name`` is built from; of its interpreter's path when it is the user's own."""
    own = os.environ.get(f"QUANT_GATE_{name.upper()}_PYTHON")
    return hashlib.sha256(own.encode()).hexdigest() if own else environments()[name].digest()


# --- building ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Site:
    """Where one thing is being built, by nobody else: what it is called, its log, and its lock file."""

    name: str
    log: Path
    lock: int

    def tried(self, command: Sequence[str | Path]) -> int:
        """Exit code of one command; its output goes to the log.

        It holds the lock, too, should it outlive this process.
        """
        with self.log.open("ab") as output:
            output.write(f"$ {scrubbed(' '.join(map(str, command)))}\n".encode())
            output.flush()
            with self.started(command, stdout=output, stderr=subprocess.STDOUT) as process:
                return process.wait()

    def run(self, command: Sequence[str | Path]) -> None:
        """Run one command as :meth:`tried` does.

        :raises EnvironmentMissing: it failed.
        """
        code = self.tried(command)
        if code != 0:
            tail = scrubbed("\n".join(self.log.read_text(errors="replace").splitlines()[-15:]))
            raise EnvironmentMissing(
                f"building environment {self.name!r} failed (exit {code}); "
                f"end of {self.log.relative_to(ROOT)}:\n{tail}",
                "Check that the package index is reachable and that the disk has 8 GB free, then run again.",
            )

    def started(self, command: Sequence[str | Path], **options: int | IO[bytes]) -> Group:
        """The command as a process to be started, with the environment and the lock of a build."""
        return Group(command, env=_build_environment(), pass_fds=[self.lock], **options)


@contextlib.contextmanager
def _site(name: str, progress: Progress) -> Iterator[_Site]:
    """The right to build ``name``, once nobody else has it.

    :raises Interrupted: everything is being stopped.
    """
    logs = ROOT / ".venvs" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (ROOT / ".venvs" / f"{name}.lock").open("w") as lock:
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    progress.say("setup", f"waiting for {name}, which is being built")
                told = True
                go_on()
                time.sleep(LOOK_S)
        yield _Site(name, logs / f"{name}.log", lock.fileno())


def _uv() -> Path:
    """The pinned uv, installed when missing."""
    directory = ROOT / ".venvs" / f"uv-{UV_VERSION}"
    uv = directory / "bin" / "uv"
    if uv.exists():
        return uv
    with _site("uv", Silent()) as site:
        if uv.exists():
            return uv
        work = directory.with_name(f"{directory.name}.work")  # uv is a program that can be moved
        site.log.unlink(missing_ok=True)
        for left in (work, directory):
            shutil.rmtree(left, ignore_errors=True)
        site.run([*_pip(site), "install", "-q", "--target", work, f"uv=={UV_VERSION}"])
        work.rename(directory)
    return uv


def _pip(site: _Site) -> list[str | Path]:
    """This Python's pip, else one in an environment made for it: seconds more.

    :raises UsageError: this Python has neither pip nor ensurepip.
    """

    def has(module: str) -> bool:
        return subprocess.run([BASE_PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0

    if has("pip"):
        return [BASE_PYTHON, "-m", "pip"]
    if not has("ensurepip"):
        raise UsageError(
            "this Python has neither pip nor ensurepip, so it cannot install anything",
            "On Debian: apt-get install python3-venv",
        )
    made = ROOT / ".venvs" / "pip"
    site.run([BASE_PYTHON, "-m", "venv", "--clear", made])
    return [made / "bin" / "python", "-m", "pip"]


def _build_environment() -> dict[str, str]:
    """Our environment for pip and uv; pip's certificates (``PIP_CERT``) are passed on, as uv does not read them.

    Where pip shall install, and whether, is not the user's to say here, though a user may for pip at large.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_HERE}
    environment |= {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}  # may stand in a pip.conf, too
    if certificates := environment.get("PIP_CERT"):
        environment.setdefault("SSL_CERT_FILE", certificates)
    return environment


def _find_links() -> list[str]:
    """pip's ``PIP_FIND_LINKS`` passed on to uv, which does not read it."""
    return [part for link in os.environ.get("PIP_FIND_LINKS", "").split() for part in ("--find-links", link)]


def _torch_source(uv: Path, site: _Site, *mode: str) -> list[str] | None:
    """Where a CPU build of torch comes from: local wheels or PyTorch's CPU index; None where neither has it.

    :param mode: options of uv that hold for the answer, such as ``--offline``.
    """
    probe: list[str | Path] = [uv, "pip", "compile", "-q", *mode, "--no-deps", "--python", BASE_PYTHON, "-"]
    choices: tuple[list[str], ...] = (_find_links(), ["--torch-backend", "cpu"])
    for choice in filter(None, choices):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with site.started([*probe, *choice], **pipes) as process, contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(TORCH.encode(), PROBE_S)
            if process.returncode == 0:
                return choice
    return None


def _make_current(environment: Environment, progress: Progress) -> None:
    """Build ``environment`` unless it is current, or becomes so while another setup is waited for."""
    if environment.is_current():
        return
    with _site(environment.name, progress) as site:
        if environment.is_current():
            return
        progress.say("setup", f"building {environment.name} (log: {site.log.relative_to(ROOT)})")
        site.log.unlink(missing_ok=True)
        try:
            _build(environment, site, _uv())
        except BaseException:
            shutil.rmtree(environment.directory, ignore_errors=True)
            go_on()  # a command that was stopped has not failed
            raise
        progress.say("setup", f"{environment.name} is ready")


def _install(environment: Environment, install: list[str | Path], site: _Site, uv: Path) -> None:
    """Install what is pinned: from uv's cache alone where it has all of it, else from the index.

    The pins are exact, so both give the same. uv would ask the index for each package even so, which takes seconds
    where a proxy stands between, and cannot be done without a network.

    :raises EnvironmentMissing: neither can be done.
    """
    pins: list[str | Path] = ["-r", environment.pins]
    wants_torch = False
    if environment.overrides:
        pins += ["--override", environment.overrides]
        wants_torch = not has_gpu()
    kept = _torch_source(uv, site, "--offline") if wants_torch else []
    if kept is not None and site.tried([*install, "--offline", *pins, *kept]) == 0:
        return
    go_on()  # a command that was stopped has not failed
    source = _torch_source(uv, site) if wants_torch else []
    with site.log.open("a") as log:
        log.write("not all of it is in uv's cache: the index is asked\n")
        if source is None:
            log.write("no CPU build of torch found; the ordinary, larger one is installed\n")
    site.run([*install, *pins, *(source or [])])


def _build(environment: Environment, site: _Site, uv: Path) -> None:
    (environment.directory / STAMP).unlink(missing_ok=True)
    shutil.rmtree(environment.directory, ignore_errors=True)
    site.run([uv, "venv", "-q", "--python", BASE_PYTHON, environment.directory])
    install: list[str | Path] = [uv, "pip", "install", "-q", "--python", environment.python]
    _install(environment, install, site, uv)
    for project in environment.projects:
        editable = ["-e"] if environment.editable else []
        # With the pinned setuptools of the environment itself, not a newest one in another made for the purpose.
        site.run([*install, "--no-build-isolation", "--no-deps", *editable, project])
    (environment.directory / STAMP).write_text(environment.digest())


def setup(names: Sequence[str], progress: Progress) -> None:
    """Build the named environments that are not current, at the same time; do nothing for the others.

    When one fails the others are built to their end.

    :raises UsageError: this Python is too old or cannot make environments.
    :raises EnvironmentMissing: a build failed; the end of its log is in the message.
    """
    if sys.version_info < MINIMUM_PYTHON:
        raise UsageError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old",
            "Install Python 3.11 or later; `make PYTHON=python3.12`.",
        )
    with concurrent.futures.ThreadPoolExecutor() as pool, supervised(pool):
        builds = [pool.submit(_make_current, environments()[name], progress) for name in names]
        for _ in as_done(builds):
            pass
    for build in builds:
        build.result()


class _Lines:
    """Progress as lines on standard error."""

    def say(self, stage: str, text: str) -> None:
        """Print one line."""
        print(f"{stage}: {text}", file=sys.stderr)

    def advance(self, stage: str, done: int, total: int) -> None:
        """Ignore: builds do not count."""


def main(arguments: list[str]) -> int:
    """``python3 -m pipeline.environments setup [NAME ...]``; returns the exit code."""
    known = list(environments())
    if not arguments or arguments[0] != "setup" or not set(arguments[1:]) <= set(known):
        print(f"usage: python3 -m pipeline.environments setup [{' | '.join(known)} ...]", file=sys.stderr)
        return UsageError.exit_code
    try:
        setup(arguments[1:] or [name for name in known if not environments()[name].optional], _Lines())
    except (EnvironmentMissing, UsageError) as error:
        print(f"error: {error.message}\n  {error.remedy}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # a full disk, a folder that cannot be written
        print(f"error: {error}\n  Check disk space and access rights, then run again.", file=sys.stderr)
        return EnvironmentMissing.exit_code
    except (KeyboardInterrupt, Interrupted):
        print("setup: interrupted; run again to go on", file=sys.stderr)
        return Interrupted.exit_code
    return 0


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C
    sys.exit(main(sys.argv[1:]))
