"""The embedded demo model: SmolLM2-135M-Instruct from a PyPI package, so that no hub is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.digests import digest_of, file_digest
from pipeline.progress import Progress
from pipeline.quantizers.worker import run_worker, source_digest
from pipeline.settings import PROJECT_ROOT

NAMES = ("demo", "demo-raw")
"""``demo`` is tuned for support by an adapter, where the project holds one; ``demo-raw`` is as published."""
WEIGHT_BYTES = 270_000_000
"""Size of the checkpoint, bytes, rounded up."""
SCRIPT = "embedded_worker.py"
DEMO_FILES = PROJECT_ROOT / "examples" / "demo_model"


def adapter(name: str, files: Path = DEMO_FILES) -> Path | None:
    """The directory of the adapter that ``name`` is merged with, if any."""
    folder = files / "adapter"
    return folder if name == "demo" and (folder / "adapter_model.safetensors").is_file() else None


def inputs(name: str, env_digest: str, files: Path = DEMO_FILES) -> dict[str, Any]:
    """Everything the checkpoint depends on. Without an adapter both names mean the same checkpoint."""
    folder = adapter(name, files)
    return {
        "environment": env_digest,
        "worker": source_digest(SCRIPT),
        "template": digest_of((files / "chat_template.jinja").read_text(encoding="utf-8")),
        "adapter": folder
        and [file_digest(folder / part) for part in ("adapter_config.json", "adapter_model.safetensors")],
    }


def build(name: str, output: Path, *, python: Path, progress: Progress, files: Path = DEMO_FILES) -> None:
    """Fill ``output/checkpoint``.

    :raises QuantizeError: the worker failed.
    """
    folder = adapter(name, files)
    job = {
        "output": str(output / "checkpoint"),
        "template": (files / "chat_template.jinja").read_text(encoding="utf-8"),
        "adapter": str(folder) if folder else None,
    }
    run_worker(SCRIPT, job, python=python, folder=output, stage="resolve", progress=progress)
