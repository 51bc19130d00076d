"""Makes a candidate with llm-compressor, which runs in an environment of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pipeline.errors import QuantizeError
from pipeline.progress import Progress
from pipeline.quantizers import calibration
from pipeline.quantizers.calibration import CalibrationText
from pipeline.quantizers.checkpoint import Checkpoint, side_files, tensors
from pipeline.quantizers.fit import FittedRecipe
from pipeline.quantizers.worker import run_worker

SCRIPT = "llmcompressor_worker.py"
_MARKS = (".weight_scale", ".weight_packed")


def quantize(
    checkpoint: Checkpoint,
    fitted: FittedRecipe,
    text: CalibrationText | None,
    output: Path,
    *,
    python: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Fill ``output/checkpoint`` with the candidate and return facts about its making.

    :raises QuantizeError: the quantizer failed, or what it saved is not the candidate asked for.
    """
    saved = output / "checkpoint"
    samples = output / "calibration.jsonl"
    if text is not None:
        calibration.write(text, samples)
    recipe = fitted.recipe
    job = {
        "checkpoint": str(checkpoint.path),
        "output": str(saved),
        "method": recipe.method,
        "scheme": recipe.scheme,
        "group_size": fitted.group_size,
        "smoothquant": recipe.smoothquant,
        "dampening": recipe.dampening,
        "ignore": list(fitted.ignore),
        "modules": len(fitted.modules),
        "samples": None if text is None else str(samples),
        "max_tokens": recipe.calibration.max_tokens if recipe.calibration else None,
        "template": checkpoint.template,
    }
    facts = run_worker(SCRIPT, job, python=python, folder=output, stage="quantize", progress=progress)
    complete(checkpoint, saved)
    check(saved, fitted)
    return facts


def complete(checkpoint: Checkpoint, saved: Path) -> None:
    """Make everything but the weights the baseline's own, so that both sides differ in nothing else.

    Tokenizer, template and generation config are copied byte for byte. ``config.json`` is the baseline's
    with what quantizing adds: the library's own version of it may drop keys that an engine reads.

    :raises QuantizeError: no config was saved, or it does not say how the weights are quantized.
    """
    config_file = saved / "config.json"
    try:
        made = json.loads(config_file.read_text(encoding="utf-8"))
        quantization = made["quantization_config"]
    except (OSError, ValueError, KeyError) as error:
        raise QuantizeError(
            f"{config_file}: no quantization_config was saved: {error!r}",
            "Check that llm-compressor supports this architecture.",
        ) from error
    for file in side_files(saved):
        file.unlink()
    for file in side_files(checkpoint.path):
        shutil.copyfile(file, saved / file.name)
    config = json.loads((checkpoint.path / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = quantization
    if "tie_word_embeddings" in made:  # the quantizer may have had to part them
        config["tie_word_embeddings"] = made["tie_word_embeddings"]
    config_file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for file in saved.iterdir():  # weights are written readable for their owner only
        file.chmod(config_file.stat().st_mode)


def check(saved: Path, fitted: FittedRecipe) -> None:
    """Check by the headers of the saved weights that exactly the intended modules were quantized.

    :raises QuantizeError: others were.
    """
    names = [tensor.name for tensor in tensors(saved)]
    made = {name.removesuffix(mark) for name in names for mark in _MARKS if name.endswith(mark)}
    wanted = set(fitted.modules)
    if made != wanted:
        left, extra = sorted(wanted - made), sorted(made - wanted)
        raise QuantizeError(
            f"{saved}: of {len(wanted)} modules to quantize {len(left)} were left{_first(left)}; "
            f"{len(extra)} others were quantized{_first(extra)}",
            "Name the modules that cannot be quantized in the recipe's `ignore`.",
        )


def _first(names: list[str]) -> str:
    return f" (first: {names[0]})" if names else ""
