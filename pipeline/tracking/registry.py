"""The model registry: versions of a quantized model, and the aliases ``champion``, ``rollback`` and ``waived``.

Nothing here decides which version an alias may name: see :mod:`pipeline.signoff.releasing`.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.errors import GateError, SignoffError, StageError
from pipeline.tracking.facts import HEADING
from pipeline.tracking.store import database_lock, experiment_id, open_client, run_page, said_by, tracking_uri

CHAMPION, ROLLBACK, WAIVED = "champion", "rollback", "waived"
CHECKPOINT, SIGNATURES = "candidate", "signoff"
"""Folders of a run's artifacts: the candidate's checkpoint, and what was signed of it."""
_HISTORY, _MOMENT = "history.", "%Y%m%dT%H%M%S.%fZ"
_NOTE = "mlflow.note.content"


class Registry:
    """The registry that goes with the tracking store (or the one that ``MLFLOW_REGISTRY_URI`` names).

    :raises StageError: it cannot be reached or breaks, from any method.
    """

    def __init__(self) -> None:
        self.uri = tracking_uri()
        with _reached(self.uri):
            open_client(self.uri)
            from mlflow import MlflowClient

            self._client = MlflowClient(self.uri, os.environ.get("MLFLOW_REGISTRY_URI") or self.uri)

    def add_version(
        self,
        name: str,
        run_id: str | None,
        *,
        experiment: str,
        run_name: str,
        checkpoint: Path,
        signatures: Sequence[Path],
        reports: Sequence[Path],
        tags: Mapping[str, str],
        model: str,
        signed: str,
        describe: Callable[[str], str],
    ) -> str:
        """Upload a checkpoint with what was signed of it to a run, and register it as a version of ``name``.

        A version that was made of the same run before is written anew instead: its tags and its signatures.

        :param run_id: the gate's run; None: it was not recorded, and a run for this alone is made in ``experiment``.
        :param signatures: what was signed.
        :param reports: files of the run, to be uploaded again: a waiver is told in them.
        :param model: the baseline, in words for people.
        :param signed: the sentence on the sign-off, which the run's description is to begin with.
        :param describe: makes the version's description, given the address of the run's page.
        """
        with _reached(self.uri):
            before = [
                v for v in self._versions(name) if (v.run_id == run_id if run_id else v.tags.get("run") == run_name)
            ]
            if before:
                run_id = before[0].run_id
            if run_id is None:
                with database_lock(self.uri):
                    experiment_ = experiment_id(self._client, experiment, self.uri)
                run_id = self._client.create_run(experiment_, run_name=run_name).info.run_id
                self._client.set_terminated(run_id)
            if not before:
                self._client.log_artifacts(run_id, str(checkpoint), CHECKPOINT)
            for file in reports:
                self._client.log_artifact(run_id, str(file))
            for file in signatures:
                self._client.log_artifact(run_id, str(file), SIGNATURES)
                if file.suffix == ".sig":  # beside the weights, where `model_signing verify` looks for it
                    self._client.log_artifact(run_id, str(file), CHECKPOINT)
            for tag in ("signoff", "waiver"):
                if tags.get(tag):
                    self._client.set_tag(run_id, tag, tags[tag])
            run = self._client.get_run(run_id)
            description = describe(run_page(run.info.experiment_id, run_id))
            told = run.data.tags.get(_NOTE, description)
            verdict = told[max(told.find(HEADING), 0) :]  # without what an earlier sign-off said
            self._client.set_tag(run_id, _NOTE, f"{signed}\n\n{verdict}")
            if before:
                version = before[0].version
                self._client.update_model_version(name, version, description)
                for key, value in tags.items():
                    self._client.set_model_version_tag(name, version, key, value)
                return str(version)
            self._make(name, model)
            source = f"{run.info.artifact_uri}/{CHECKPOINT}"
            made = self._client.create_model_version(name, source, run_id, dict(tags), description=description)
            return str(made.version)

    def aliased(self, name: str, alias: str) -> str | None:
        """The version that an alias names, or None."""
        from mlflow.exceptions import MlflowException

        with _reached(self.uri):
            try:
                return str(self._client.get_model_version_by_alias(name, alias).version)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    return None
                raise

    def tags(self, name: str, version: str) -> dict[str, str]:
        """Tags of a version."""
        with _reached(self.uri):
            return dict(self._client.get_model_version(name, version).tags)

    @contextlib.contextmanager
    def signature(self, name: str, version: str, file: str) -> Iterator[Path]:
        """One of the files that were signed of a version.

        :raises SignoffError: it has none.
        """
        with tempfile.TemporaryDirectory() as folder:
            try:
                with _reached(self.uri):
                    run_id = self._client.get_model_version(name, version).run_id
                    path = self._client.download_artifacts(run_id, f"{SIGNATURES}/{file}", folder)
            except StageError as error:
                raise SignoffError(
                    f"version {version} of {name} was not signed off: {error.message}", "Sign off its run first."
                ) from error
            yield Path(path)

    def begin(self, name: str, alias: str, version: str, by: str, why: str) -> str:
        """Keep as a tag of the model that an alias is about to name a version: who moves it, when and why.

        :return: the key of the move in :meth:`history`, which :meth:`end` takes.
        """
        moment, known = datetime.now(UTC), self.history(name)
        if known:  # clocks differ, and the order of moves matters
            moment = max(moment, known[-1]["at"] + timedelta(microseconds=1))
        key = f"{_HISTORY}{moment:{_MOMENT}}.{uuid.uuid4().hex[:8]}"
        event = {"alias": alias, "version": version, "before": self.aliased(name, alias), "by": by, "why": why}
        self._keep(name, key, {**event, "ended": False})
        return key

    def point(self, name: str, aliases: Mapping[str, str]) -> None:
        """Have aliases name versions."""
        with _reached(self.uri):
            for alias, version in aliases.items():
                self._client.set_registered_model_alias(name, alias, version)

    def end(self, name: str, key: str) -> None:
        """Keep that the move ``key`` was made."""
        (event,) = (each for each in self.history(name) if each["key"] == key)
        self._keep(name, key, {**{part: event[part] for part in event.keys() - {"key", "at"}}, "ended": True})

    def history(self, name: str) -> list[dict[str, Any]]:
        """Every move of an alias as it was kept, the oldest first, with its ``key`` and time ``at``.

        What somebody else wrote into such tags is left out.
        """
        with _reached(self.uri):
            tags = self._client.get_registered_model(name).tags
        events = []
        for key in sorted(tags):
            if key.startswith(_HISTORY):
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    event = json.loads(tags[key])
                    moment = datetime.strptime(key.removeprefix(_HISTORY).rpartition(".")[0], _MOMENT)
                    kept = {part: event[part] for part in ("alias", "version", "before", "by", "why", "ended")}
                    events.append({"key": key, "at": moment.replace(tzinfo=UTC), **kept})
        return events

    def _keep(self, name: str, key: str, event: Mapping[str, Any]) -> None:
        with _reached(self.uri):
            text = json.dumps(event, ensure_ascii=False, sort_keys=True)
            self._client.set_registered_model_tag(name, key, text)

    def _versions(self, name: str) -> list[Any]:
        return list(self._client.search_model_versions(f"name = '{name}'"))

    def _make(self, name: str, model: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name, description=f"Quantized builds of {model}{_DESCRIPTION}")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise


_DESCRIPTION = (
    " that were signed off with `quant-gate signoff`. `champion` is the one to serve, `rollback` the one before it; "
    "both were accepted by the gate. `waived` names a build that was **not** accepted and that someone "
    "answers for until a date. The tags `history.*` tell who moved what."
)


@contextlib.contextmanager
def _reached(uri: str) -> Iterator[None]:
    """Turn whatever MLflow and its database, HTTP and storage libraries raise into one error."""
    try:
        yield
    except GateError:
        raise
    except Exception as error:
        raise StageError(
            said_by(uri, error),
            "Check that the server and its artifact store answer, and MLFLOW_TRACKING_URI.",
        ) from error
