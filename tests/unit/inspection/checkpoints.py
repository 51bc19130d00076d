"""Small checkpoints for the inspection: a random llama and what quantizers make of it, written by numpy alone.

The packing and rounding here are the test's own, so that reading them back means something.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llama_shapes import projections
from safetensors import TensorSpec, serialize_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN, INNER, HEADS, SHARED, VOCABULARY, LAYERS = 128, 256, 4, 2, 320, 2
KEYS = HIDDEN // HEADS * SHARED
Tensors = dict[str, tuple[str, np.ndarray]]
"""Name to stored type (as torch spells it) and the stored numbers; 16-bit floats as their bits."""
GROUP = 32


# --- numbers -----------------------------------------------------------------------------------


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bf16(values: np.ndarray) -> tuple[str, np.ndarray]:
    return "bfloat16", to_bf16(values)


def value(stored: tuple[str, np.ndarray]) -> np.ndarray:
    """A 16- or 32-bit float tensor as float32."""
    return from_bf16(stored[1]) if stored[0] == "bfloat16" else stored[1].astype(np.float32)


E4M3 = np.array([(1 + m / 8) * 2.0 ** (e - 7) if e else m / 8 * 2.0**-6 for e in range(16) for m in range(8)][:-1])
"""The finite values of an E4M3 number without its sign, in order of its bits (the largest is 448)."""


def to_e4m3(values: np.ndarray) -> np.ndarray:
    magnitude = np.minimum(np.abs(values), 448.0)
    upper = np.clip(np.searchsorted(E4M3, magnitude), 1, len(E4M3) - 1)
    nearer = np.where(magnitude - E4M3[upper - 1] < E4M3[upper] - magnitude, upper - 1, upper)
    return (nearer | np.where(values < 0, 128, 0)).astype(np.uint8)


def pack(values: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Unsigned integers packed along the last dimension into int32, slot ``i`` holding column ``order[i]``."""
    per_word = 32 // bits
    rows, columns = values.shape
    words = np.zeros((rows, -(-columns // per_word)), np.uint32)
    for column in range(columns):
        word, place = divmod(column, per_word)
        slot = place if order is None else order.index(place)
        words[:, word] |= values[:, column].astype(np.uint32) << np.uint32(bits * slot)
    return words.view(np.int32)


# --- the baseline ------------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": SHARED,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 16384,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "bfloat16",
}
SHAPES = projections(HIDDEN, INNER, KEYS)
PROJECTIONS = [f"model.layers.{n}.{name}" for n in range(LAYERS) for name in SHAPES]


def llama(*, tied: bool = False, seed: int = 0, layers: int = LAYERS) -> Tensors:
    """A llama of normally distributed weights."""
    draw = np.random.default_rng(seed).standard_normal
    made = {
        "model.embed_tokens.weight": bf16(draw((VOCABULARY, HIDDEN))),
        "model.norm.weight": bf16(1 + 0.1 * draw(HIDDEN)),
    }
    if not tied:
        made["lm_head.weight"] = bf16(0.05 * draw((VOCABULARY, HIDDEN)))
    for n in range(layers):
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"model.layers.{n}.{name}.weight"] = bf16(1 + 0.1 * draw(HIDDEN))
        for name, shape in SHAPES.items():
            made[f"model.layers.{n}.{name}.weight"] = bf16(0.05 * draw(shape))
    return made


# --- quantizers --------------------------------------------------------------------------------

Quantize = Callable[[np.ndarray], Tensors]


def fp8_channel(weight: np.ndarray) -> Tensors:
    scale = from_bf16(to_bf16(np.abs(weight).max(1, keepdims=True) / 448))
    return {"weight": ("float8_e4m3fn", to_e4m3(weight / scale)), "weight_scale": bf16(scale)}


def fp8_tensor(weight: np.ndarray) -> Tensors:
    scale = np.array([np.abs(weight).max() / 448], np.float32)
    made: Tensors = {"weight": ("float8_e4m3fn", to_e4m3(weight / scale)), "weight_scale": ("float32", scale)}
    return made | {"input_scale": ("float32", np.array([0.02], np.float32))}


def fp8_block(weight: np.ndarray) -> Tensors:
    rows, columns = weight.shape
    tiles = weight.reshape(-1, 32, columns // 32, 32) if rows % 32 == 0 else None
    assert tiles is not None
    scale = (np.abs(tiles).max((1, 3)) / 448).astype(np.float32)
    whole = np.repeat(np.repeat(scale, 32, 0), 32, 1)
    return {"weight": ("float8_e4m3fn", to_e4m3(weight / whole)), "weight_scale": ("float32", scale)}


def int8_channel(weight: np.ndarray) -> Tensors:
    scale = from_bf16(to_bf16(np.abs(weight).max(1, keepdims=True) / 127.5))
    codes = np.clip(np.rint(weight / scale), -128, 127).astype(np.int8)
    return {"weight": ("int8", codes), "weight_scale": bf16(scale)}


def _groups(weight: np.ndarray) -> np.ndarray:
    return weight.reshape(len(weight), -1, GROUP)


def int4_group(weight: np.ndarray) -> Tensors:
    grouped = _groups(weight)
    scale = from_bf16(to_bf16(np.abs(grouped).max(2) / 7.5))
    codes = np.clip(np.rint(grouped / scale[:, :, None]), -8, 7).reshape(weight.shape) + 8
    shape = np.array(weight.shape, np.int64)
    return {"weight_packed": ("int32", pack(codes, 4)), "weight_scale": bf16(scale), "weight_shape": ("int64", shape)}


def _asymmetric(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes [rows, columns], scales and zero points [rows, groups] of four bits."""
    grouped = _groups(weight)
    low, high = np.minimum(grouped.min(2), 0), np.maximum(grouped.max(2), 0)
    scale = ((high - low) / 15).astype(np.float16).astype(np.float32)
    zero = np.clip(np.rint(-low / scale), 0, 15)
    codes = np.clip(np.rint(grouped / scale[:, :, None]) + zero[:, :, None], 0, 15)
    return codes.reshape(weight.shape), scale, zero


def int4_asymmetric(weight: np.ndarray) -> Tensors:
    codes, scale, zero = _asymmetric(weight)
    return {
        "weight_packed": ("int32", pack(codes, 4)),
        "weight_scale": bf16(scale),
        "weight_zero_point": ("int32", np.ascontiguousarray(pack(zero.T, 4).T)),
        "weight_shape": ("int64", np.array(weight.shape, np.int64)),
    }


AWQ_SLOTS = (0, 2, 4, 6, 1, 3, 5, 7)


def awq(weight: np.ndarray) -> Tensors:
    codes, scale, zero = _asymmetric(weight)
    return {
        "qweight": ("int32", pack(codes.T, 4, AWQ_SLOTS)),
        "qzeros": ("int32", pack(zero.T, 4, AWQ_SLOTS)),
        "scales": ("float16", np.ascontiguousarray(scale.T).astype(np.float16)),
    }


def gptq(weight: np.ndarray, bits: int = 4) -> Tensors:
    grouped, middle = _groups(weight), 2 ** (bits - 1)
    scale = (np.abs(grouped).max(2) / (middle - 0.5)).astype(np.float16).astype(np.float32)
    codes = np.clip(np.rint(grouped / scale[:, :, None]) + middle, 0, 2 * middle - 1).reshape(weight.shape)
    rows, columns = weight.shape
    return {
        "qweight": ("int32", np.ascontiguousarray(pack(codes, bits).T)),
        "qzeros": ("int32", pack(np.full((columns // GROUP, rows), middle - 1), bits)),
        "scales": ("float16", np.ascontiguousarray(scale.T).astype(np.float16)),
        "g_idx": ("int32", (np.arange(columns) // GROUP).astype(np.int32)),
    }


def gptq8(weight: np.ndarray) -> Tensors:
    return gptq(weight, 8)


def _compressed(form: str, weights: dict[str, Any], inputs: dict[str, Any] | None = None) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"symmetric": True, **weights}, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
    }


_TOKEN = {"num_bits": 8, "strategy": "token", "dynamic": True}
SCHEMES: dict[str, tuple[Quantize, dict[str, Any]]] = {
    "fp8": (
        fp8_channel,
        _compressed("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}, _TOKEN),
    ),
    "fp8-static": (
        fp8_tensor,
        _compressed(
            "float-quantized",
            {"num_bits": 8, "type": "float", "strategy": "tensor"},
            {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False},
        ),
    ),
    "fp8-block": (
        fp8_block,
        _compressed(
            "float-quantized",
            {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 32]},
            {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32, "dynamic": True},
        ),
    ),
    "int8": (int8_channel, _compressed("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, _TOKEN)),
    "int4": (
        int4_group,
        _compressed("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP}),
    ),
    "int4-asymmetric": (
        int4_asymmetric,
        _compressed(
            "pack-quantized",
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP, "symmetric": False},
        ),
    ),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}),
    "gptq": (
        gptq,
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False},
    ),
    "gptq8": (gptq8, {"quant_method": "gptq", "bits": 8, "group_size": GROUP, "sym": True, "desc_act": False}),
}


def quantize(tensors: Tensors, how: Quantize, modules: list[str] | None = None) -> Tensors:
    """The tensors with ``modules`` (default: every projection) quantized."""
    made = dict(tensors)
    for module in PROJECTIONS if modules is None else modules:
        weight = value(made.pop(f"{module}.weight"))
        made |= {f"{module}.{part}": stored for part, stored in how(weight).items()}
    return made


# --- smoothing ---------------------------------------------------------------------------------


def smooth(tensors: Tensors, *, up_and_down: bool = False, offset: float = 0.0, seed: int = 7) -> Tensors:
    """Move factors from what feeds a layer into its columns, as SmoothQuant and AWQ do.

    :param up_and_down: also from the rows of up_proj to the columns of down_proj, as AWQ does.
    :param offset: 1 for models whose norms multiply by one plus the weight.
    """
    made, draw = dict(tensors), np.random.default_rng(seed)

    def change(name: str, factor: np.ndarray, plus: float = 0.0) -> None:
        made[name] = bf16((value(made[name]) + plus) * factor - plus)

    for n in range(LAYERS):
        layer = f"model.layers.{n}"
        for norm, fed in (
            ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
        ):
            factor = np.exp(draw.normal(0, 0.5, HIDDEN)).astype(np.float32)
            change(f"{layer}.{norm}.weight", 1 / factor, offset)
            for name in fed:
                change(f"{layer}.{name}.weight", factor)
        if up_and_down:
            factor = np.exp(draw.normal(0, 0.5, INNER)).astype(np.float32)
            change(f"{layer}.mlp.up_proj.weight", 1 / factor[:, None])
            change(f"{layer}.mlp.down_proj.weight", factor)
    return made


def experts(tensors: Tensors, count: int = 4) -> Tensors:
    """The llama with a router and ``count`` experts in place of each MLP."""
    made, draw = dict(tensors), np.random.default_rng(3).standard_normal
    for n in range(LAYERS):
        mlp = f"model.layers.{n}.mlp"
        for name in ("gate_proj", "up_proj", "down_proj"):
            made.pop(f"{mlp}.{name}.weight")
            for number in range(count):
                made[f"{mlp}.experts.{number}.{name}.weight"] = bf16(0.05 * draw(SHAPES[f"mlp.{name}"]))
        made[f"{mlp}.gate.weight"] = bf16(0.05 * draw((count, HIDDEN)))
    return made


def joined(apart: Tensors, count: int = 4) -> Tensors:
    """The llama with ``count`` experts, all of a layer in one tensor as transformers 5 writes them."""
    made = {n: t for n, t in apart.items() if ".experts." not in n}
    for n in range(LAYERS):
        block = f"model.layers.{n}.mlp.experts"
        up = [
            np.concatenate([value(apart[f"{block}.{e}.{p}.weight"]) for p in ("gate_proj", "up_proj")])
            for e in range(count)
        ]
        down = [value(apart[f"{block}.{e}.down_proj.weight"]) for e in range(count)]
        made |= {f"{block}.gate_up_proj": bf16(np.stack(up)), f"{block}.down_proj": bf16(np.stack(down))}
    return made


# --- tokenizer and other files -----------------------------------------------------------------

TEMPLATE = """{%- for message in messages %}<|start|>{{ message.role }}
{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|start|>assistant
{% endif %}"""
ADDED = ["<|none|>", "<|start|>", "<|end|>"]
TOKENIZER_CONFIG: dict[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|start|>",
    "eos_token": "<|end|>",
    "pad_token": "<|none|>",
    "model_max_length": 16384,
}


def tokenizer(merges: int = 40) -> Tokenizer:
    """A byte-level BPE tokenizer with some merges and three added tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + len(ADDED) + merges,
        special_tokens=ADDED,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["the order the refund of the customer was shipped to the wrong address"] * 4, trainer)
    return made


def write_side_files(folder: Path) -> None:
    """Tokenizer, chat template and generation config."""
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2], "temperature": 0.7}))


# --- files -------------------------------------------------------------------------------------


def write(folder: Path, tensors: Tensors, config: dict[str, Any], files: int = 1) -> Path:
    """Write a checkpoint; with an index where there are several weight files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_side_files(folder)
    (folder / "config.json").write_text(json.dumps(config))
    names = sorted(tensors)
    parts = [names[n::files] for n in range(files)]
    index = {}
    for number, part in enumerate(parts, 1):
        file = "model.safetensors" if files == 1 else f"model-{number:05}-of-{files:05}.safetensors"
        held = {name: np.ascontiguousarray(tensors[name][1]) for name in part}  # alive while it is written
        specs = {
            name: TensorSpec(dtype=tensors[name][0], shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes)
            for name, a in held.items()
        }
        serialize_file(specs, folder / file, {"format": "pt"})
        index |= dict.fromkeys(part, file)
    if files > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder
