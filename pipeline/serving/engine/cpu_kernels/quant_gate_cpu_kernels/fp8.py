"""FP8 W8A8: quantized operands, one exact multiplication, then the scales.

Activations are quantized with vLLM's own ``QuantFP8``. Every E4M3 value is exact in BF16 and the product of two of
them is exact in float32, so a multiplication in BF16 with sums in float32, or one in float32, sees the same products
as FP8 hardware does.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.model_executor.kernels.linear.scaled_mm.ScaledMMLinearKernel import (
    FP8ScaledMMLinearKernel,
    FP8ScaledMMLinearLayerConfig,
)
from vllm.model_executor.layers.quantization.utils import replace_parameter
from vllm.platforms import current_platform

logger = init_logger("vllm.quant_gate_cpu_kernels")
OPERANDS = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
"""What E4M3 values are held in for multiplying. Without AVX-512, BF16 products take seven times as long."""


def scaled_product(
    activations: torch.Tensor,
    weight: torch.Tensor,
    *,
    activation_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """``(activation_scale * activations) @ (weight_scale * weight) + bias``.

    :param activations: E4M3 values, shape (tokens, K).
    :param weight: E4M3 values held as BF16 or float32 (both exact), shape (K, N).
    :param activation_scale: float32, one for all or one per token.
    :param weight_scale: float32, one for all or one per output channel.

    Products are exact and sums are kept in float32 inside the multiplication. With BF16 operands its result is
    rounded to BF16 once before the scales are applied in float32; FP8 hardware saves that rounding, at most 2**-8
    relative.
    """
    product = torch.mm(activations.to(weight.dtype), weight).float()
    rows, columns = activation_scale.reshape(-1, 1), weight_scale.reshape(1, -1)
    if rows.shape[0] not in (1, product.shape[0]) or columns.shape[1] not in (1, product.shape[1]):
        raise ValueError(
            f"FP8 scales of shape {tuple(activation_scale.shape)} and {tuple(weight_scale.shape)} "
            f"do not fit a product of shape {tuple(product.shape)}"
        )
    product.mul_(rows).mul_(columns)
    if bias is not None:
        product.add_(bias)
    return product.to(out_dtype)


def offer_static_quantization() -> None:
    """Let vLLM quantize tensors by a given scale, which its build for CPUs declares and leaves out.

    It asks for that at loading, where layers are joined (q, k and v; gate and up) that have a scale for each whole
    tensor: all get the largest of them.
    """
    from vllm import _custom_ops as ops

    own = ops.scaled_fp8_quant
    if getattr(own, "of_quant_gate", False):
        return

    @functools.wraps(own)
    def scaled_fp8_quant(
        input: torch.Tensor,
        scale: torch.Tensor | None = None,
        *rest: Any,
        **named: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if scale is None or scale.numel() != 1 or rest or named:
            return own(input, scale, *rest, **named)
        return quantized(input, scale), scale

    scaled_fp8_quant.of_quant_gate = True  # type: ignore[attr-defined]
    ops.scaled_fp8_quant = scaled_fp8_quant


def quantized(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """E4M3 values of ``values`` by one scale: times its reciprocal, as vLLM's kernel for GPUs does, not beyond 448."""
    return (values.float() * scale.float().reciprocal()).clamp(-448, 448).to(torch.float8_e4m3fn)


class ReferenceFP8LinearKernel(FP8ScaledMMLinearKernel):
    """FP8 W8A8: static or dynamic activations, per token or per tensor; weights per channel or per tensor."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        """Only on a CPU."""
        return (True, None) if current_platform.is_cpu() else (False, "requires CPU.")

    @classmethod
    def can_implement(cls, c: FP8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        """Everything but block and group scales."""
        activation, weight = c.activation_quant_key.scale.group_shape, c.weight_quant_key.scale.group_shape
        if not (activation.is_per_tensor() or activation.is_per_token()):
            return False, "requires activation scales per token or per tensor."
        # One scale per output channel is "per token" of the transposed weight in the engine's keys.
        if not (weight.is_per_tensor() or weight.is_per_channel() or weight.is_per_token()):
            return False, "requires weight scales per channel or per tensor."
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Hold the weight in a type that the processor multiplies fast and in which every E4M3 value is exact."""
        logger.warning_once(
            "FP8 linear layers run through the reference CPU kernel of quant-gate: "
            "the numerics are those of FP8, the SPEED IS NOT REPRESENTATIVE."
        )
        name = self.layer_param_names[0]
        weight = getattr(layer, name)  # (K, N), the transposed view of a contiguous (N, K)
        exact = weight.t().contiguous().to(OPERANDS).t()
        replace_parameter(layer, name, torch.nn.Parameter(exact, requires_grad=False))

    def apply_scaled_mm(
        self,
        *,
        A: torch.Tensor,  # noqa: N803  (the engine calls by these names)
        B: torch.Tensor,  # noqa: N803
        out_dtype: torch.dtype,
        As: torch.Tensor,  # noqa: N803
        Bs: torch.Tensor,  # noqa: N803
        bias: torch.Tensor | None,
        output_shape: list[int],
    ) -> torch.Tensor:
        """Called by the base class once it has quantized the activations."""
        return scaled_product(A, B, activation_scale=As, weight_scale=Bs, bias=bias, out_dtype=out_dtype).view(
            *output_shape
        )
