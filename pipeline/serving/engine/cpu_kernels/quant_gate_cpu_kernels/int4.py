"""INT4 weights with 16- or 32-bit activations: the weight is dequantized once, then multiplied as any other."""

from __future__ import annotations

import torch
from vllm.logger import init_logger
from vllm.model_executor.kernels.linear.mixed_precision.MPLinearKernel import MPLinearKernel, MPLinearLayerConfig
from vllm.model_executor.layers.quantization.utils import replace_parameter
from vllm.model_executor.layers.quantization.utils.quant_utils import unpack_quantized_values_into_int32
from vllm.platforms import current_platform
from vllm.scalar_type import scalar_types

logger = init_logger("vllm.quant_gate_cpu_kernels")


def dequantized(
    values: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | float, dtype: torch.dtype
) -> torch.Tensor:
    """``(values - zero_points) * scales`` in ``dtype``.

    :param values: 0 to 15, shape (K, N).
    :param scales: shape (groups, N); each row serves K / groups rows of ``values``.
    :param zero_points: like ``scales``, or one for all.
    """
    rows, columns = values.shape
    groups = scales.shape[0]
    grouped = values.view(groups, rows // groups, columns).float()
    zero = zero_points.float().view(groups, 1, columns) if isinstance(zero_points, torch.Tensor) else zero_points
    return ((grouped - zero) * scales.float().view(groups, 1, columns)).view(rows, columns).to(dtype)


class ReferenceINT4LinearKernel(MPLinearKernel):
    """Weight-only INT4, symmetric or with zero points, by group or by output channel."""

    @classmethod
    def get_min_capability(cls) -> int:
        """A CPU has none."""
        return -1

    @classmethod
    def can_implement(cls, c: MPLinearLayerConfig) -> tuple[bool, str | None]:
        """INT4 on a CPU."""
        if not current_platform.is_cpu():
            return False, "requires CPU."
        if c.weight_type not in (scalar_types.uint4, scalar_types.uint4b8):
            return False, "requires INT4 weights."
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Replace packed weight, scales and zero points by one dequantized weight, shape (N, K)."""
        logger.warning_once(
            "INT4 linear layers run through the reference CPU kernel of quant-gate: "
            "the numerics are those of INT4 weights, the SPEED IS NOT REPRESENTATIVE."
        )
        packed, scales = getattr(layer, self.w_q_name), getattr(layer, self.w_s_name)
        kind = self.config.weight_type
        # compressed-tensors stores [N, K / 8] and [N, groups]; AWQ layers arrive as [K / 8, N] and [groups, N].
        values = unpack_quantized_values_into_int32(packed.data.t() if packed.input_dim else packed.data, kind, 0)
        steps = scales.data if scales.output_dim else scales.data.t()
        zero_points: torch.Tensor | float = float(kind.bias)
        if self.config.zero_points:
            zeros = getattr(layer, self.w_zp_name or "")
            zeros = zeros.data if zeros.output_dim else zeros.data.t()
            zero_points = unpack_quantized_values_into_int32(zeros.contiguous(), kind, 1)
        weight = dequantized(values, steps, zero_points, self.config.act_type).t().contiguous()
        replace_parameter(layer, self.w_q_name, torch.nn.Parameter(weight, requires_grad=False))
        for name in (self.w_s_name, self.w_zp_name):
            if name and hasattr(layer, name):
                setattr(layer, name, None)

    def apply_weights(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """``x @ weight' + bias``."""
        return torch.nn.functional.linear(x, getattr(layer, self.w_q_name), bias)
