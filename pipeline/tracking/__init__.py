"""Experiment tracking: what a gate run leaves in MLflow. The only package that imports mlflow.

Nothing here can change a verdict. The gate hands facts to a :class:`Tracker`, which returns at once;
one background thread imports mlflow (seconds), opens the store and writes the facts in order. The
first failure is kept in :attr:`Tracker.problem`, nothing more is tried, and the gate goes on.

Without ``MLFLOW_TRACKING_URI`` the store is ``mlruns/mlflow.db`` in the project, artifacts beside it.
mlflow itself is imported when it is first needed, so that importing this package costs nothing.
"""

from pipeline.tracking.facts import drift_metrics, drift_table, figures_of, in_percent
from pipeline.tracking.store import download_model_uri, tracking_uri, ui_address, ui_server, without_password
from pipeline.tracking.tracker import StageRun, Tracker

__all__ = [
    "StageRun",
    "Tracker",
    "download_model_uri",
    "drift_metrics",
    "drift_table",
    "figures_of",
    "in_percent",
    "tracking_uri",
    "ui_address",
    "ui_server",
    "without_password",
]
