"""The engine as a process: started on a free port, waited for, watched, and stopped for certain.

The process is the launcher as a supervisor (``engine/launcher.py``), leader of its own session. It holds one
end of a pipe whose other end is ours: however this process ends, the supervisor notices and ends the engine.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from pipeline.errors import GateError, Interrupted, ServerError, SettingsError
from pipeline.processes import enrol, leave
from pipeline.progress import Progress, Silent
from pipeline.serving.clients import local_client
from pipeline.serving.plan import LAUNCHER, SERVED_NAME, EnginePlan, setting_of

PORT_TRIES = 3
GRACE_S = 5.0
"""Seconds that the launcher gives the engine to stop by itself."""
STOP_S = 10.0
"""Seconds beyond the grace before the whole process group, the launcher with it, is killed."""
KILL_S = 10.0
"""Seconds that killed processes may take to vanish; only unreaped ones, which hold nothing, can take longer."""

_MILESTONES = (
    ("Initializing a V1 LLM engine", "engine is up, loading the model"),
    ("Loading weights took", "weights are loaded"),
    ("KV cache size", "warming up"),
    ("Starting vLLM server", "opening the port"),
)
_PREFIX = re.compile(r"^\(\S+ pid=\d+\) (?:[A-Z]+ \S+ \S+ \[\S+\] ?)?")
_NOISE = re.compile(r"\s|$|Route: |nanobind|Loading safetensors|Traceback|During handling|The above exception")
"""Starts of lines that tell nothing: frames of tracebacks (indented), routes, progress."""
_CAUSE = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit)\b(?!.*[Ss]ee root cause above)")
SETTINGS = (
    *("dtype", "max_seq_len", "kv_cache_dtype", "enforce_eager", "seed", "enable_prefix_caching"),
    *("enable_chunked_prefill", "speculative_config"),
)
"""What the engine says of its configuration that must be the same on both sides, whatever the flags were."""
_PORT_TAKEN = "Address already in use"


class Server:
    """A served checkpoint, as a context manager: inside the block the server is up and healthy.

    :param plan: how to start the engine.
    :param model: the checkpoint directory.
    :param log: where the engine's output goes; overwritten.
    :param label: the stage that progress is reported for.
    """

    def __init__(
        self, plan: EnginePlan, model: Path, log: Path, progress: Progress | None = None, label: str = "serve"
    ) -> None:
        self.plan = plan
        self.model = model
        self.log = log
        self.port = 0
        self.seconds_to_start = 0.0
        self._progress = progress or Silent()
        self._label = label
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self.held = False
        """Whether it was started to import alone, and never waited for since, stopped or not."""
        self._started = 0.0
        self._began = 0.0
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def url(self) -> str:
        """Base URL, without ``/v1``."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        try:
            if self._process is None:
                self.start()
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, held: bool = False) -> None:
        """Start the process and return at once; :meth:`wait` until it serves, and :meth:`stop` it in any case.

        :param held: until :meth:`wait` the engine only imports, which is half of its start. Its checkpoint need not be
            there yet, and on a GPU it takes no memory.
        """
        self._began = time.monotonic()
        self._started = time.time()
        self.held = held
        enrol(self)
        self._spawn()

    def _spawn(self) -> None:
        self.port = _free_port()
        theirs, ours = os.pipe()
        command = self.plan.command(self.model, self.port)
        at = command.index(str(LAUNCHER)) + 1
        command[at:at] = ["--lifeline", str(theirs), str(GRACE_S), *(["--held"] if self.held else [])]
        try:
            with self._lock, self.log.open("wb") as output:
                if self._stopped:
                    raise Interrupted("interrupted")
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if self.held else subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self.plan.process_environment(),
                    pass_fds=[theirs],
                    start_new_session=True,
                )
                self._lifeline = ours
        except (OSError, Interrupted) as error:
            os.close(ours)
            if isinstance(error, Interrupted):
                raise
            raise ServerError(f"the engine cannot be started: {error}", "Run `make setup`.") from error
        finally:
            os.close(theirs)

    def wait(self) -> None:
        """Wait until the server answers for our model.

        :raises SettingsError: the engine refused its command line.
        :raises ServerError: it died, took longer than the plan allows, or another server answers on the port.
        """
        said = 0
        self._release()
        with local_client(5) as client:
            for attempt in range(1, PORT_TRIES + 1):
                while self.alive():
                    with suppress(httpx.TransportError):
                        if client.get(f"{self.url}/health").is_success:
                            self._check_model(client)
                            self.seconds_to_start = time.monotonic() - self._began
                            return
                    if time.monotonic() - self._began > self.plan.startup_timeout_s:
                        raise ServerError(
                            f"the engine was not ready after {self.plan.startup_timeout_s:.0f} s; "
                            f"end of {self.log}:\n{self._tail()}",
                            "Raise startup_timeout_s in configs/serving if the machine is merely slow.",
                        )
                    said = self._tell(said)
                    time.sleep(0.2)
                if attempt == PORT_TRIES or self._stopped or _PORT_TAKEN not in self._text():
                    raise self._death("died while starting")
                self._end()
                self._progress.say(self._label, f"port {self.port} was taken meanwhile; trying another")
                self._spawn()

    def _release(self) -> None:
        """Let an engine that is held go on, with a port that is free now. The seconds of its start count from here."""
        process = self._process
        if self.held and process is not None and process.stdin is not None:
            self._began = time.monotonic()
            self.port = _free_port()
            with suppress(OSError, ValueError):  # it has died or was stopped, which is found out next
                process.stdin.write(f"{self.port}\n".encode())
                process.stdin.close()
        self.held = False

    def _check_model(self, client: httpx.Client) -> None:
        """Whoever answers must serve our checkpoint under our name."""
        try:
            cards = client.get(f"{self.url}/v1/models").json()["data"]
            served = {(card["id"], card["root"]) for card in cards}
        except (httpx.TransportError, ValueError, KeyError, TypeError) as error:
            raise ServerError(f"{self.url}/v1/models gives no list of models: {error!r}") from error
        if (SERVED_NAME, str(self.model)) not in served:
            raise ServerError(
                f"{self.url} serves {sorted(served)} instead of {self.model}",
                "Another server took the port; run again.",
            )

    def alive(self) -> bool:
        """Whether the process runs."""
        process = self._process
        return process is not None and process.poll() is None

    def check(self) -> None:
        """Do nothing while the process runs.

        :raises ServerError: it has ended; with the engine's own words.
        :raises Interrupted: it was stopped from another thread.
        """
        if not self.alive():
            raise self._death("died")

    def stop(self) -> None:
        """Stop the engine; when this returns, no process of it is left. From any thread, at any time, repeatedly."""
        self._stopped = True
        self._end()
        leave(self)

    def _end(self) -> None:
        with self._lock:
            if self._process is not None:
                if self._process.stdin is not None:
                    with suppress(OSError):
                        self._process.stdin.close()
                with suppress(ProcessLookupError):
                    self._process.terminate()
                try:
                    self._process.wait(GRACE_S + STOP_S)
                except subprocess.TimeoutExpired:
                    pass
                finally:
                    _end_group(self._process)
                self._process = None
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None

    def facts(self) -> dict[str, Any]:
        """What the running engine says of itself: version, arguments, settings in effect, kernels, KV cache, start."""
        with local_client(30) as client:
            try:
                version = str(client.get(f"{self.url}/version").json()["version"])
            except (httpx.TransportError, ValueError, KeyError) as error:
                raise ServerError(f"{self.url}/version gives no version: {error!r}") from error
        text = self._text()
        arguments = re.search(r"non-default args: (\{.*\})", text)
        config = re.search(r"Initializing a V1 LLM engine .* with config: (.*)", text)
        # Without the draft model's path: a model that drafts for itself has another on each side.
        told = re.sub(r"(SpeculativeConfig\([^,]*), model=(?:'[^']*'|None)", r"\1", config[1] if config else "")
        found = {name: re.search(rf"\b{name}=(\w+\([^)]*\)|[^,\s]+)", told) for name in SETTINGS}
        cache = re.search(r"((?:GPU|CPU) KV cache size: .*)", text)
        return {
            "version": version,
            "arguments": arguments[1] if arguments else None,
            "settings": {name: value[1] for name, value in found.items() if value},
            "kernels": sorted(set(re.findall(r"(?:Selected|Using) (\w+(?:Kernel|LinearMethod|Backend)\b.*)", text))),
            "kv_cache": cache[1] if cache else None,
            "started": round(self._started, 1),
            "seconds_to_start": round(self.seconds_to_start, 1),
        }

    # --- the engine's log ----------------------------------------------------------------------

    def _text(self) -> str:
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _tell(self, said: int) -> int:
        """Report milestones of the start as they come up in the log; returns how many were reported."""
        text = self._text()
        while said < len(_MILESTONES) and _MILESTONES[said][0] in text:
            self._progress.say(self._label, _MILESTONES[said][1])
            said += 1
        return said

    def _told(self) -> list[str]:
        """The log's lines that tell something, without their prefixes and repetitions."""
        bare = (_PREFIX.sub("", line)[:240] for line in self._text().splitlines())
        return list(dict.fromkeys(line for line in bare if not _NOISE.match(line)))

    def _tail(self, lines: int = 15) -> str:
        return "\n".join(self._told()[-lines:]) or "(empty)"

    def _death(self, how: str) -> GateError:
        if self._stopped:
            return Interrupted("interrupted")
        code = self._process.poll() if self._process is not None else None
        text = self._text()
        refused = re.search(r"error: (unrecognized arguments: .*|argument (?:-\w+/)*([\w-]*).*)", text)
        if refused:
            return SettingsError(
                f"the engine refuses its command line: {refused[1]}",
                f"Correct {setting_of(refused[2] or '')} in configs/serving.",
            )
        causes = [line for line in self._told() if _CAUSE.match(line)]
        because = f": {causes[0]}" if causes else ""
        return ServerError(
            f"the engine {how} (exit {code}){because}\nend of {self.log}:\n{self._tail()}", _remedy(text, code)
        )


def _remedy(text: str, code: int | None) -> str:
    lowered = text.lower()
    if "out of memory" in lowered or "no available memory for the cache" in lowered or code in (137, -9):
        return "Not enough memory: lower max_model_len, max_num_seqs or cpu_kv_cache_gib in configs/serving."
    if "kv cache" in lowered and "larger than" in lowered:
        return "Lower max_model_len, or give the KV cache more memory, in configs/serving."
    if "available memory on node" in lowered:
        return "Free memory, or lower cpu_kv_cache_gib in configs/serving."
    if "batch_invariant mode is not supported" in lowered:
        return "Set VLLM_BATCH_INVARIANT=0 in the environment: this model cannot be served in batch-invariant mode."
    if "invalid tool call parser" in lowered:
        return "Choose one of the parsers named above as tool_call_parser in configs/serving."
    return "The full log is in the file named above."


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the process's group and wait until it is gone."""
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            break
        process.poll()
        time.sleep(0.02)
    process.wait()
