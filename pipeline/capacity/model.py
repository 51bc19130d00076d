"""What a model's config says about its memory: the cache that attention keeps, the experts, the widths.

Field names are those of transformers' configs. What would change the memory and is not known here is an error, never
left out of the count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import ModelError
from pipeline.inspection.artifact import read_json

_OTHER_STATE = re.compile(
    r"^(mamba_\w+|ssm_\w+|linear_\w+_head\w*|hybrid_override_pattern|attn_layer_period|attn_layer_indices|"
    r"full_attention_interval|layers_block_type|rwkv\w*|conv_L_cache|index_topk|compress_ratios|block_types)$"
)
"""Keys of models that keep something else than keys and values of tokens: state spaces, linear attention, indexes."""
_WHOLE = "full_attention"
_WINDOWED = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Layer types with a bounded context, and the key of their bound."""
_REMEDY = "Fetch the model's own config.json."
_MOST = 2**31 - 1
"""The most that a whole number of a config may be; far beyond any model, and nothing computed from it overflows."""
_MOST_LAYERS = 1000
_MOST_EXPERTS = 1024
"""Layers and experts are listed one by one: more of either than of any model known would only fill the memory."""


@dataclass(frozen=True, slots=True)
class Attention:
    """What each layer keeps of a token.

    :ivar latent: elements of the compressed key and value that all heads share (MLA); None: keys and values by head.
    :ivar windows: for each layer with a cache of its own the tokens that it looks back; None: all.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    latent: int | None
    windows: tuple[int | None, ...]

    @property
    def kind(self) -> str:
        """MHA, GQA, MQA or MLA."""
        if self.latent:
            return "MLA"
        return "MHA" if self.kv_heads == self.heads else "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def uniform(self) -> bool:
        """Every layer keeps every token."""
        return not any(self.windows)

    def layer_bytes(self, element_bytes: int, cards: int = 1) -> int:
        """Bytes that one layer keeps of a token on each of ``cards``.

        Heads are shared out; where there are fewer than cards, each card keeps one. A latent is kept by every card.
        Source: ``AttentionSpec`` and ``MLAAttentionSpec`` of vLLM's ``v1/kv_cache_interface.py``.
        """
        if self.latent:
            return self.latent * element_bytes
        return max(1, self.kv_heads // cards) * (self.key_dim + self.value_dim) * element_bytes

    def token_bytes(self, element_bytes: int, cards: int = 1) -> int:
        """Bytes that all layers keep of a token on each of ``cards``, while it is within every window."""
        return self.layer_bytes(element_bytes, cards) * len(self.windows)


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: ``active`` of ``count`` experts of width ``inner`` see a token."""

    count: int
    active: int
    inner: int


@dataclass(frozen=True, slots=True)
class Model:
    """A model's config, as far as memory goes.

    :ivar inner: width of a dense layer's MLP.
    :ivar tied: the output head is the embedding; None: the config does not say.
    :ivar config: the config itself, that of the language model where it is nested.
    """

    name: str
    layers: int
    hidden: int
    vocabulary: int
    inner: int
    attention: Attention
    experts: Experts | None
    tied: bool | None
    path: Path = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()

    def count(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number of the config.

        :raises ModelError: it is none, out of bounds, or missing where there is no default.
        """
        return _Reader(self.path, self.config).count(key, default, least=least)


def read_model(folder: Path) -> Model:
    """Read the ``config.json`` of a folder, whether weights lie beside it or not.

    :raises ModelError: there is none, a figure is missing, or the model keeps a state that is not known here.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{folder} has no config.json", "Give the directory that holds config.json.")
    whole = read_json(path)
    nested = whole.get("text_config")
    config = {**whole, **nested} if isinstance(nested, dict) else whole
    reader = _Reader(path, config)
    if odd := sorted(key for key, value in config.items() if _OTHER_STATE.match(key) and value):
        raise ModelError(
            f"{path}: {odd[0]}: the model keeps a state beside keys and values, which is not planned here",
            "Take the size of the cache from the engine's own log (`KV cache size`).",
        )
    if config.get("is_encoder_decoder"):
        raise ModelError(f"{path}: an encoder-decoder model is not planned here", "Give a decoder-only model.")
    layers = reader.count("num_hidden_layers", most=_MOST_LAYERS)
    windows, notes = _windows(reader, layers)
    return Model(
        name=str((nested if isinstance(nested, dict) else whole).get("model_type", "unknown")),
        layers=layers,
        hidden=reader.count("hidden_size"),
        vocabulary=reader.count("vocab_size"),
        inner=reader.count("intermediate_size"),
        attention=_attention(reader, windows),
        experts=_experts(reader),
        tied=config.get("tie_word_embeddings"),
        path=path,
        config=config,
        notes=notes,
    )


def _attention(reader: _Reader, windows: tuple[int | None, ...]) -> Attention:
    heads = reader.count("num_attention_heads")
    if "kv_lora_rank" in reader.config:
        latent = reader.count("kv_lora_rank") + reader.count("qk_rope_head_dim")
        return Attention(heads, 1, latent, 0, latent, windows)
    if any(reader.config.get(key) for key in ("num_key_value_heads_per_layer", "global_head_dim", "block_configs")):
        raise ModelError(
            f"{reader.path}: attention differs from layer to layer, which is not planned here",
            "Take the size of the cache from the engine's own log (`KV cache size`).",
        )
    head_dim = reader.count("head_dim", reader.count("hidden_size") // heads or None)  # of more heads than width: none
    value_dim = reader.count("v_head_dim", head_dim)
    kv_heads = 1 if reader.config.get("multi_query") else reader.count("num_key_value_heads", heads)
    return Attention(heads, kv_heads, head_dim, value_dim, None, windows)


def _windows(reader: _Reader, layers: int) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """The window of each layer that keeps a cache of its own, and what was not taken into account."""
    config, own = reader.config, layers - reader.count("num_kv_shared_layers", 0, least=0, most=layers - 1)
    types = config.get("layer_types")
    if types is None and isinstance(config.get("sliding_window_pattern"), int) and config.get("sliding_window"):
        pattern = reader.count("sliding_window_pattern")
        types = [_WHOLE if (n + 1) % pattern == 0 else "sliding_attention" for n in range(layers)]
    if types is not None:
        if not isinstance(types, list):
            raise ModelError(f"{reader.path}: layer_types: {_shown(types)} is not a list", _REMEDY)
        if unknown := sorted({str(kind) for kind in types} - {_WHOLE, *_WINDOWED}):
            raise ModelError(
                f"{reader.path}: layer_types: {unknown[0]!r} keeps a state that is not planned here",
                "Take the size of the cache from the engine's own log (`KV cache size`).",
            )
        if len(types) != layers:
            raise ModelError(f"{reader.path}: layer_types names {len(types)} layers of {layers}", "Correct it.")
        return tuple(None if kind == _WHOLE else reader.count(_WINDOWED[kind]) for kind in types[:own]), ()
    notes: tuple[str, ...] = ()
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        notes = (f"The window of {reader.count('sliding_window'):,} tokens is not counted: the cache may hold more.",)
    return (None,) * own, notes


def _experts(reader: _Reader) -> Experts | None:
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        if reader.config.get(key):
            inner = reader.count("moe_intermediate_size", reader.count("intermediate_size"))
            experts = reader.count(key, most=_MOST_EXPERTS)
            return Experts(experts, reader.count("num_experts_per_tok", most=experts), inner)
    return None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Whole numbers of a config, with errors that name the key."""

    path: Path
    config: Mapping[str, Any]

    def count(self, key: str, default: int | None = None, *, least: int = 1, most: int = _MOST) -> int:
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            said = "missing" if value is None else f"{_shown(value)} is not a whole number of {least} or more"
            if isinstance(value, int) and value > most:
                said = f"{_shown(value)} is above {most:,}"
            raise ModelError(f"{self.path}: {key}: {said}", _REMEDY)
        return value


def _shown(value: object) -> str:
    """What a config says, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
