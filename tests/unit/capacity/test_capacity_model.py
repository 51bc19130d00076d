"""Parameters, attention and its cache, held against published figures; and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from published_models import MODELS, bare

from pipeline.capacity.model import read_model
from pipeline.capacity.shapes import expected_tensors
from pipeline.errors import ModelError


@pytest.mark.parametrize("name", MODELS)
def test_a_bare_config_has_the_published_number_of_parameters(name: str, tmp_path: Path) -> None:
    tensors = expected_tensors(read_model(bare(tmp_path, name)))
    assert sum(math.prod(tensor.shape) for tensor in tensors) == MODELS[name][1]
    assert len({tensor.name for tensor in tensors}) == len(tensors)


# KiB of a token in the cache in BF16. Llama: the guides that the project started from (128 and 320). DeepSeek-V3:
# its report of 2024 and "Insights into DeepSeek-V3" (2025), table 1: 70.272 KB. Qwen2.5-72B has 327.68 KB there, by
# the same rule; SmolLM2: 2 GiB hold 93,184 tokens in vLLM's log, so 22.5 KiB (22.506 by division).
@pytest.mark.parametrize(
    ("name", "kind", "token_bytes"),
    [
        ("Llama-3.1-8B", "GQA", 128 * 1024),
        ("Llama-3.1-70B", "GQA", 320 * 1024),
        ("DeepSeek-V3", "MLA", 70_272),
        ("SmolLM2-135M", "GQA", 23_040),
        ("Phi-3-mini-4k", "MHA", 384 * 1024),
        ("gemma-3-1b", "MQA", 26 * 1024),
    ],
)
def test_a_token_in_the_cache_takes_the_published_bytes(name: str, kind: str, token_bytes: int, tmp_path: Path) -> None:
    attention = read_model(bare(tmp_path, name)).attention
    assert (attention.kind, attention.token_bytes(2)) == (kind, token_bytes)
    assert attention.token_bytes(1) == token_bytes / 2


def test_cards_share_heads_out_but_not_below_one(tmp_path: Path) -> None:
    """8 KV heads on 2, 8 and 16 cards: 4, 1 and 1 each; a latent is kept by every card."""
    grouped = read_model(bare(tmp_path, "Llama-3.1-8B")).attention
    assert [grouped.token_bytes(2, cards) // 1024 for cards in (1, 2, 8, 16)] == [128, 64, 16, 16]
    latent = read_model(bare(tmp_path, "DeepSeek-V3")).attention
    assert latent.token_bytes(2, 8) == 70_272


def test_layers_with_a_window(tmp_path: Path) -> None:
    """Gemma 3: five layers with a window of 512 to one that sees all (technical report, section 2)."""
    windows = read_model(bare(tmp_path, "gemma-3-1b")).attention.windows
    assert windows[:7] == (512,) * 5 + (None, 512)
    assert windows.count(None) == 4
    types = ["full_attention", "chunked_attention"] * 16
    named = read_model(bare(tmp_path, "Llama-3.1-8B", layer_types=types, attention_chunk_size=8192))
    assert named.attention.windows == (None, 8192) * 16


def test_a_window_of_which_layers_are_not_known_is_left_out_aloud(tmp_path: Path) -> None:
    model = read_model(bare(tmp_path, "Mistral-7B-v0.1"))
    assert model.attention.uniform
    assert "4,096 tokens is not counted" in model.notes[0]
    assert read_model(bare(tmp_path, "Qwen2.5-7B")).notes == ()  # it has one, and does not use it


def test_layers_that_share_a_cache_keep_none(tmp_path: Path) -> None:
    assert len(read_model(bare(tmp_path, "Llama-3.1-8B", num_kv_shared_layers=12)).attention.windows) == 20


def test_a_nested_config_is_that_of_its_language_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "mistral3", "text_config": MODELS["Mistral-7B-v0.1"][0], "vision_config": {"x": 1}})
    )
    model = read_model(tmp_path)
    assert (model.name, model.attention.token_bytes(2)) == ("mistral", 128 * 1024)
    with pytest.raises(ModelError, match="not known without its weight files"):  # of the vision tower nothing is known
        expected_tensors(model)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers: missing"),
        ({"hidden_size": "4096"}, "hidden_size: '4096' is not a whole number of 1 or more"),
        ({"num_attention_heads": 0}, "num_attention_heads: 0 is not"),
        ({"vocab_size": True}, "vocab_size: True is not"),
        ({"mamba_d_state": 128}, "mamba_d_state: the model keeps a state beside keys and values"),
        ({"linear_num_value_heads": 32}, "linear_num_value_heads: the model keeps a state"),
        ({"index_topk": 2048}, "index_topk: the model keeps a state"),
        ({"layer_types": ["linear_attention"] * 32}, "'linear_attention' keeps a state"),
        ({"layer_types": ["full_attention"] * 31}, "names 31 layers of 32"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window: missing"),
        ({"global_head_dim": 512}, "attention differs from layer to layer"),
        ({"is_encoder_decoder": True}, "an encoder-decoder model"),
        ({"sliding_window": 512, "sliding_window_pattern": 0}, "sliding_window_pattern: 0 is not a whole number"),
        ({"layer_types": 5}, "layer_types: 5 is not a list"),
        ({"sliding_window": "x"}, "sliding_window: 'x' is not a whole number"),
        ({"num_kv_shared_layers": 32}, "num_kv_shared_layers: 32 is above 31"),
        ({"num_kv_shared_layers": 33}, "num_kv_shared_layers: 33 is above 31"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: 1000000000 is above 1,000"),
        ({"num_hidden_layers": 10**18}, "num_hidden_layers: 1000000000000000000 is above 1,000"),
        ({"vocab_size": 10**400}, r"vocab_size: 10{59}\.\.\. is above 2,147,483,647"),
        ({"num_local_experts": 10**9, "num_experts_per_tok": 2}, "num_local_experts: 1000000000 is above 1,024"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok: 9 is above 8"),
        ({"num_attention_heads": 8192, "head_dim": None}, "head_dim: missing"),
    ],
)
def test_what_cannot_be_counted_is_refused(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=fault) as caught:
        read_model(bare(tmp_path, "Llama-3.1-8B", **changes))
    assert "config.json" in caught.value.message and caught.value.remedy


@pytest.mark.parametrize(
    ("name", "changes", "fault"),
    [
        ("Qwen1.5-MoE-A2.7B", {"decoder_sparse_step": "x"}, "decoder_sparse_step: 'x' is not"),
        ("Qwen1.5-MoE-A2.7B", {"mlp_only_layers": 5}, "mlp_only_layers is not a list"),
        ("Qwen1.5-MoE-A2.7B", {"shared_expert_intermediate_size": -1}, "shared_expert_intermediate_size: -1 is not"),
        ("Qwen1.5-MoE-A2.7B", {"num_experts": None}, "num_experts: missing"),
        ("DeepSeek-V3", {"v_head_dim": None}, "v_head_dim: missing"),
        ("DeepSeek-V3", {"q_lora_rank": []}, r"q_lora_rank: \[\] is not"),
        ("DeepSeek-V3", {"n_shared_experts": "1"}, "n_shared_experts: '1' is not"),
        ("DeepSeek-V3", {"first_k_dense_replace": 0.5}, "first_k_dense_replace: 0.5 is not"),
        ("Llama-3.1-8B", {"model_type": "mixtral"}, "num_local_experts: missing"),
    ],
)
def test_shapes_that_the_config_does_not_say(name: str, changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    model = read_model(bare(tmp_path, name, **changes))
    with pytest.raises(ModelError, match=fault) as caught:
        expected_tensors(model)
    assert "config.json" in caught.value.message and caught.value.remedy


def test_a_nested_config_of_no_type(tmp_path: Path) -> None:
    """Its weight files would say what it holds; without them there is nothing to count."""
    nested = {key: value for key, value in MODELS["Mistral-7B-v0.1"][0].items() if key != "model_type"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mistral3", "text_config": nested}))
    with pytest.raises(ModelError, match="model_type 'unknown': which tensors it has is not known"):
        expected_tensors(read_model(tmp_path))


def test_a_folder_without_a_config_and_an_unknown_architecture(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json"):
        read_model(tmp_path)
    with pytest.raises(ModelError, match="'gpt2': which tensors it has is not known") as caught:
        expected_tensors(read_model(bare(tmp_path, "Llama-3.1-8B", model_type="gpt2")))
    assert "llama" in caught.value.remedy
