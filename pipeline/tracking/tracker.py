"""The tracker: takes facts from any thread, writes them to MLflow from one, and never breaks a gate."""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import GateError, Interrupted
from pipeline.golden import GoldenSet
from pipeline.secrets import scrubbed
from pipeline.store import STAGE_FILE, StageOutput
from pipeline.tracking.facts import (
    clipped,
    description,
    flip_table,
    load_params,
    load_series,
    metrics_of,
    params_of,
    recipe_of,
    tags_of,
)
from pipeline.tracking.store import (
    database_lock,
    experiment_id,
    open_client,
    run_page,
    said_by,
    tracking_uri,
    without_password,
)
from pipeline.tracking.traces import TurnTrace, log_traces

FINISH_S = 120.0
"""Seconds that the end of a run waits for what is still to be written (importing mlflow alone takes 5 to 40)."""
FINISH_KILLED_S = 10.0
"""The same for an interrupted run, whose user wants to be gone, and after a failure."""

_MOST, _MOST_METRICS = 100, 1000
"""Parameters, tags and metrics that MLflow takes in one request."""


@dataclass
class _Run:
    """A run as the worker sees it; ``id`` is empty until the server has given one."""

    name: str
    started: float
    id: str = ""
    params: set[str] = field(default_factory=set)
    open: bool = True


class StageRun:
    """Takes the facts of one stage; usable from any thread, and a no-op when tracking has failed."""

    def __init__(self, tracker: Tracker, run: _Run) -> None:
        self._tracker = tracker
        self._run = run

    def params(self, params: Mapping[str, Any]) -> None:
        """Log parameters; the first value of a name stands, as MLflow allows no change."""
        self._tracker._log(self._run, params=params)

    def metrics(self, metrics: Mapping[str, float | None]) -> None:
        """Log figures; missing and non-finite ones are left out."""
        self._tracker._log(self._run, metrics=metrics)

    def output(self, output: StageOutput) -> None:
        """Log a stage output: its record, key, whether it was reused, and the seconds it took when made."""
        self._tracker._log(self._run, {"key": output.key}, {"stage.seconds": output.seconds}, {"reused": output.reused})
        self.artifacts(output.path / STAGE_FILE)

    def table(self, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Log a table that the UI shows, as ``name`` (which ends in ``.json``); an empty one is left out."""
        if columns:
            table = {column: list(values) for column, values in columns.items()}
            self._tracker._post(lambda: self._tracker._client.log_table(self._run.id, table, name))

    def artifacts(self, *paths: Path, folder: str = "") -> None:
        """Upload files as they are a little later; those that do not exist are left out.

        Give paths in complete stage outputs, which neither move nor change.
        """
        self._tracker._upload(self._run, paths, folder)


class Tracker:
    """A parent MLflow run for one gate, with a nested run per stage.

    :param experiment: e.g. ``quant-gate/<baseline model>``; made when absent.
    :param uri: tracking URI; default :func:`tracking_uri`.
    """

    def __init__(self, experiment: str, run_name: str, uri: str | None = None) -> None:
        self.uri = uri or tracking_uri()
        self.experiment = experiment
        self.problem: str | None = None
        """The first failure, for people; None while all is well."""
        self._run = _Run(run_name, time.time())
        self._runs = [self._run]
        self._seconds: dict[str, float] = {}
        self._gave_up = False
        self._client: Any = None
        self._experiment_id = ""
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)
        self._post(self._connect)
        self._post(lambda: self._create(self._run))

    # --- what the gate calls -------------------------------------------------------------------

    def start(self, params: Mapping[str, Any] | None = None, tags: Mapping[str, Any] | None = None) -> None:
        """Begin the parent run and return at once; the slow part happens in the background.

        Facts given earlier are written then. A tracker that was never started leaves nothing.
        """
        self._log(self._run, params or {}, tags=tags or {})
        self._thread.start()

    @property
    def run_id(self) -> str | None:
        """Id of the parent run, once the tracking server has given one."""
        return self._run.id or None

    def params(self, params: Mapping[str, Any]) -> None:
        """Log parameters of the gate; the first value of a name stands."""
        self._log(self._run, params=params)

    def log(self, metrics: Mapping[str, float | None], tags: Mapping[str, Any]) -> None:
        """Log figures and tags of this run, for one that is no gate and so has no decision record."""
        self._log(self._run, metrics=metrics, tags=tags)

    def load(self, load: Mapping[str, Any]) -> None:
        """Log the curves of a load test, a step for each number of users, and when its requests came."""
        now = int(time.time() * 1000)
        self._log(self._run, load_params(load))
        self._post(lambda: self._log_metrics(self._run, load_series(load), now))

    def adopt(self, run_id: str) -> None:
        """Have another run, which has its own tracker, nested below this one."""
        self._post(lambda: self._client.set_tag(run_id, "mlflow.parentRunId", self._run.id))

    @contextlib.contextmanager
    def stage(self, name: str, params: Mapping[str, Any] | None = None) -> Iterator[StageRun]:
        """A nested run that lasts as long as the block; FAILED or KILLED when the block raises."""
        run = _Run(name, time.time())
        self._runs.append(run)
        self._post(lambda: self._create(run, parent=self._run))
        self._log(run, params or {})
        status = "FINISHED"
        try:
            yield StageRun(self, run)
        except BaseException as error:
            status = _status(error)
            text = error.message if isinstance(error, GateError) else str(error)
            self._log(run, tags={"error": type(error).__name__, "mlflow.note.content": f"```\n{text}\n```"})
            raise
        finally:
            ended = time.time()
            self._seconds[f"seconds/{name}"] = ended - run.started
            self._post(lambda: self._terminate(run, status, ended))

    def golden_set(self, golden: GoldenSet, location: str) -> None:
        """Record ``golden``, read from ``location``, as the dataset input."""
        counts = {"turns": len(golden.turns), "scenarios": golden.scenarios, **golden.slice_counts}
        self.dataset(golden.name, golden.digest, scrubbed(location), counts)

    def dataset(self, name: str, digest: str, source: str, profile: Mapping[str, Any] | None = None) -> None:
        """Record the golden set as a dataset input of the gate; ``profile`` holds its counts."""
        self._post(lambda: self._log_dataset(name, digest, source, profile or {}))

    def decision(
        self, decision: Mapping[str, Any], files: Sequence[Path] = (), traces: Sequence[TurnTrace] = ()
    ) -> None:
        """Log a decision record as parameters, metrics, tags and description, with its files.

        Of ``files`` (``decision.json``, ``report.html``, ``flips.jsonl``, ...) a ``flips.jsonl`` is
        also logged as a table that the MLflow UI shows.

        :param traces: flipped turns, each logged as a trace of its own below the run.
        """
        flips = [path for path in files if path.name == "flips.jsonl"]
        self._post(lambda: self._log_decision(decision, flips, traces))
        if decision.get("load"):
            self.load(decision["load"])
        self._upload(self._run, files, "")
        if traces:
            self._post(lambda: log_traces(self.uri, self._experiment_id, self._run.id, traces))

    def artifacts(self, *paths: Path, folder: str = "") -> None:
        """Upload files to the gate's run; see :meth:`StageRun.artifacts`."""
        self._upload(self._run, paths, folder)

    def finish(self, error: BaseException | None = None, wait_s: float | None = None) -> str | None:
        """End the run and wait for what is unwritten, a limited time; call it once, whatever happened.

        :param error: what broke the run (FAILED) or interrupted it (KILLED); None for any verdict.
        :return: :attr:`problem`, which names what was not tracked and why.
        """
        status = _status(error)
        tags = {} if error is None else {"error": type(error).__name__}
        if isinstance(error, Exception):
            tags["mlflow.note.content"] = f"**{type(error).__name__}**\n\n```\n{error}\n```"
        self._log(self._run, metrics=self._seconds, tags=tags)
        ended = time.time()
        self._jobs.put((lambda: self._close(status, ended), True))
        self._jobs.put(None)
        if self._thread.ident is not None:
            if wait_s is None:
                wait_s = FINISH_KILLED_S if status == "KILLED" or self._gave_up else FINISH_S
            self._thread.join(wait_s)
            if self._thread.is_alive():
                self._note(f"MLflow at {without_password(self.uri)}: not everything was written within {wait_s:g} s")
        return self.problem

    # --- the worker: one thread, so that runs exist before facts are logged to them -------------

    def _post(self, job: Callable[[], None]) -> None:
        self._jobs.put((job, False))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, always = item
            if self._gave_up and not always:
                continue
            try:
                job()
            except Exception as error:  # noqa: BLE001 - tracking must never break a gate, whatever MLflow raises
                self._gave_up = True
                self._note(said_by(self.uri, error))

    def _note(self, text: str) -> None:
        if self.problem is None:
            self.problem = clipped(text, 400)

    def _connect(self) -> None:
        self._client = open_client(self.uri)
        with database_lock(self.uri):
            self._experiment_id = experiment_id(self._client, self.experiment, self.uri)

    def _create(self, run: _Run, parent: _Run | None = None) -> None:
        tags = {"mlflow.source.name": "quant-gate", "mlflow.source.type": "LOCAL"}
        with contextlib.suppress(OSError, KeyError):  # no such user in some containers
            tags["mlflow.user"] = getpass.getuser()
        if parent is not None:
            tags["mlflow.parentRunId"] = parent.id
        started = int(run.started * 1000)
        run.id = self._client.create_run(self._experiment_id, started, tags, run.name).info.run_id

    def _terminate(self, run: _Run, status: str, ended: float) -> None:
        self._client.set_terminated(run.id, status, int(ended * 1000))
        run.open = False

    def _close(self, status: str, ended: float) -> None:
        """Terminate the gate's run and whatever stage is still open; tried even after a failure."""
        for run in reversed(self._runs):
            if run.id and run.open:
                self._terminate(run, status, ended)

    def _log(
        self,
        run: _Run,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float | None] | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        now = int(time.time() * 1000)
        self._post(lambda: self._log_batch(run, params or {}, metrics or {}, tags or {}, now))

    def _log_batch(
        self,
        run: _Run,
        params: Mapping[str, Any],
        metrics: Mapping[str, float | None],
        tags: Mapping[str, Any],
        now: int,
    ) -> None:
        from mlflow.entities import Param, RunTag

        new = {name: value for name, value in params.items() if name not in run.params and value is not None}
        run.params |= set(new)
        some_params = [Param(name, clipped(_text(value), 6000)) for name, value in new.items()]
        some_tags = [RunTag(name, clipped(_text(value), 8000)) for name, value in tags.items()]
        for first in range(0, max(len(some_params), len(some_tags)), _MOST):
            part = slice(first, first + _MOST)
            self._client.log_batch(run.id, params=some_params[part], tags=some_tags[part], synchronous=True)
        self._log_metrics(run, [(name, value, 0) for name, value in metrics.items() if value is not None], now)

    def _log_metrics(self, run: _Run, metrics: Sequence[tuple[str, float, int]], now: int) -> None:
        """Log metrics with their steps."""
        from mlflow.entities import Metric

        some = [
            Metric(name, round(float(value), 6), now, step)  # the UI shows every digit there is
            for name, value, step in metrics
            if math.isfinite(value)
        ]
        for first in range(0, len(some), _MOST_METRICS):
            self._client.log_batch(run.id, metrics=some[first : first + _MOST_METRICS], synchronous=True)

    def _upload(self, run: _Run, paths: Sequence[Path], folder: str) -> None:
        def job() -> None:
            for path in paths:
                if path.is_file():
                    self._client.log_artifact(run.id, str(path), folder or None)

        self._post(job)

    def _log_dataset(self, name: str, digest: str, source: str, profile: Mapping[str, Any]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        dataset = Dataset(
            name=name,
            digest=digest[:16],  # MLflow keeps 36 characters; the whole digest is a parameter
            source_type="local",
            source=json.dumps({"uri": source}),
            profile=json.dumps(dict(profile)),
        )
        context = InputTag("mlflow.data.context", "evaluation")
        self._client.log_inputs(self._run.id, datasets=[DatasetInput(dataset, [context])])

    def _log_decision(self, decision: Mapping[str, Any], flips: Sequence[Path], traces: Sequence[TurnTrace]) -> None:
        # the UI's table of runs shows the beginnings of names, but no tags until asked to
        name = f"{decision['verdict']}: {recipe_of(decision)} ({self._run.name})"
        traced = f"#/experiments/{self._experiment_id}/traces?selectedEvaluationId="
        links = {trace.turn_id: traced + trace.id for trace in traces}
        told = description(decision, run_page(self._experiment_id, self._run.id), links=links)
        tags = {**tags_of(decision), "mlflow.runName": name, "mlflow.note.content": told}
        now = int(time.time() * 1000)
        self._log_batch(self._run, params_of(decision), metrics_of(decision), tags, now)
        for path in flips:
            if table := flip_table(path, {trace.turn_id: trace.id for trace in traces}):
                self._client.log_table(self._run.id, table, "flips.json")


def _status(error: BaseException | None) -> str:
    if error is None:
        return "FINISHED"
    return "KILLED" if isinstance(error, Interrupted | KeyboardInterrupt | SystemExit) else "FAILED"


def _text(value: Any) -> str:
    """A value as MLflow keeps it. Messages of whatever broke may quote a credential."""
    return scrubbed(value if isinstance(value, str) else json.dumps(value, default=str))
