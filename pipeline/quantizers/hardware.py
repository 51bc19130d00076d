"""Can the device and the engine at hand serve what a recipe makes? Asked before anything is made.

``pipeline/inspection`` asks the same of the GPUs that a candidate is meant for, once it is made.
"""

from __future__ import annotations

import re

from pipeline.errors import RecipeError
from pipeline.settings import Hardware, Recipe

_OTHER = "Choose another recipe, or run the gate on"


def demand_servable(
    recipe: Recipe, kv_cache_dtype: str, compute_capability: float | None, cpu_flags: frozenset[str]
) -> None:
    """Refuse a recipe whose candidate cannot be served here. Of one that states no hardware none is demanded.

    :param kv_cache_dtype: what the serving settings say.
    :param compute_capability: the GPU's; None: the engine serves on the CPU.
    :param cpu_flags: names of the CPU's instruction sets, as in ``/proc/cpuinfo``.
    :raises RecipeError: it cannot be served; says why.
    """
    if recipe.kv_cache and kv_cache_dtype != "auto":
        raise RecipeError(
            f"recipe {recipe.name} quantizes the KV cache, but the serving settings fix kv_cache_dtype: "
            f"{kv_cache_dtype}, which the engine obeys on both sides",
            "Set it to auto: then the engine takes what each checkpoint says.",
        )
    needed = recipe.hardware
    if needed is None:
        return
    if compute_capability is not None:
        if compute_capability < needed.compute_capability:
            raise RecipeError(
                f"recipe {recipe.name}: the GPU has compute capability {compute_capability}; "
                f"the format needs {needed.compute_capability} or later",
                f"{_OTHER} such a GPU. To gate what vLLM makes of it here, state another `hardware` in a recipe of "
                "your own.",
            )
    elif needed.not_on_cpu:
        raise RecipeError(
            f"recipe {recipe.name}: this machine serves on its CPU, which cannot serve the format: {needed.not_on_cpu}",
            f"{_OTHER} a machine with an NVIDIA GPU of compute capability {needed.compute_capability} or later.",
        )
    elif recipe.kv_cache and not cpu_flags & {"avx512f", "amx_tile"}:
        raise RecipeError(
            f"recipe {recipe.name}: this machine serves on its CPU, and vLLM keeps an FP8 KV cache on a CPU only "
            "with AVX-512 or AMX",
            f"{_OTHER} a machine whose processor has one of them, or with an NVIDIA GPU of compute capability "
            f"{needed.compute_capability} or later.",
        )


def demand_engine(recipe: Recipe, version: str) -> None:
    """Refuse a recipe whose format the engine of this version does not serve.

    :raises RecipeError: the engine is too old.
    """
    if recipe.hardware and _parts(version) < _parts(recipe.hardware.engine):
        raise RecipeError(
            f"recipe {recipe.name}: the engine is vLLM {version}; "
            f"the format is served from {recipe.hardware.engine} on",
            "Use a later engine, or another recipe.",
        )


def stricter(one: Hardware | None, other: Hardware | None) -> Hardware | None:
    """What serves both formats; None where neither states anything."""
    if one is None or other is None:
        return one or other
    return Hardware(
        compute_capability=max(one.compute_capability, other.compute_capability),
        engine=max(one.engine, other.engine, key=_parts),
        not_on_cpu=one.not_on_cpu or other.not_on_cpu,
    )


def _parts(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
