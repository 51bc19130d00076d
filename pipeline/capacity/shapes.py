"""The tensors of a model that has no weight files here: names and shapes by its config.

Only architectures whose counts were held against published ones are known (``tests/unit/capacity``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.capacity.model import Experts, Model
from pipeline.errors import ModelError
from pipeline.quantizers.checkpoint import Tensor

Shapes = Iterator[tuple[str, tuple[int, ...]]]
_SANDWICHED = ("gemma2", "gemma3_text")
"""Models with norms after attention and MLP as well."""
_TIED_BY_DEFAULT = ("gemma", "gemma2", "gemma3_text")


def expected_tensors(model: Model) -> list[Tensor]:
    """Every tensor of the BF16 checkpoint.

    :raises ModelError: the architecture is not known; the headers of its weight files would tell.
    """
    layer = _LAYERS.get(model.name)
    if layer is None or model.config.get("vision_config"):
        raise ModelError(
            f"{model.path}: model_type {model.name!r}: which tensors it has is not known without its weight files",
            f"Give a directory with the safetensors files. Known from config.json alone: {', '.join(sorted(_LAYERS))}.",
        )
    found = [("model.embed_tokens.weight", (model.vocabulary, model.hidden)), ("model.norm.weight", (model.hidden,))]
    for number in range(model.layers):
        found += [(f"model.layers.{number}.{name}", shape) for name, shape in layer(model, number)]
    if not (model.name in _TIED_BY_DEFAULT if model.tied is None else model.tied):
        found.append(("lm_head.weight", (model.vocabulary, model.hidden)))
    return [Tensor(name, "BF16", shape) for name, shape in found]


def _llama(model: Model, number: int) -> Shapes:
    yield from _norms(model)
    yield from _heads(model)
    yield from _mlp("mlp", model.hidden, model.inner)


def _phi(model: Model, number: int) -> Shapes:
    attention, hidden = model.attention, model.hidden
    width = attention.heads * attention.key_dim
    yield from _norms(model)
    yield "self_attn.qkv_proj.weight", (width + 2 * attention.kv_heads * attention.key_dim, hidden)
    yield "self_attn.o_proj.weight", (hidden, width)
    yield "mlp.gate_up_proj.weight", (2 * model.inner, hidden)
    yield "mlp.down_proj.weight", (hidden, model.inner)


def _mixtral(model: Model, number: int) -> Shapes:
    experts = _demanded(model, "num_local_experts")
    yield from _norms(model)
    yield from _heads(model)
    yield "block_sparse_moe.gate.weight", (experts.count, model.hidden)
    for expert in range(experts.count):
        for name, shape in zip(("w1", "w3", "w2"), _mlp_shapes(model.hidden, experts.inner), strict=True):
            yield f"block_sparse_moe.experts.{expert}.{name}.weight", shape


def _qwen_moe(model: Model, number: int) -> Shapes:
    _demanded(model, "num_experts")
    yield from _norms(model)
    yield from _heads(model)
    step, dense = model.count("decoder_sparse_step", 1), model.config.get("mlp_only_layers") or []
    if not isinstance(dense, list):
        raise ModelError(f"{model.path}: mlp_only_layers is not a list", "Fetch the model's own config.json.")
    if number in dense or (number + 1) % step:
        yield from _mlp("mlp", model.hidden, model.inner)
        return
    yield from _routed(model)
    if shared := model.count("shared_expert_intermediate_size", 0, least=0):
        yield from _mlp("mlp.shared_expert", model.hidden, shared)
        yield "mlp.shared_expert_gate.weight", (1, model.hidden)


def _deepseek(model: Model, number: int) -> Shapes:
    """Multi-head latent attention: DeepSeek-V2 (2024), section 2.1 and appendix B."""
    hidden, heads = model.hidden, model.attention.heads
    rank, rope = model.count("kv_lora_rank"), model.count("qk_rope_head_dim")
    plain, value = model.count("qk_nope_head_dim"), model.count("v_head_dim")
    yield from _norms(model)
    queries = heads * (plain + rope)
    if compressed := model.count("q_lora_rank", 0, least=0):
        yield "self_attn.q_a_proj.weight", (compressed, hidden)
        yield "self_attn.q_a_layernorm.weight", (compressed,)
        yield "self_attn.q_b_proj.weight", (queries, compressed)
    else:
        yield "self_attn.q_proj.weight", (queries, hidden)
    yield "self_attn.kv_a_proj_with_mqa.weight", (rank + rope, hidden)
    yield "self_attn.kv_a_layernorm.weight", (rank,)
    yield "self_attn.kv_b_proj.weight", (heads * (plain + value), rank)
    yield "self_attn.o_proj.weight", (hidden, heads * value)
    experts = model.experts
    if experts is None or number < model.count("first_k_dense_replace", 0, least=0):
        yield from _mlp("mlp", hidden, model.inner)
        return
    yield from _routed(model)
    if model.name == "deepseek_v3":
        yield "mlp.gate.e_score_correction_bias", (experts.count,)
    if shared := model.count("n_shared_experts", 0, least=0):
        yield from _mlp("mlp.shared_experts", hidden, shared * experts.inner)


def _demanded(model: Model, key: str) -> Experts:
    """The experts of an architecture that has them.

    :raises ModelError: the config names none.
    """
    if model.experts is None:
        raise ModelError(f"{model.path}: {key}: missing", "Fetch the model's own config.json.")
    return model.experts


def _norms(model: Model) -> Shapes:
    names = ["input_layernorm", "post_attention_layernorm"]
    if model.name in _SANDWICHED:
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for name in names:
        yield f"{name}.weight", (model.hidden,)


def _heads(model: Model) -> Shapes:
    """Queries, keys, values and output by head."""
    attention, hidden = model.attention, model.hidden
    queries, keys = attention.heads * attention.key_dim, attention.kv_heads * attention.key_dim
    widths = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
    for name, width in widths.items():
        yield f"self_attn.{name}.weight", (width, hidden)
    yield "self_attn.o_proj.weight", (hidden, queries)
    if model.config.get("attention_bias", model.name.startswith("qwen2")):
        for name, width in widths.items():
            yield f"self_attn.{name}.bias", (width,)
        if not model.name.startswith("qwen2"):
            yield "self_attn.o_proj.bias", (hidden,)
    if model.name in ("qwen3", "qwen3_moe", "gemma3_text"):
        yield "self_attn.q_norm.weight", (attention.key_dim,)
        yield "self_attn.k_norm.weight", (attention.key_dim,)


def _routed(model: Model) -> Shapes:
    assert model.experts is not None
    yield "mlp.gate.weight", (model.experts.count, model.hidden)
    for expert in range(model.experts.count):
        yield from _mlp(f"mlp.experts.{expert}", model.hidden, model.experts.inner)


def _mlp(where: str, hidden: int, inner: int) -> Shapes:
    for name, shape in zip(("gate_proj", "up_proj", "down_proj"), _mlp_shapes(hidden, inner), strict=True):
        yield f"{where}.{name}.weight", shape


def _mlp_shapes(hidden: int, inner: int) -> list[tuple[int, int]]:
    return [(inner, hidden), (inner, hidden), (hidden, inner)]


_LAYERS: dict[str, Callable[[Model, int], Shapes]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", *_SANDWICHED), _llama),
    "phi3": _phi,
    "mixtral": _mixtral,
    **dict.fromkeys(("qwen2_moe", "qwen3_moe"), _qwen_moe),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), _deepseek),
}
