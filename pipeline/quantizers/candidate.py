"""What every quantizer's output goes through: made complete from the baseline, and checked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pipeline.errors import QuantizeError
from pipeline.quantizers.checkpoint import Checkpoint, side_files, tensors
from pipeline.quantizers.fit import FittedRecipe

_MARKS = (".weight_scale", ".weight_packed", ".qweight", ".scales")


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
            "Check that the recipe's backend supports this architecture.",
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
