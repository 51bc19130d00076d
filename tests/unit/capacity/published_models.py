"""Configs of public models, as far as memory goes, with the parameter counts that their pages on the hub publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MISTRAL = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32}
_QWEN3_MOE = {
    **{"model_type": "qwen3_moe", "vocab_size": 151936, "head_dim": 128, "num_key_value_heads": 4},
    **{"num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": []},
    **{"tie_word_embeddings": False, "attention_bias": False},
}
_LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}

MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "Llama-3.1-8B": (
        {
            **{"model_type": "llama", **_MISTRAL, "num_key_value_heads": 8, "vocab_size": 128256},
            "tie_word_embeddings": False,
        },
        8_030_261_248,
    ),
    "Llama-3.1-70B": (
        {
            **{"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80},
            **{"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256},
            "tie_word_embeddings": False,
        },
        70_553_706_496,
    ),
    "SmolLM2-135M": (
        {
            **{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30},
            **{"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True},
        },
        134_515_008,
    ),
    "Mistral-7B-v0.1": (
        {
            **{"model_type": "mistral", **_MISTRAL, "num_key_value_heads": 8, "vocab_size": 32000},
            **{"sliding_window": 4096, "tie_word_embeddings": False},
        },
        7_241_732_096,
    ),
    "Qwen2.5-1.5B": (
        {
            **{"model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28},
            **{"num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
            **{"use_sliding_window": False, "sliding_window": 32768},
        },
        1_543_714_304,
    ),
    "Qwen2.5-7B": (
        {
            **{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28},
            **{"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False},
            **{"use_sliding_window": False, "sliding_window": 131072},
        },
        7_615_616_512,
    ),
    "Qwen3-8B": (
        {
            **{"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36},
            **{"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
            **{"tie_word_embeddings": False, "attention_bias": False},
        },
        8_190_735_360,
    ),
    "gemma-2-9b": (
        {
            **{"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42},
            **{"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000},
        },
        9_241_705_984,
    ),
    "gemma-3-1b": (
        {
            **{"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26},
            **{"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144},
            **{"sliding_window": 512, "sliding_window_pattern": 6},
        },
        999_885_952,
    ),
    "Phi-3-mini-4k": (
        {
            **{"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32},
            **{"num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "sliding_window": 2047},
            "tie_word_embeddings": False,
        },
        3_821_079_552,
    ),
    "Mixtral-8x7B": (
        {
            **{"model_type": "mixtral", **_MISTRAL, "num_key_value_heads": 8, "vocab_size": 32000},
            **{"num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False},
        },
        46_702_792_704,
    ),
    "Qwen1.5-MoE-A2.7B": (
        {
            **{"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24},
            **{"num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "num_experts": 60},
            **{"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4},
            **{"decoder_sparse_step": 1, "tie_word_embeddings": False},
        },
        14_315_784_192,
    ),
    "Qwen3-30B-A3B": (
        {
            **{**_QWEN3_MOE, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768},
            **{"num_hidden_layers": 48, "num_attention_heads": 32},
        },
        30_532_122_624,
    ),
    "Qwen3-235B-A22B": (
        {
            **{**_QWEN3_MOE, "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536},
            **{"num_hidden_layers": 94, "num_attention_heads": 64},
        },
        235_093_634_560,
    ),
    "DeepSeek-V2-Lite": (
        {
            **{"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27},
            **{"num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400, "q_lora_rank": None},
            **{**_LATENT, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6},
            **{"moe_intermediate_size": 1408, "first_k_dense_replace": 1, "tie_word_embeddings": False},
        },
        15_706_484_224,
    ),
    "DeepSeek-V3": (  # without the layer for speculative decoding, which the page counts apart
        {
            **{"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61},
            **{"num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "q_lora_rank": 1536},
            **{**_LATENT, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8},
            **{"moe_intermediate_size": 2048, "first_k_dense_replace": 3, "tie_word_embeddings": False},
        },
        671_026_419_200,
    ),
}


def bare(root: Path, name: str, **changes: Any) -> Path:
    """A folder that holds the model's ``config.json`` and nothing else."""
    folder = root / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**MODELS[name][0], **changes}))
    return folder
