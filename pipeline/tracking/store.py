"""The MLflow store: where it is, opening it without waiting for a dead server, and models registered in it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import ModelError, SettingsError, StageError, UsageError
from pipeline.secrets import scrubbed
from pipeline.settings import PROJECT_ROOT

TRACKING_URI = "MLFLOW_TRACKING_URI"
PROBE_S = 5.0
"""Seconds within which a tracking server must answer at the start."""

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",  # the terminal belongs to the gate
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # MLflow's own defaults (7 tries of 120 s) would hold a run up for minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # else the UI asks, or shows its page for traces
    "mlflow.note.content": "Gate runs of one baseline model. Rates are in %, differences, limits and margins in "
    "percentage points. A metric is lost when `upper_limit` < -`margin`, kept when `lower_limit` >= -`margin`; "
    "`turns_lost` passed before and fail now, `turns_gained` the reverse.",
}


def tracking_uri(project: Path = PROJECT_ROOT) -> str:
    """``$MLFLOW_TRACKING_URI``, else the SQLite store in the project."""
    return os.environ.get(TRACKING_URI) or f"sqlite:///{project.resolve()}/mlruns/mlflow.db"


def download_model_uri(uri: str, target: Path) -> Path:
    """Fetch a registered model (``models:/name@alias`` or ``models:/name/version``) into ``target``.

    :return: the directory of the checkpoint in it: the one that holds ``config.json``.
    :raises ModelError: no such model, version or alias, or it is not a checkpoint.
    :raises StageError: the registry cannot be reached or breaks.
    """
    registry = os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri()
    shown = without_password(registry)
    try:
        open_client(tracking_uri())
        import mlflow
        from mlflow.artifacts import download_artifacts

        mlflow.set_tracking_uri(tracking_uri())  # parts of MLflow ask for it, and would make a store where we stand
        root = Path(download_artifacts(uri, dst_path=str(target), tracking_uri=tracking_uri(), registry_uri=registry))
    except Exception as error:  # MLflow lets errors of its database, HTTP and storage libraries through
        text = scrubbed(" ".join(str(error).split()))
        if getattr(error, "error_code", "") in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise ModelError(
                f"{uri}: not in the MLflow registry at {shown}: {text}",
                f"Write models:/NAME@ALIAS or models:/NAME/VERSION, and set {TRACKING_URI} to the server that has it.",
            ) from error
        raise StageError(
            f"{uri}: cannot be fetched from MLflow at {shown}: {text}",
            f"Check that the server and its artifact store answer, and {TRACKING_URI}.",
        ) from error
    found = sorted(path.parent for path in root.rglob("config.json"))
    if len(found) != 1:
        raise ModelError(
            f"{uri}: holds {len(found)} directories with a config.json, not one",
            "Register the directory of one Hugging Face checkpoint as the model version's source.",
        )
    return found[0]


def ui_server(port: int) -> tuple[list[str], dict[str, str]]:
    """The command that serves MLflow's pages over the local store on 127.0.0.1, and its environment variables.

    The store is told in an environment variable: other users can read command lines, and a database's address may
    hold its password.

    :raises SettingsError: ``MLFLOW_TRACKING_URI`` names a server, which has pages of its own.
    :raises UsageError: the port is taken.
    """
    uri = tracking_uri()
    if uri.startswith(("http://", "https://")):
        raise SettingsError(f"{TRACKING_URI} is a server: {without_password(uri)}", "Open that address in a browser.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: one that has just ended may
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(f"port {port}: {error.strerror}", "Choose another: `make ui PORT=5001`.") from error
    path = _database_path(uri)
    if path is not None and not path.exists():
        open_client(uri)  # a store made here is whole even when the server is stopped at once
    folder = PROJECT_ROOT / "mlruns" if path is None else path.parent
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--artifacts-destination", str(folder / "artifacts"), "--uvicorn-opts", "--log-level warning"),
    ]
    settings = {
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # else eight more processes, for things unused here
        "PYTHONWARNINGS": "ignore",
    }
    return command, settings


def ui_address(port: int) -> str:
    """Where the pages are; the query keeps MLflow from opening its pages for traces instead of runs."""
    return f"http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning"


def open_client(uri: str) -> Any:
    """An ``MlflowClient`` whose store answers; makes a SQLite store on first use.

    :raises OSError: an HTTP server that does not answer (found out before the slow import).
    """
    if uri.startswith(("http://", "https://")):
        _probe(uri)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # its "Retrying" lines would reach the terminal
    from mlflow import MlflowClient

    path = _database_path(uri)
    if path is not None:
        with database_lock(uri):
            if not path.exists():
                # Migrating takes seconds. A kill meanwhile must not leave half a database behind.
                work = path.with_suffix(".work")
                work.unlink(missing_ok=True)
                MlflowClient(f"sqlite:///{work}").search_experiments(max_results=1)
                with contextlib.suppress(FileExistsError):  # a server may have made one meanwhile: keep that
                    path.hardlink_to(work)
                work.unlink()
    client = MlflowClient(uri)
    client.search_experiments(max_results=1)
    return client


def experiment_id(client: Any, name: str, uri: str) -> str:
    """Id of the experiment, made when absent."""
    from mlflow.exceptions import MlflowException

    path = _database_path(uri)
    location = None if path is None else (path.parent / "artifacts").as_uri()
    known = client.get_experiment_by_name(name)
    if known is None:
        try:
            return str(client.create_experiment(name, location, _EXPERIMENT_TAGS))
        except MlflowException:
            known = client.get_experiment_by_name(name)  # another gate may have made it this moment
            if known is None:
                raise
    return str(known.experiment_id)


def run_page(experiment: str, run_id: str) -> str:
    """Address of a run's page, as links in MLflow's own pages name it."""
    return f"#/experiments/{experiment}/runs/{run_id}"


def _probe(uri: str) -> None:
    """Any HTTP answer at all shows that the server lives.

    :raises OSError: refused, unresolvable, or silent for ``PROBE_S`` seconds.
    """
    parts = urllib.parse.urlsplit(uri)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/") + "/health")
    try:
        with urllib.request.urlopen(bare.geturl(), timeout=PROBE_S):
            pass
    except urllib.error.HTTPError:
        pass
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLError):  # MLflow has its own settings for certificates
            raise


def _database_path(uri: str) -> Path | None:
    """The file of a ``sqlite:///`` URI, else None."""
    name = uri.removeprefix("sqlite:///")
    return None if name in (uri, "", ":memory:") else Path(name).resolve()


@contextlib.contextmanager
def database_lock(uri: str) -> Iterator[None]:
    """Keep two gates from preparing the same SQLite store at once, which MLflow does not guard."""
    path = _database_path(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def without_password(uri: str) -> str:
    """``uri`` without user and password."""
    user, at, _ = urllib.parse.urlsplit(uri).netloc.rpartition("@")
    return uri.replace(user + at, "", 1) if at else uri


def said_by(uri: str, error: Exception) -> str:
    """What MLflow at ``uri`` or a library below it said, on one line and without credentials."""
    text = " ".join((str(error) or type(error).__name__).split())
    return f"MLflow at {without_password(uri)}: {scrubbed(text)}"
