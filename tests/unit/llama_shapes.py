"""Shapes of a llama's projections, for the tiny models that tests make."""

from __future__ import annotations


def projections(hidden: int, inner: int, keys: int) -> dict[str, tuple[int, int]]:
    """The linear weights [outputs, inputs] of one decoder layer, by the names that transformers writes.

    :param keys: outputs of k_proj and v_proj.
    """
    return {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
