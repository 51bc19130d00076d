"""The parts of a candidate that are measured and promoted: what the engine multiplies as one, layer by layer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import RecipeError
from pipeline.quantizers.checkpoint import Checkpoint, Tensor, tensors
from pipeline.quantizers.fit import FUSED, FittedRecipe
from pipeline.quantizers.storage import plain_bytes, quantized_bytes
from pipeline.settings import Recipe

_EXPERTS = re.compile(r"(^.*\.experts)\.\d+\.")


@dataclass(frozen=True, slots=True)
class Part:
    """Modules that have one precision in every build.

    ``layer`` counts from 0; the number of layers stands for what comes after them. ``kind`` is the name within a
    layer. ``plain`` names tensors that belong with the modules though they are not quantized. ``bits`` is what the
    candidate gives it; ``extra_8`` and ``extra_16`` are the bytes that 8 bits (None: it has them) and 16 bits add.
    """

    name: str
    layer: int
    kind: str
    modules: tuple[str, ...]
    plain: tuple[str, ...]
    bits: int
    extra_8: int | None
    extra_16: int

    def as_json(self) -> dict[str, Any]:
        """For a worker's job."""
        return asdict(self)


def smoothed(recipe: Recipe) -> bool:
    """Whether factors were moved between the modules of a layer, so that they only fit together."""
    return recipe.method == "awq" or recipe.smoothquant is not None


def layers_of(fitted: FittedRecipe, baseline: Checkpoint) -> list[str]:
    """Names of all decoder layers, quantized or not, in their order.

    :raises RecipeError: nothing that is quantized lies in a decoder layer.
    """
    stems = {layer.rpartition(".")[0] for layer in fitted.layers()}
    if len(stems) != 1:
        raise RecipeError(
            f"recipe {fitted.recipe.name}: cannot tell the decoder layers of {baseline.path}: {sorted(stems)}",
            "Only models with one stack of decoder layers can be diagnosed.",
        )
    stem = stems.pop()
    inside = re.compile(rf"{re.escape(stem)}\.(\d+)\.")
    numbers = {int(found[1]) for tensor in tensors(baseline.path) if (found := inside.match(tensor.name))}
    return [f"{stem}.{number}" for number in sorted(numbers)]


def parts_of(fitted: FittedRecipe, baseline: Checkpoint, candidate: Checkpoint, eight_bit: str) -> list[Part]:
    """The parts that the candidate quantizes, in the order of layers and names.

    :param eight_bit: the scheme that a part is promoted to from 4 bits.
    """
    layers = layers_of(fitted, baseline)
    plain = {tensor.name: tensor for tensor in tensors(baseline.path)}
    stored: dict[str, int] = defaultdict(int)
    packed = set()
    for tensor in tensors(candidate.path):
        module, _, last = tensor.name.rpartition(".")
        stored[module] += plain_bytes(tensor)
        if last == "weight_packed":
            packed.add(module)
    members: dict[str, list[str]] = defaultdict(list)
    for module in fitted.modules:
        members[_part_name(module, layers, whole=smoothed(fitted.recipe))].append(module)
    made = [
        _part(name, modules, layers, plain, stored, packed, eight_bit, whole=smoothed(fitted.recipe))
        for name, modules in members.items()
    ]
    return sorted(made, key=lambda part: (part.layer, part.name))


def _part(
    name: str,
    modules: list[str],
    layers: list[str],
    plain: Mapping[str, Tensor],
    stored: Mapping[str, int],
    packed: set[str],
    eight_bit: str,
    *,
    whole: bool,
) -> Part:
    weights = [plain[f"{module}.weight"] for module in modules]
    held = sum(stored[module] for module in modules)
    four = any(module in packed for module in modules)
    layer = _layer_of(name, layers)
    inside = layer < len(layers)
    kind = name.removeprefix(layers[layer]).removeprefix(".") if inside else name
    own = tuple(f"{module}." for module in modules)
    others = [tensor for tensor in plain if tensor.startswith(f"{name}.") and not tensor.startswith(own)]
    return Part(
        name=name,
        layer=layer,
        kind=kind or "layer",
        modules=tuple(modules),
        plain=tuple(t for t in others if t.endswith((".weight", ".bias"))) if whole and inside else (),
        bits=4 if four else 8,
        extra_8=sum(quantized_bytes(eight_bit, weight, None) for weight in weights) - held if four else None,
        extra_16=sum(map(plain_bytes, weights)) - held,
    )


def _layer_of(name: str, layers: list[str]) -> int:
    return next((n for n, layer in enumerate(layers) if name == layer or name.startswith(f"{layer}.")), len(layers))


def _part_name(module: str, layers: list[str], *, whole: bool) -> str:
    """The part that a module belongs to: its layer, its experts, what it is multiplied with, or itself alone."""
    layer = _layer_of(module, layers)
    if whole and layer < len(layers):
        return layers[layer]
    if experts := _EXPERTS.match(module):
        return experts[1]
    parent, _, last = module.rpartition(".")
    return f"{parent}.{'+'.join(next((group for group in FUSED if last in group), (last,)))}".lstrip(".")
