"""Engines that are started before they can serve.

Half of an engine's start is imports, which need neither a checkpoint nor a GPU's memory. So they are done while the
checkpoint is still being made, or while another engine has the GPU.
"""

from __future__ import annotations

import threading
from pathlib import Path

from pipeline.progress import Progress
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
from pipeline.stages import serve_replay
from pipeline.store import Store


class EnginesAhead:
    """The engines of a run that import and wait, by the label of the replay that they are for."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self._store = store
        self._progress = progress
        self._lock = threading.Lock()
        self._held: dict[str, Server] = {}
        self._taken: set[str] = set()
        self._over = False

    def start(self, label: str, plan: EnginePlan, checkpoint: Path) -> None:
        """Start the engine of one replay, unless that has begun already.

        :param checkpoint: where it is, or will be.
        :raises ServerError: the engine cannot be started.
        :raises Interrupted: everything is being stopped.
        """
        with self._lock:
            if not self._over and label not in self._taken and label not in self._held:
                server = serve_replay.engine(self._store, plan, checkpoint, self._progress, label)
                try:
                    server.start(held=True)
                except BaseException:
                    serve_replay.drop(server)
                    raise
                self._held[label] = server

    def take(self, label: str) -> Server | None:
        """The engine of a replay that begins now, if it was started; who takes it stops it."""
        with self._lock:
            self._taken.add(label)
            return self._held.pop(label, None)

    def drop(self) -> None:
        """Stop the engines that nobody took, and start no more of them."""
        with self._lock:
            self._over = True
            left, self._held = self._held, {}
        for server in left.values():
            serve_replay.drop(server)
