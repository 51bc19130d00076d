"""Fits a recipe to a checkpoint before any work: which layers, which group size, how many bytes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.errors import RecipeError
from pipeline.quantizers.checkpoint import Checkpoint, Tensor, tensors
from pipeline.quantizers.storage import BLOCK, kv_scale_bytes, plain_bytes, quantized_bytes
from pipeline.settings import Recipe

GROUP_SIZES = (128, 64, 32)
"""Group sizes of a recipe; ``auto`` tries the largest first: fewer scales, and what kernels serve best. vLLM's
Marlin kernel takes no others (``MARLIN_SUPPORTED_GROUP_SIZES``)."""
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Modules that vLLM multiplies as one; they need the same scheme."""
_IN_LAYER = re.compile(r"(^|.*\.)(layers|h|blocks)\.\d+(?=\.)")
_NO_PROJECTION = re.compile(r"(norm|embed|rotary)", re.IGNORECASE)
ROUTER = re.compile(r"(^|\.)(gate|router|shared_expert_gate)(\.|$)")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)$")


@dataclass(frozen=True, slots=True)
class FittedRecipe:
    """A recipe with everything settled for one checkpoint.

    ``modules`` are the linear modules that are quantized, ``eight_bit`` those among them that are named to stay at
    8 bits, ``ignore`` what the quantizer is told to leave, ``enough_tokens`` how much calibration text is enough,
    ``predicted_bytes`` the size of the candidate's weights, within a percent.
    """

    recipe: Recipe
    group_size: int | None
    ignore: tuple[str, ...]
    modules: tuple[str, ...]
    eight_bit: tuple[str, ...]
    enough_tokens: int | None
    predicted_bytes: int

    def inputs(self) -> dict[str, Any]:
        """What of this the candidate depends on, as JSON values: no names, no prose."""
        prose = {"name", "description", "deprecated", "hardware", "group_size", "ignore"}
        facts = self.recipe.model_dump(mode="json", exclude=prose)
        return facts | {"group_size": self.group_size, "ignore": list(self.ignore), "modules": list(self.modules)}

    def layers(self) -> dict[str, list[str]]:
        """The quantized modules of each decoder layer, by the layer's name."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules:
            if inside := _IN_LAYER.match(module):
                found[inside[0]].append(module)
        return dict(found)

    def schemes(self) -> dict[str, str]:
        """The scheme of every quantized module.

        Where layers that stay at 8 bits are yet to be found by measuring, some of them: any are as large.
        """
        found: dict[str, str] = dict.fromkeys(self.modules, self.recipe.scheme)
        if kept := self.recipe.eight_bit:
            some = list(self.layers().values())[: kept.layers] if kept.layers else [self.eight_bit]
            found |= {module: kept.scheme for modules in some for module in modules}
        return found


def fit_recipe(recipe: Recipe, checkpoint: Checkpoint) -> FittedRecipe:
    """Settle ``recipe`` for ``checkpoint`` from the headers of its weight files.

    :raises RecipeError: as :func:`fit_tensors`, or an ``ignore`` entry names no module of the checkpoint.
    """
    every = list(tensors(checkpoint.path))
    fitted = fit_tensors(recipe, every)
    _demand_known(recipe, {tensor.name.rpartition(".")[0] or tensor.name for tensor in every})
    return fitted


def _demand_known(recipe: Recipe, modules: set[str]) -> None:
    """Refuse to ignore what is not there: with a misspelt name the quantizer would take what was to be left alone.

    An output head may be named in any case: a tied one is not stored.
    """
    for rule in recipe.ignore:
        if _HEAD.search(rule) or matches("lm_head", rule) or any(matches(module, rule) for module in modules):
            continue
        raise RecipeError(
            f"recipe {recipe.name}: ignore: {rule!r} matches no module of the model",
            "Correct or remove it. Names look like model.layers.0.mlp.down_proj; patterns begin with re:",
        )


def fit_tensors(recipe: Recipe, every: Sequence[Tensor]) -> FittedRecipe:
    """Settle ``recipe`` for a BF16 checkpoint with these tensors.

    :raises RecipeError: nothing would be quantized, a group or block size does not fit a layer's shape, or
        modules that the engine fuses would differ; names the layers.
    """
    linear = [tensor for tensor in every if is_linear(tensor)]
    routers = sorted({_shape_of_name(_module(t)) for t in linear if ROUTER.search(_module(t))})
    ignore = (*recipe.ignore, *map(_rule_of, routers))
    chosen = {_module(t): t for t in linear if not any(matches(_module(t), rule) for rule in ignore)}
    if not chosen:
        raise RecipeError(
            f"recipe {recipe.name}: nothing to quantize: no linear layer is left by ignore {list(recipe.ignore)}",
            "Shorten the recipe's `ignore`, or check that the checkpoint is a decoder with linear layers.",
        )
    _demand_joined(recipe, "ignore", {_module(t) for t in linear} - set(chosen), set(chosen))
    group_size = _group_size(recipe, chosen.values())
    if recipe.scheme == "FP8_BLOCK":
        _demand_whole_blocks(recipe, chosen)
    named = _eight_bit(recipe, tuple(chosen))
    per_input = recipe.calibration and recipe.calibration.tokens_per_input
    widest = max(tensor.shape[1] for tensor in chosen.values())
    fitted = FittedRecipe(
        recipe, group_size, ignore, tuple(sorted(chosen)), named, per_input * widest if per_input else None, 0
    )
    _demand_other_layers(fitted)
    return replace(fitted, predicted_bytes=_predicted_bytes(fitted, every))


def _demand_other_layers(fitted: FittedRecipe) -> None:
    """Layers to keep at 8 bits are found by measuring, and some must be left at 4."""
    recipe, layers = fitted.recipe, len(fitted.layers())
    if recipe.eight_bit and (recipe.eight_bit.layers or 0) >= layers:
        raise RecipeError(
            f"recipe {recipe.name}: eight_bit.layers is {recipe.eight_bit.layers}, but the model has {layers} layers",
            "Lower it, or use an 8-bit recipe.",
        )


def _predicted_bytes(fitted: FittedRecipe, every: Iterable[Tensor]) -> int:
    recipe, schemes = fitted.recipe, fitted.schemes()
    total = kv_scale_bytes(sum(module.endswith("k_proj") for module in schemes)) if recipe.kv_cache else 0
    for tensor in every:
        scheme = schemes.get(_module(tensor))
        if scheme is None:
            total += plain_bytes(tensor)
        else:
            total += quantized_bytes(scheme, tensor, fitted.group_size, recipe.backend)
    return total


def _eight_bit(recipe: Recipe, modules: tuple[str, ...]) -> tuple[str, ...]:
    """The modules that the recipe names for 8 bits."""
    rules = recipe.eight_bit.modules if recipe.eight_bit else ()
    found = {rule: {module for module in modules if matches(module, rule)} for rule in rules}
    if idle := [rule for rule, named in found.items() if not named]:
        raise RecipeError(
            f"recipe {recipe.name}: eight_bit.modules: {idle[0]!r} matches no quantized module",
            "Names look like model.layers.0.mlp.down_proj; patterns begin with re:",
        )
    named = {module for each in found.values() for module in each}
    _demand_joined(recipe, "eight_bit.modules", named, set(modules) - named)
    return tuple(sorted(named))


def _demand_joined(recipe: Recipe, field: str, named: set[str], others: set[str]) -> None:
    """Refuse to name some of the modules that the engine multiplies as one, and not the others."""
    for module in sorted(named):
        parent, _, last = module.rpartition(".")
        parts = next((group for group in FUSED if last in group), ())
        if apart := {f"{parent}.{part}" for part in parts} & others:
            raise RecipeError(
                f"recipe {recipe.name}: {field} names {module} without {', '.join(sorted(apart))}",
                "The engine multiplies these as one, so they need the same scheme: name all of them or none.",
            )


def _demand_whole_blocks(recipe: Recipe, chosen: Mapping[str, Tensor]) -> None:
    """vLLM joins q, k and v, and gate and up: a block must not reach from one into the next.

    Source: ``validate_fp8_block_shape`` in vLLM's ``quantization/utils/fp8_utils.py``: all but the last.
    """
    joined = tuple(part for group in FUSED for part in group[:-1])
    misfits = {
        f"  {_shape_of_name(module)} (out={tensor.shape[0]})"
        for module, tensor in chosen.items()
        if module.endswith(joined) and tensor.shape[0] % BLOCK
    }
    if misfits:
        raise RecipeError(
            f"recipe {recipe.name}: blocks of {BLOCK} rows do not divide the output dimension of\n"
            + "\n".join(sorted(misfits)),
            "Use fp8-dynamic or fp8-static for this model.",
        )


def _module(tensor: Tensor) -> str:
    return tensor.name.removesuffix(".weight")


def is_linear(tensor: Tensor) -> bool:
    """Whether this is the weight of a linear layer: a matrix of a decoder layer or of the output head."""
    if not tensor.name.endswith(".weight") or len(tensor.shape) != 2:
        return False
    module = _module(tensor)
    if _HEAD.search(module):
        return True
    return bool(_IN_LAYER.match(module)) and not _NO_PROJECTION.search(module)


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
    else:
        size = recipe.group_size
        if all(width % size == 0 for width in inputs):
            return size
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
