"""The model registry: versions of a quantized model, and the aliases ``champion``, ``rollback`` and ``waived``.

Nothing here decides which version an alias may name: see :mod:`pipeline.signoff.releasing`.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.errors import GateError, SignoffError, StageError
from pipeline.secrets import scrubbed
from pipeline.tracking.store import database_lock, experiment_id, open_client, tracking_uri, without_password

CHAMPION, ROLLBACK, WAIVED = "champion", "rollback", "waived"
CHECKPOINT, SIGNATURES = "candidate", "signoff"
"""Folders of a run's artifacts: the candidate's checkpoint, and what was signed of it."""


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
        description: str,
    ) -> str:
        """Upload a checkpoint with what was signed of it to a run, and register it as a version of ``name``.

        A version that was made of the same run before is written anew instead: its tags and its signatures.

        :param run_id: the gate's run; None: it was not recorded, and a run for this alone is made in ``experiment``.
        :param signatures: what was signed.
        :param reports: files of the run, to be uploaded again: a waiver is told in them.
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
            self._client.set_tag(run_id, "mlflow.note.content", description)
            if before:
                version = before[0].version
                self._client.update_model_version(name, version, description)
                for key, value in tags.items():
                    self._client.set_model_version_tag(name, version, key, value)
                return str(version)
            self._make(name)
            source = f"{self._client.get_run(run_id).info.artifact_uri}/{CHECKPOINT}"
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

    def point(self, name: str, aliases: Mapping[str, str], by: str, why: str) -> None:
        """Have aliases name versions, and keep that as a tag of the model: who moved what, when and why.

        The tag is written first: a move that breaks off can be ended by what it tells.
        """
        with _reached(self.uri):
            now = datetime.now(UTC)
            before = {alias: self.aliased(name, alias) for alias in aliases}
            event = {"aliases": dict(aliases), "before": before, "by": by, "why": why}
            self._client.set_registered_model_tag(
                name, f"history.{now:%Y%m%dT%H%M%S.%fZ}", json.dumps(event, ensure_ascii=False, sort_keys=True)
            )
            for alias, version in aliases.items():
                self._client.set_registered_model_alias(name, alias, version)

    def history(self, name: str) -> list[dict[str, Any]]:
        """Every move of an alias, the oldest first, as :meth:`point` kept it, with its time ``at``."""
        with _reached(self.uri):
            tags = self._client.get_registered_model(name).tags
        return [
            {"at": key.removeprefix("history."), **json.loads(tags[key])}
            for key in sorted(tags)
            if key.startswith("history.")
        ]

    def _versions(self, name: str) -> list[Any]:
        return list(self._client.search_model_versions(f"name = '{name}'"))

    def _make(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name, description=_DESCRIPTION)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise


_DESCRIPTION = (
    "Quantized builds that were signed off with `quant-gate signoff`. `champion` is the one to serve, `rollback` the "
    "one before it; both were accepted by the gate. `waived` names a build that was **not** accepted and that someone "
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
        shown, secret = without_password(uri)
        text = " ".join((str(error) or type(error).__name__).split())
        raise StageError(
            f"MLflow at {shown}: {scrubbed(text.replace(secret, '') if secret else text)}",
            "Check that the server and its artifact store answer, and MLFLOW_TRACKING_URI.",
        ) from error
