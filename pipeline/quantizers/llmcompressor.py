"""Makes a candidate with llm-compressor, which runs in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.quantizers.fit import FittedRecipe
from pipeline.quantizers.worker import run_worker

ENVIRONMENT = "quantize"
SCRIPT = "llmcompressor_worker.py"
PARTS = ("bf16_products.py", "calibration_tokens.py", "sampled_awq.py", "sensitivity.py", "shared_hessian.py")


def quantize(
    checkpoint: Checkpoint,
    fitted: FittedRecipe,
    samples: Path | None,
    output: Path,
    *,
    python: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Save the candidate's weights and config to ``output/checkpoint`` and return facts about their making.

    :param samples: file of calibration conversations, where the recipe reads any.
    :raises QuantizeError: the quantizer failed.
    """
    recipe, wanted = fitted.recipe, fitted.recipe.calibration
    job = {
        "checkpoint": str(checkpoint.path),
        "output": str(output / "checkpoint"),
        "method": recipe.method,
        "scheme": recipe.scheme,
        "group_size": fitted.group_size,
        "eight_bit": eight_bit(fitted),
        "kv_cache": recipe.kv_cache,
        "smoothquant": recipe.smoothquant,
        "dampening": recipe.dampening,
        "activation_order": recipe.activation_order,
        "ignore": list(fitted.ignore),
        "modules": len(fitted.modules),
        "samples": str(samples) if samples else None,
        "max_tokens": wanted.max_tokens if wanted else None,
        "enough_tokens": fitted.enough_tokens,
        "search_samples": wanted.search_samples if wanted else None,
        "template": checkpoint.template,
    }
    return run_worker(SCRIPT, job, python=python, folder=output, stage="quantize", progress=progress)


def eight_bit(fitted: FittedRecipe) -> dict[str, Any] | None:
    """The part at 8 bits: modules by name, or the decoder layers of which the most sensitive are to be found."""
    part = fitted.recipe.eight_bit
    if part is None:
        return None
    layers = fitted.layers() if part.layers else None
    return {"scheme": part.scheme, "modules": list(fitted.eight_bit), "layers": layers, "keep": part.layers}
