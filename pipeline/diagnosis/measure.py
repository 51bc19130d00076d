"""Stage ``diagnose``: what each part of a candidate does to the answers of some turns, measured by a worker.

Output directory: ``measurements.json`` (the worker's result), ``measured.jsonl`` (each measurement as it was made),
``turns.jsonl``, ``job.json`` and ``worker.log``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline import environments
from pipeline.diagnosis.parts import Part
from pipeline.digests import digest_of
from pipeline.errors import RecordError
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.quantizers.worker import run_worker, source_digest
from pipeline.store import StageOutput, Store

STAGE = "diagnose"
SCRIPT = "diagnosis_worker.py"
PARTS = ("calibration_tokens.py", "drifting.py", "promotion.py", "swapping.py")
ENVIRONMENT = "quantize"
POSITIONS = 64
"""Tokens of each answer at which distributions are compared."""
MEASUREMENTS = "measurements.json"


def run(
    store: Store,
    *,
    baseline: Checkpoint,
    candidate: Checkpoint,
    layers: Sequence[str],
    parts: Sequence[Part],
    turns: Sequence[str],
    eight_bit: str,
    kv: bool,
    restore: float,
    progress: Progress,
) -> tuple[StageOutput, dict[str, Any]]:
    """Measure, or reuse what was measured before; an interrupted run goes on where it was.

    :param turns: lines as :func:`pipeline.diagnosis.turns.as_lines` makes them.
    :param eight_bit: the scheme that INT4 parts are promoted to.
    :param kv: whether the candidate quantizes the KV cache.
    :param restore: share of the drift that is to be taken away.
    :raises QuantizeError: the worker failed.
    """
    inputs = {
        "baseline": baseline.digest,
        "candidate": candidate.digest,
        "template": baseline.template_digest,
        "turns": digest_of(list(turns)),
        "parts": digest_of([part.as_json() for part in parts]),
        "eight_bit": eight_bit,
        "kv": kv,
        "restore": restore,
        "positions": POSITIONS,
        "environment": environments.env_digest(ENVIRONMENT),
        "worker": source_digest(SCRIPT, *PARTS),
    }

    def build(output: Path) -> None:
        asked = output / "turns.jsonl"
        asked.write_text("".join(f"{line}\n" for line in turns), encoding="utf-8")
        job = {
            "checkpoint": str(baseline.path),
            "candidate": str(candidate.path),
            "template": baseline.template,
            "turns": str(asked),
            "measured": str(output / "measured.jsonl"),
            "positions": POSITIONS,
            "layers": list(layers),
            "parts": [part.as_json() for part in parts],
            "eight_bit": eight_bit,
            "kv": kv,
            "restore": restore,
        }
        python = environments.provide(ENVIRONMENT, progress)
        found = run_worker(SCRIPT, job, python=python, folder=output, stage=STAGE, progress=progress)
        text = json.dumps(found, indent=1, allow_nan=False)
        (output / MEASUREMENTS).write_text(text + "\n", encoding="utf-8")

    kept = store.make(STAGE, inputs, build, resumable=True)
    path = kept.path / MEASUREMENTS
    try:
        return kept, dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise RecordError(f"{path}: cannot read: {error!r}", f"Remove {kept.path} and run again.") from error
