"""Recipes that cannot be served here are refused with the reason, before any work."""

from __future__ import annotations

import pytest

from pipeline.errors import RecipeError
from pipeline.quantizers.hardware import demand_engine, demand_servable, stricter
from pipeline.settings import CONFIGS, Hardware, Recipe, load_recipe

AVX512 = frozenset({"avx2", "avx512f"})
NAMES = sorted(path.stem for path in (CONFIGS / "recipes").glob("*.yaml"))


def demand(name: str, *, gpu: float | None = None, cpu_flags: frozenset[str] = AVX512) -> None:
    demand_servable(load_recipe(name), "auto", gpu, cpu_flags)


# The table of vLLM's documentation (features/quantization, v0.14): INT8 and weight-only INT4 from Turing (7.5) on,
# FP8 W8A8 from Ada (8.9) on. An FP8 KV cache on a CPU: `_get_attn_isa` in vLLM's v1/attention/backends/cpu_attn.py.
@pytest.mark.parametrize("name", NAMES)
def test_everything_is_served_on_a_hopper(name: str) -> None:
    demand(name, gpu=9.0)


@pytest.mark.parametrize("name", NAMES)
def test_fp8_needs_ada(name: str) -> None:
    if "fp8" in name:
        with pytest.raises(RecipeError, match=r"compute capability 8\.6; the format needs 8\.9"):
            demand(name, gpu=8.6)
    else:
        demand(name, gpu=8.6)


@pytest.mark.parametrize("name", NAMES)
def test_a_volta_serves_none(name: str) -> None:
    with pytest.raises(RecipeError, match=r"the format needs [78]\."):
        demand(name, gpu=7.0)


@pytest.mark.parametrize("name", NAMES)
def test_on_a_cpu(name: str) -> None:
    if name == "fp8-block":
        with pytest.raises(RecipeError, match="only where it has AMX, and those keep activations in 16 bits") as raised:
            demand(name)
        assert raised.value.remedy == (
            "Choose another recipe, or run the gate on a machine with an NVIDIA GPU of compute capability 8.9 or later."
        )
    else:
        demand(name)


@pytest.mark.parametrize("name", NAMES)
def test_an_fp8_cache_needs_more_than_avx2(name: str) -> None:
    if name == "fp8-block":
        return
    if name.endswith("fp8-kv"):
        with pytest.raises(RecipeError, match="only with AVX-512 or AMX"):
            demand(name, cpu_flags=frozenset({"avx2"}))
        demand(name, cpu_flags=frozenset({"amx_tile"}))
    else:
        demand(name, cpu_flags=frozenset({"avx2"}))


# By number, not by text: 0.9.0 is before 0.32.0.
@pytest.mark.parametrize("engine", ["0.32.0", "0.100.0", "1.0", "0.32.1.dev3+g12", "0.8.5"])
def test_a_late_enough_engine(engine: str) -> None:
    demand_engine(load_recipe("int4-awq"), engine)


@pytest.mark.parametrize("engine", ["0.8.4", "0.8.4.post1", "0.7"])
def test_an_early_engine(engine: str) -> None:
    with pytest.raises(RecipeError, match=r"served from 0\.8\.5 on"):
        demand_engine(load_recipe("int4-awq"), engine)


def test_the_stricter_of_two_is_stricter_in_each_respect() -> None:
    one = Hardware(compute_capability=7.5, engine="0.11.0", not_on_cpu="why")
    other = Hardware(compute_capability=8.9, engine="0.9.0")  # by number, as above
    both = Hardware(compute_capability=8.9, engine="0.11.0", not_on_cpu="why")
    assert (stricter(one, other), stricter(other, one), stricter(None, one)) == (both, both, one)
    assert stricter(None, None) is None


def test_a_recipe_that_states_nothing_is_not_asked() -> None:
    own = Recipe(description="", method="rtn", scheme="FP8_BLOCK")
    demand_servable(own, "auto", None, frozenset())
    demand_engine(own, "0.1.0")


@pytest.mark.parametrize("name", NAMES)
def test_a_cache_type_that_is_fixed_would_undo_the_recipe(name: str) -> None:
    """``Attention.__init__`` in vLLM's attention.py: an explicit kv_cache_dtype wins over the checkpoint's scheme."""
    if name.endswith("fp8-kv"):
        with pytest.raises(RecipeError, match="fix kv_cache_dtype: bfloat16") as raised:
            demand_servable(load_recipe(name), "bfloat16", 9.0, AVX512)
        assert "auto" in raised.value.remedy
    else:
        demand_servable(load_recipe(name), "bfloat16", 9.0, AVX512)
