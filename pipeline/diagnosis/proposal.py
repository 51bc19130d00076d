"""The recipe to try next, written as a file that the gate takes like any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from pipeline.diagnosis.parts import Part
from pipeline.quantizers.hardware import stricter
from pipeline.settings import Recipe, load_recipe

BASE = "int4-mixed"
"""The recipe that every proposal for INT4 is built on."""
FULL = "full"
"""How the worker calls the precision of the baseline."""


def eight_bit_scheme(recipe: Recipe) -> str:
    """The scheme of parts that are promoted to 8 bits: the recipe's own, else that of :data:`BASE`."""
    part = recipe.eight_bit or load_recipe(BASE).eight_bit
    assert part is not None
    return part.scheme


def propose(
    recipe: Recipe, parts: Iterable[Part], promoted: Mapping[str, str], eight_bit: str, *, keeps_kv: bool
) -> Recipe:
    """``recipe`` with parts promoted; for INT4 on the lines of :data:`BASE`, so rounded by GPTQ.

    :param promoted: 8-bit scheme or :data:`FULL`, by name of the part.
    :param eight_bit: the 8-bit scheme.
    :param keeps_kv: whether a quantized KV cache stays.
    """
    parts = list(parts)
    full = [module for part in parts if promoted.get(part.name) == FULL for module in part.modules]
    mixed = recipe.int4 and bool(promoted)
    low = [module for part in parts if _has_8(part, promoted) for module in part.modules] if mixed else []
    facts = recipe.model_dump(mode="json")
    if mixed:
        mixed_recipe = load_recipe(BASE)
        base = mixed_recipe.model_dump(mode="json")
        own = {name: facts[name] for name in ("scheme", "group_size", "kv_cache", "ignore")}
        needed = stricter(recipe.hardware, mixed_recipe.hardware)
        facts = base | own | {"calibration": facts["calibration"] or base["calibration"]}
        facts["hardware"] = needed and needed.model_dump(mode="json")
        facts["eight_bit"] = {"scheme": eight_bit, "modules": low} if low else None
    facts["ignore"] = [*facts["ignore"], *full]
    if not keeps_kv:
        facts["kv_cache"] = None
        if facts["method"] == "rtn" and facts["scheme"] != "FP8" and facts["smoothquant"] is None:
            facts["calibration"] = None  # nothing reads it any more
    counts = [f"{len(names)} modules at {bits} bits" for names, bits in ((full, 16), (low, 8)) if names]
    facts["name"] = f"{recipe.name}-next"
    facts["description"] = f"{recipe.name} with {' and '.join(counts) or 'no FP8 KV cache'}, proposed by a diagnosis"
    return Recipe.model_validate(facts)


def _has_8(part: Part, promoted: Mapping[str, str]) -> bool:
    level = promoted.get(part.name)
    return level not in (None, FULL) or (level is None and part.bits == 8)


def as_file(recipe: Recipe) -> dict[str, Any]:
    """The recipe as its file holds it: what is not the default."""
    return recipe.model_dump(mode="json", exclude={"name"}, exclude_defaults=True, exclude_none=True)


def as_yaml(recipe: Recipe, command: str) -> str:
    """The text of its file."""
    text = yaml.safe_dump(as_file(recipe), sort_keys=False, allow_unicode=True, width=110)
    return f"# Proposed by: {command}\n{text}"
