"""A tiny llama's tensors, made by numpy alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy
from llama_shapes import projections

HIDDEN, INNER, KEYS, VOCABULARY = 192, 320, 64, 48
MakeCheckpoint = Callable[..., Path]


def llama_tensors(layers: int = 2, hidden: int = HIDDEN, inner: int = INNER) -> dict[str, numpy.ndarray]:
    """The tensors of a llama, by the names that transformers writes."""
    half = numpy.float16
    made = {
        "model.embed_tokens.weight": numpy.zeros((VOCABULARY, hidden), half),
        "model.norm.weight": numpy.zeros((hidden,), half),
        "lm_head.weight": numpy.zeros((VOCABULARY, hidden), half),
    }
    for n in range(layers):
        for name, shape in {
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
            **projections(hidden, inner, KEYS),
        }.items():
            made[f"model.layers.{n}.{name}.weight"] = numpy.zeros(shape, half)
    return made
