"""Makes a candidate with AutoAWQ, which ended with release 0.2.9 and runs in an environment of its own for ever."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from pipeline.errors import RecipeError
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint, side_files, weight_files
from pipeline.quantizers.fit import FittedRecipe
from pipeline.quantizers.worker import run_worker

ENVIRONMENT = "autoawq"
SCRIPT = "autoawq_worker.py"
PARTS = ("bf16_products.py", "calibration_tokens.py", "mended_awq.py")


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

    :raises RecipeError: the checkpoint cannot be told to the old transformers that AutoAWQ works with.
    :raises QuantizeError: the quantizer failed, also where AutoAWQ does not know the architecture.
    """
    wanted = fitted.recipe.calibration
    assert wanted is not None and samples is not None  # a recipe for AWQ has calibration text
    with tempfile.TemporaryDirectory(dir=output) as view:
        _link(checkpoint, Path(view))
        job = {
            "checkpoint": view,
            "output": str(output / "checkpoint"),
            "group_size": fitted.group_size,
            "modules": len(fitted.modules),
            "samples": str(samples),
            "max_tokens": wanted.max_tokens,
            "enough_tokens": fitted.enough_tokens,
            "search_samples": wanted.search_samples,
            "template": checkpoint.template,
        }
        return run_worker(SCRIPT, job, python=python, folder=output, stage="quantize", progress=progress)


def _link(checkpoint: Checkpoint, folder: Path) -> None:
    """Fill ``folder`` with links to the checkpoint's files, and with configs in the words of transformers 4.51."""
    index = checkpoint.path / "model.safetensors.index.json"
    told = {"config.json": in_old_words, "tokenizer_config.json": tokenizer_in_old_words}
    for file in [*side_files(checkpoint.path), *weight_files(checkpoint.path), *([index] if index.is_file() else [])]:
        if tell := told.get(file.name):
            config = tell(json.loads(file.read_text(encoding="utf-8")))
            (folder / file.name).write_text(json.dumps(config, indent=1), encoding="utf-8")
        else:
            (folder / file.name).symlink_to(file.resolve())


def in_old_words(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` with what transformers 5 renamed under its old name too.

    Transformers 4.51 does not know ``rope_parameters`` and would silently take 10,000 for the base of rotary
    embeddings; it does not know ``dtype`` either.

    :raises RecipeError: rotary embeddings differ from layer to layer, which the old names cannot say.
    """
    old = dict(config)
    if "dtype" in config:
        old.setdefault("torch_dtype", config["dtype"])
    rope = config.get("rope_parameters")
    if isinstance(rope, dict):
        if any(isinstance(value, dict) for value in rope.values()):
            raise RecipeError(
                "backend autoawq: the checkpoint's rope_parameters differ by kind of layer, which the transformers "
                "4.51 that AutoAWQ works with cannot read",
                "Use the recipe int4-awq, which makes the same format with llm-compressor.",
            )
        if "rope_theta" in rope:
            old["rope_theta"] = rope["rope_theta"]
        if rope.get("rope_type", "default") != "default":
            old["rope_scaling"] = {name: value for name, value in rope.items() if name != "rope_theta"}
    return old


def tokenizer_in_old_words(config: dict[str, Any]) -> dict[str, Any]:
    """A ``tokenizer_config.json`` in which what transformers 5 renamed has its old name."""
    old = dict(config)
    if old.get("tokenizer_class") == "TokenizersBackend":
        old["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(old.get("extra_special_tokens"), list):
        old["additional_special_tokens"] = old.pop("extra_special_tokens")
    return old
