"""BF16 products on processors that have none (no AVX-512): seven times faster by way of float32.

Attention has two ways: llm-compressor traces models with the eager one, whose products are ``torch.matmul``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

_linear, _attention, _matmul = functional.linear, functional.scaled_dot_product_attention, torch.matmul


def multiply_in_float32() -> None:
    """Let linear layers and attention on a CPU without BF16 products multiply in float32 and round the result.

    That is what BF16 hardware does, too: exact products, sums in float32, one rounding at the end.
    """
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        functional.linear = linear
        functional.scaled_dot_product_attention = attention
        torch.matmul = matmul


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``functional.linear``, for BF16 on a CPU in float32."""
    if x.dtype != torch.bfloat16 or x.device.type != "cpu":
        return _linear(x, weight, bias)
    return _linear(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """``functional.scaled_dot_product_attention``, for BF16 on a CPU in float32."""
    if query.dtype != torch.bfloat16 or query.device.type != "cpu":
        return _attention(query, key, value, *rest, **named)
    wide, wide_named = [_float(each) for each in rest], {name: _float(each) for name, each in named.items()}
    return _attention(query.float(), key.float(), value.float(), *wide, **wide_named).to(query.dtype)


def matmul(x: torch.Tensor, y: torch.Tensor, **named: Any) -> torch.Tensor:
    """``torch.matmul``, for BF16 on a CPU in float32."""
    tensors = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)  # a model that is traced passes others
    if not tensors or not x.dtype == y.dtype == torch.bfloat16 or x.device.type != "cpu" or named:
        return _matmul(x, y, **named)
    return _matmul(x.float(), y.float()).to(x.dtype)


def _float(argument: Any) -> Any:
    return argument.float() if isinstance(argument, torch.Tensor) and argument.is_floating_point() else argument
