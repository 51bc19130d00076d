"""Stage quantize: from a baseline checkpoint and a recipe to a candidate checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline import environments
from pipeline.progress import Progress
from pipeline.quantizers import calibration, llmcompressor
from pipeline.quantizers.checkpoint import Checkpoint, DigestCache, read_checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.quantizers.worker import source_digest
from pipeline.settings import Recipe
from pipeline.store import StageOutput, Store

STAGE = "quantize"
FACTS = "facts.json"
_SLACK_BYTES = 64 << 20  # tokenizer, logs, calibration text


def run(
    store: Store, checkpoint: Checkpoint, recipe: Recipe, calibration_root: Path, progress: Progress
) -> tuple[StageOutput, Checkpoint]:
    """Make the candidate, or find the one made before from the same inputs.

    Its directory holds ``checkpoint/``, ``facts.json``, ``calibration.jsonl`` (where the recipe
    calibrates), ``job.json`` and ``worker.log``.

    :raises RecipeError: the recipe does not fit the checkpoint; nothing was run.
    :raises GoldenSetError: the calibration text cannot be used; nothing was run.
    :raises QuantizeError: the quantizer failed.
    """
    fitted = fit_recipe(recipe, checkpoint)
    wanted = recipe.calibration
    text = calibration.select(calibration_root, wanted.samples) if wanted else None
    inputs = {
        "checkpoint": checkpoint.digest,
        "template": checkpoint.template_digest if text else None,
        "recipe": fitted.inputs(),
        "calibration": text.digest if text else None,
        "environment": environments.env_digest("quantize"),
        "worker": source_digest(llmcompressor.SCRIPT),
    }

    def build(output: Path) -> None:
        made = llmcompressor.quantize(
            checkpoint, fitted, text, output, python=environments.python_of("quantize"), progress=progress
        )
        facts = made | {
            "group_size": fitted.group_size,
            "modules": list(fitted.modules),
            "predicted_bytes": fitted.predicted_bytes,
            "calibration_digest": text.digest if text else None,
            "calibration_available": text.available if text else None,
        }
        (output / FACTS).write_text(json.dumps(facts, indent=1, sort_keys=True), encoding="utf-8")

    kept = store.make(STAGE, inputs, build, needs_bytes=fitted.predicted_bytes + _SLACK_BYTES)
    candidate = read_checkpoint(
        kept.path / "checkpoint",
        source=f"{checkpoint.source} + {recipe.name}",
        cache=DigestCache(store.root / "digests.json"),
        template_override=checkpoint.template,
        quantized=True,
    )
    return kept, candidate
