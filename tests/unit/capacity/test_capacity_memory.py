"""What a card holds: published figures, the engine's own logs, the rule of thumb, traffic and bandwidth."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from published_models import bare

from pipeline.capacity.memory import (
    GIB,
    Load,
    against_naive,
    batched_tokens,
    cache_size,
    naive,
    plan_pool,
)
from pipeline.capacity.model import Model, read_model
from pipeline.capacity.traffic import Traffic, decode_bytes, decode_ceiling
from pipeline.capacity.weights import Weights, baseline_tensors, planned_weights
from pipeline.errors import SettingsError
from pipeline.inspection.hardware import Gpu, load_hardware
from pipeline.settings import load_recipe

BF16, FP8 = 2, 1
ISSUE_10517 = "RTX 3090, vLLM 0.6, issue 10517"


def built(root: Path, name: str, recipe: str | None = None) -> tuple[Model, Weights]:
    folder = bare(root, name)
    model = read_model(folder)
    return model, planned_weights(baseline_tensors(folder, model), model, load_recipe(recipe) if recipe else None)


def card(gib: float, bandwidth: float = 1000) -> Gpu:
    return Gpu(memory_gib=gib, bandwidth_gb_s=bandwidth, native=["fp16"], datasheet="none")


# --- the guides --------------------------------------------------------------------------------


# Llama-3.1-8B, 24 GB at 90 %: "about 3.5 / 11 / 14 GB for KV, i.e. about 28k tokens (BF16 KV), 175k and 220k (FP8 KV)".
# The pools agree with 2 GB of overhead and 10^9 bytes a GB. The tokens are the guides' where 8.5 is taken for the GB of
# FP8 weights, as they do (they count 9.1 GB, which is 8.46 GiB), and 64 and 128 KiB a token for as many kB.
@pytest.mark.parametrize(
    ("recipe", "kv", "guides_gb", "left_gb", "tokens", "within"),
    [
        (None, BF16, 16.06, 3.5, 28_000, 0.05),
        ("fp8-dynamic", FP8, 8.46, 11, 175_000, 0.10),
        ("int4-gptq", FP8, 5.70, 14, 220_000, 0.05),
    ],
)
def test_the_published_pool_of_a_24_gb_card(
    recipe: str | None, kv: int, guides_gb: float, left_gb: float, tokens: int, within: float, tmp_path: Path
) -> None:
    model, weights = built(tmp_path, "Llama-3.1-8B", recipe)
    load = Load(context=8192, share=0.9, overhead_gib=2e9 / GIB)
    pool = plan_pool(model, weights, "any", card(24e9 / GIB), load, kv)
    assert pool.pool / 1e9 == pytest.approx(left_gb, rel=0.05)
    assert pool.tokens == pytest.approx(tokens, rel=within)
    by_hand = (0.9 * 24e9 - weights.bytes - 2e9) / (kv * 65_536)
    assert pool.tokens == int(by_hand // 16) * 16
    unit = GIB if recipe == "fp8-dynamic" else 1e9
    assert weights.bytes / unit == pytest.approx(guides_gb, abs=0.005)
    assert (0.9 * 24 - guides_gb - 2) * 1e9 / (kv * 64_000) == pytest.approx(tokens, rel=0.02)


@pytest.mark.parametrize(
    ("name", "recipe", "kv", "context", "gib", "sequences"),
    [
        ("Llama-3.1-8B", "int4-gptq", BF16, 8_192, 24, 18),
        ("Llama-3.1-8B", None, FP8, 16_384, 80, 63),
        ("Llama-3.1-8B", "int4-gptq", FP8, 65_536, 80, 18),
        ("Llama-3.1-70B", "int4-gptq", FP8, 8_192, 80, 36),
    ],
)
def test_the_published_rule_of_thumb_and_what_is_left_of_it(
    name: str, recipe: str | None, kv: int, context: int, gib: int, sequences: int, tmp_path: Path
) -> None:
    model, weights = built(tmp_path, name, recipe)
    load = Load(context=context)
    pool = plan_pool(model, weights, "any", card(gib), load, kv)
    found = against_naive(model, weights, card(gib), load, kv, pool)
    assert found.sequences == sequences
    assert pool.sequences < sequences  # the count keeps 10 % back, and embeddings and head in 16 bits
    assert found.pool_gib + sum(step.gib for step in found.steps) == pytest.approx(found.counted_gib)
    assert found.counted_gib == pytest.approx(pool.pool / GIB)


def test_the_rule_by_hand() -> None:
    """80 - 8 x 10^9 x 2 / 2^30 - 1.5 = 63.6 GiB; 1 GiB a sequence."""
    pool, sequences = naive(8_000_000_000, 16, 80, GIB)
    assert (round(pool, 1), sequences) == (63.6, 63)
    assert naive(70_000_000_000, 16, 80, GIB)[1] == 0


# --- the engine's logs -------------------------------------------------------------------------


@pytest.mark.parametrize(("element_bytes", "tokens", "sequences"), [(2, 93_184, 11), (4, 46_592, 5)])
def test_the_engine_logs_this_cache_for_the_embedded_model(
    element_bytes: int, tokens: int, sequences: int, tmp_path: Path
) -> None:
    """vLLM 0.32 on a CPU, VLLM_CPU_KVCACHE_SPACE=2: "CPU KV cache size: 93,184 tokens" in BF16, "46,592 tokens" in
    float32; "Maximum concurrency for 8,192 tokens per request: 11.38x" and "5.69x". A block holds 128 tokens there.
    """
    attention = read_model(bare(tmp_path, "SmolLM2-135M")).attention
    assert cache_size(attention, 2 * GIB, Load(context=8192), element_bytes, block=128) == (tokens, sequences)


# Logs of vLLM before it counted CUDA graphs, hence eager. Tokens are logged blocks x 16.
@pytest.mark.parametrize(
    ("name", "total", "share", "step", "gib", "tokens", "source"),
    [
        ("Llama-3.1-8B", 23.58, 0.90, 20_000, 3.81, 1_952 * 16, ISSUE_10517),
        ("Llama-3.1-8B", 23.58, 0.90, 29_000, 2.89, 1_478 * 16, ISSUE_10517),
        ("Llama-3.1-8B", 79.22, 0.90, 8_192, 53.29, None, "vLLM 0.6, pull request 10511"),
        ("Qwen2.5-1.5B", 44.39, 0.85, 2_048, 33.37, 78_115 * 16, "a public log of vLLM 0.7"),
    ],
)
def test_the_engine_logs_this_cache_on_gpus(
    name: str, total: float, share: float, step: int, gib: float, tokens: int | None, source: str, tmp_path: Path
) -> None:
    model, weights = built(tmp_path, name)
    load = Load(context=8192, share=share, rows=256, batched_tokens=step, eager=True)
    pool = plan_pool(model, weights, "any", card(total), load, BF16)
    assert pool.pool / GIB == pytest.approx(gib, rel=0.05), source
    if tokens is not None:
        assert pool.tokens == pytest.approx(tokens, rel=0.05), source


# "Available KV cache memory: 8.11 GiB, GPU KV cache size: 178,880 tokens": Qwen3-235B-A22B on 4 cards, issue 21348.
# "Available KV cache memory: 10.55 GiB, GPU KV cache size: 230,528 tokens" with an FP8 cache: issue 25350, whose model
# is not named; 49,152 bytes a token fit one KV head on each card of 96 layers of 256.
def test_tokens_of_a_pool_that_four_cards_share(tmp_path: Path) -> None:
    attention = read_model(bare(tmp_path, "Qwen3-235B-A22B")).attention
    tokens, _ = cache_size(attention, 8.11 * GIB, Load(context=8192, cards=4), BF16)
    assert tokens == pytest.approx(178_880, rel=0.05)


# --- the parts ---------------------------------------------------------------------------------


def test_layers_with_a_window_keep_less_of_a_long_sequence(tmp_path: Path) -> None:
    """Gemma 3: 4 layers keep 8,192 tokens (512 blocks), 22 a window of 512 and the step of 2,048 (161 blocks)."""
    attention = read_model(bare(tmp_path, "gemma-3-1b")).attention
    block_bytes = 16 * 2 * 256 * 2
    per_sequence = (4 * 512 + 22 * (math.ceil(2_559 / 16) + 1)) * block_bytes
    tokens, sequences = cache_size(attention, 10.5 * per_sequence, Load(context=8192), BF16, step_tokens=2048)
    assert (tokens, sequences) == (int(10.5 * 8192), 10)


def test_the_step_is_the_engines_default_by_card() -> None:
    """``get_batch_defaults`` of vLLM 0.32: 2,048 tokens, from 70 GiB 8,192 but for an A100, from 160 GiB 16,384."""
    gpus, load = load_hardware().gpus, Load(context=8192)
    found = {name: batched_tokens(name, gpus[name], load) for name in ("l4", "a100-80", "h100", "h200", "b200")}
    assert found == {"l4": 2048, "a100-80": 2048, "h100": 8192, "h200": 8192, "b200": 16384}
    assert batched_tokens("h100", gpus["h100"], replace(load, batched_tokens=512)) == 512


def test_weights_that_do_not_fit_leave_no_cache(tmp_path: Path) -> None:
    model, weights = built(tmp_path, "Llama-3.1-70B")
    pool = plan_pool(model, weights, "any", card(80), Load(context=8192), BF16)
    assert pool.pool < 0 and (pool.tokens, pool.sequences) == (0, 0)
    shared = plan_pool(model, weights, "any", card(80), Load(context=8192, cards=4), BF16)
    assert shared.weights == pytest.approx(141.1e9 / 4, rel=0.001)
    assert shared.token_bytes == 80 * 1024


def test_heads_that_cannot_be_shared_out(tmp_path: Path) -> None:
    model, weights = built(tmp_path, "SmolLM2-135M")
    with pytest.raises(SettingsError, match="9 attention heads cannot be shared by 2 cards"):
        plan_pool(model, weights, "any", card(24), Load(context=8192, cards=2), BF16)


# --- traffic and speed -------------------------------------------------------------------------


def test_littles_law() -> None:
    """200 users, 30 s of pause, 8 s of waiting: a message every 38 s each, 5.26 a second, times 8 s: 42.1."""
    traffic = Traffic(200, 30, 8)
    assert traffic.requests_per_s == pytest.approx(5.263, abs=0.001)
    assert traffic.in_flight == pytest.approx(42.105, abs=0.001)
    assert Traffic(10, 0, 5).in_flight == 10  # who never pauses is always waiting


def test_one_sequence_reads_all_weights_but_the_embedding(tmp_path: Path) -> None:
    """(8.030 - 0.525) x 10^9 x 2 bytes, and 128 KiB for each of 1,000 tokens: 15.14 GB, at 1,008 GB/s 66.6 a second."""
    model, weights = built(tmp_path, "Llama-3.1-8B")
    read = 2 * (8_030_261_248 - 525_336_576) + 1000 * 131_072
    assert decode_bytes(model, weights, 1, 1000, BF16, 1) == read
    speed = decode_ceiling(model, weights, card(24, 1008), sequences=1, context=1000, kv_bytes=BF16, cards=1)
    assert speed == pytest.approx(66.6, abs=0.1)
    many = decode_ceiling(model, weights, card(24, 1008), sequences=32, context=1000, kv_bytes=BF16, cards=1)
    assert many == pytest.approx(32 * 1.008e12 / (read + 31 * 1000 * 131_072))


def test_a_tied_embedding_is_read_as_the_head(tmp_path: Path) -> None:
    model, weights = built(tmp_path, "SmolLM2-135M")
    assert decode_bytes(model, weights, 1, 0, BF16, 1) == 2 * 134_515_008


def test_a_sequence_reads_its_experts_only(tmp_path: Path) -> None:
    """Qwen3-30B-A3B: "number of activated parameters: 3.3B", the embedding among them."""
    model, weights = built(tmp_path, "Qwen3-30B-A3B")
    embedding = 151_936 * 2048
    assert decode_bytes(model, weights, 1, 0, BF16, 1) / 2 + embedding == pytest.approx(3.3e9, rel=0.02)
    everything = 2 * (30_532_122_624 - embedding)
    assert decode_bytes(model, weights, 1000, 0, BF16, 1) == pytest.approx(everything, rel=0.001)
