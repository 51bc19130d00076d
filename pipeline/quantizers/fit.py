"""Fits a recipe to a checkpoint before any work: which layers, which group size, how many bytes."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline.errors import RecipeError
from pipeline.quantizers.checkpoint import Checkpoint, Tensor, tensors
from pipeline.settings import Recipe

GROUP_SIZES = (128, 64, 32)
"""Group sizes that ``auto`` tries, the largest first: fewer scales, and what kernels serve best. 32 is
the least that vLLM's kernels take."""
_SCALE_BYTES = 2  # llm-compressor keeps scales in the checkpoint's 16-bit type
_DTYPE_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}
_IN_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.\d+\.")
_NO_PROJECTION = re.compile(r"(norm|embed|rotary)", re.IGNORECASE)
ROUTER = re.compile(r"(^|\.)(gate|router|shared_expert_gate)(\.|$)")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)$")


@dataclass(frozen=True, slots=True)
class FittedRecipe:
    """A recipe with everything settled for one checkpoint.

    ``modules`` are the linear modules that are quantized, ``ignore`` what the quantizer is told to
    leave, ``predicted_bytes`` the size of the candidate's weights, within a percent.
    """

    recipe: Recipe
    group_size: int | None
    ignore: tuple[str, ...]
    modules: tuple[str, ...]
    predicted_bytes: int

    def inputs(self) -> dict[str, Any]:
        """What of this the candidate depends on, as JSON values: no names, no prose."""
        facts = self.recipe.model_dump(mode="json", exclude={"name", "description", "hardware", "group_size", "ignore"})
        return facts | {"group_size": self.group_size, "ignore": list(self.ignore), "modules": list(self.modules)}


def fit_recipe(recipe: Recipe, checkpoint: Checkpoint) -> FittedRecipe:
    """Settle ``recipe`` for ``checkpoint`` from the headers of its weight files.

    :raises RecipeError: nothing would be quantized, or a group size does not divide the input
        dimension of every quantized layer; names the layers.
    """
    every = list(tensors(checkpoint.path))
    linear = [tensor for tensor in every if is_linear(tensor)]
    routers = sorted({_shape_of_name(_module(t)) for t in linear if ROUTER.search(_module(t))})
    ignore = (*recipe.ignore, *map(_rule_of, routers))
    chosen = [tensor for tensor in linear if not any(matches(_module(tensor), rule) for rule in ignore)]
    if not chosen:
        raise RecipeError(
            f"recipe {recipe.name}: nothing to quantize in {checkpoint.path}: no linear layer is left by "
            f"ignore {list(recipe.ignore)}",
            "Shorten the recipe's `ignore`, or check that the checkpoint is a decoder with linear layers.",
        )
    group_size = _group_size(recipe, chosen)
    quantized = {tensor.name for tensor in chosen}
    predicted = sum(
        _quantized_bytes(recipe.scheme, tensor, group_size) if tensor.name in quantized else _plain_bytes(tensor)
        for tensor in every
    )
    return FittedRecipe(recipe, group_size, ignore, tuple(sorted(map(_module, chosen))), predicted)


def _module(tensor: Tensor) -> str:
    return tensor.name.removesuffix(".weight")


def is_linear(tensor: Tensor) -> bool:
    """Whether this is the weight of a linear layer: a matrix of a decoder layer or of the output head."""
    if not tensor.name.endswith(".weight") or len(tensor.shape) != 2:
        return False
    module = _module(tensor)
    if _HEAD.search(module):
        return True
    return bool(_IN_LAYER.search(module)) and not _NO_PROJECTION.search(module)


def matches(module: str, rule: str) -> bool:
    """Whether an ``ignore`` entry names the module, by the rules of compressed-tensors."""
    if rule.startswith("re:"):
        try:
            return re.match(rule[3:], module) is not None
        except re.error as error:
            raise RecipeError(f"ignore: {rule!r} is not a regular expression: {error}", "Correct it.") from error
    return module == rule


def _shape_of_name(module: str) -> str:
    """The module's name with its numbers replaced: one name for all layers."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", module)


def _rule_of(shape: str) -> str:
    """The ``ignore`` entry for a name whose numbers are replaced by stars."""
    pattern = re.escape(shape).replace(r"\*", r"\d+")
    return f"re:{pattern}$"


def _group_size(recipe: Recipe, chosen: Iterable[Tensor]) -> int | None:
    if recipe.group_size is None:
        return None
    inputs: dict[int, set[str]] = defaultdict(set)
    for tensor in chosen:
        inputs[tensor.shape[1]].add(_shape_of_name(_module(tensor)))
    if recipe.group_size == "auto":
        for size in GROUP_SIZES:
            if all(width % size == 0 for width in inputs):
                return size
        size = GROUP_SIZES[-1]
    elif recipe.group_size > 0:
        size = recipe.group_size
        if all(width % size == 0 for width in inputs):
            return size
    else:
        raise RecipeError(f"recipe {recipe.name}: group_size {recipe.group_size} is not positive", "Use 128, 64 or 32.")
    misfits = [
        f"  {name} (in={width})" for width, names in sorted(inputs.items()) if width % size for name in sorted(names)
    ]
    fitting = [str(s) for s in GROUP_SIZES if all(width % s == 0 for width in inputs)]
    remedy = (
        f"Group sizes that fit: {', '.join(fitting)}; or `group_size: auto`."
        if fitting
        else "No group size fits all layers: add those above to the recipe's `ignore`, or use a scheme without groups."
    )
    raise RecipeError(
        f"recipe {recipe.name}: group_size {size} does not divide the input dimension of\n" + "\n".join(misfits), remedy
    )


def _plain_bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * _DTYPE_BYTES.get(tensor.dtype, 1)


def _quantized_bytes(scheme: str, tensor: Tensor, group_size: int | None) -> int:
    """Bytes of a quantized linear weight as compressed-tensors stores it."""
    rows, columns = tensor.shape
    if scheme == "W4A16":
        groups = columns // (group_size or columns)
        packed_columns = -(-columns // 8)  # eight 4-bit values in an int32
        return rows * packed_columns * 4 + rows * groups * _SCALE_BYTES + 16  # 16: the stored shape, two int64
    return rows * columns + rows * _SCALE_BYTES
