"""Run by the serve environment's interpreter: is the reference kernels' arithmetic that of FP8 and of INT4 weights?

Compares with plain dequantization in float64. Ends non-zero at the first deviation; prints what was checked.
"""

from __future__ import annotations

import os

import torch
from quant_gate_cpu_kernels import DISABLED, DISABLED_WITHOUT_AVX512, register
from quant_gate_cpu_kernels.fp8 import OPERANDS, ReferenceFP8LinearKernel, scaled_product
from quant_gate_cpu_kernels.int4 import ReferenceINT4LinearKernel
from vllm.config import CompilationConfig, CompilationMode, VllmConfig, set_current_vllm_config
from vllm.model_executor.kernels import linear
from vllm.model_executor.kernels.linear.mixed_precision.MPLinearKernel import MPLinearLayerConfig
from vllm.model_executor.layers.quantization.utils import quant_utils
from vllm.model_executor.layers.quantization.utils.w8a8_utils import requantize_with_max_scale
from vllm.scalar_type import scalar_types

E4M3 = torch.float8_e4m3fn
TOKENS, INNER, OUT = 5, 96, 64
torch.manual_seed(0)


def quantized(x: torch.Tensor, per_row: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric E4M3 by definition: the largest magnitude maps to 448, the largest finite value of the format.

    By the reciprocal, as the engine's GPU kernels do: against a division it breaks ties differently.
    """
    largest = x.float().abs().amax(dim=1, keepdim=True) if per_row else x.float().abs().max()
    scale = largest / 448
    return (x.float() * scale.reciprocal()).clamp(-448, 448).to(E4M3), scale


def close(got: torch.Tensor, a: torch.Tensor, sa: torch.Tensor, w: torch.Tensor, sw: torch.Tensor, bias, output: bool):
    """Within the exact result, one BF16 rounding (2**-8 relative) of the product and float32 sums.

    :param output: the result was rounded to BF16 as well.
    """
    activations, weights = a.double() * sa.double(), w.double() * sw.double().reshape(-1, 1)
    exact = activations @ weights.t()
    total = exact if bias is None else exact + bias.double()
    sums = INNER * 2.0**-24 * (activations.abs() @ weights.abs().t())
    allowed = (2.0**-8 * exact.abs() + sums) * (1 + 2.0**-8 * output) + 2.0**-8 * total.abs() * output
    excess = ((got.double() - total).abs() - allowed).max()
    assert excess <= 0, excess


codes = torch.arange(256, dtype=torch.uint8).view(E4M3)
assert torch.equal(codes.float().nan_to_num(7e4), codes.to(torch.bfloat16).float().nan_to_num(7e4))
print("every E4M3 value is exact in BF16")

x, weight = torch.randn(TOKENS, INNER).bfloat16() * 3, torch.randn(OUT, INNER) * 0.1
bias = torch.randn(OUT).bfloat16()
for per_token in (True, False):
    for per_channel in (True, False):
        a, sa = quantized(x, per_token)
        w, sw = quantized(weight, per_channel)
        for b in (None, bias):
            got = scaled_product(
                a, w.to(OPERANDS).t(), activation_scale=sa, weight_scale=sw, bias=b, out_dtype=torch.float32
            )
            close(got, a, sa, w, sw.expand(OUT, 1) if sw.dim() else sw.expand(OUT), b, output=False)
            print(f"scaled_product: per_token={per_token} per_channel={per_channel} bias={b is not None}")
try:
    scaled_product(
        a, w.to(torch.bfloat16).t(), activation_scale=sa, weight_scale=torch.ones(3), bias=None, out_dtype=torch.float32
    )
    raise SystemExit("scales that do not fit were accepted")
except ValueError as error:
    assert "do not fit" in str(error)

register()
register()  # the engine may load its plug-ins repeatedly
assert linear._POSSIBLE_FP8_KERNELS[linear.PlatformEnum.CPU].count(ReferenceFP8LinearKernel) == 1
avx512 = torch.cpu._is_avx512_supported()
assert {*DISABLED, *(() if avx512 else DISABLED_WITHOUT_AVX512)} == set(os.environ["VLLM_DISABLED_KERNELS"].split(","))
keys = {
    "per token, per channel": (quant_utils.kFp8DynamicTokenSym, quant_utils.kFp8StaticTokenSym, True, True),
    "per tensor, per tensor": (quant_utils.kFp8DynamicTensorSym, quant_utils.kFp8StaticTensorSym, False, False),
    "per token, per tensor": (quant_utils.kFp8DynamicTokenSym, quant_utils.kFp8StaticTensorSym, True, False),
}
# Eager, as in configs/serving/default.yaml. (Compiled, the engine keeps one compiled QuantFP8 for the whole process,
# without guards: with layers of both kinds in one process, the first kind's quantization is used for all.)
eager = VllmConfig(compilation_config=CompilationConfig(mode=CompilationMode.NONE))
with set_current_vllm_config(eager):
    for name, (activation_key, weight_key, per_token, per_channel) in keys.items():
        kernel = linear.init_fp8_linear_kernel(
            activation_quant_key=activation_key,
            weight_quant_key=weight_key,
            input_dtype=torch.bfloat16,
            out_dtype=torch.bfloat16,
            weight_shape=(OUT, INNER),
        )
        assert type(kernel) is ReferenceFP8LinearKernel, type(kernel)
        w, sw = quantized(weight, per_channel)
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(w.t(), requires_grad=False)
        layer.weight_scale = torch.nn.Parameter(sw, requires_grad=False)
        layer.input_scale = None
        kernel.process_weights_after_loading(layer)
        got = kernel.apply_weights(layer, x, bias)
        assert got.dtype == torch.bfloat16 and got.shape == (TOKENS, OUT)
        a, sa = quantized(x, per_token)
        close(got, a, sa, w, sw.expand(OUT, 1) if sw.dim() else sw.expand(OUT), bias, output=True)
        print(f"kernel: {name}")


# Joined layers with a scale for each whole tensor get the largest of these, as by the engine's own loading code.
parts, own = zip(quantized(torch.randn(8, INNER), False), quantized(torch.randn(4, INNER) * 0.3, False), strict=True)
scale, joined = requantize_with_max_scale(torch.cat(parts), torch.stack(own), [8, 4])
assert scale == own[0] > own[1]
was = torch.cat([part.double() * each.double() for part, each in zip(parts, own, strict=True)])
assert torch.equal(joined[:8].view(torch.uint8), parts[0].view(torch.uint8))  # at its own scale nothing moves
step = torch.maximum(was.abs() * 2.0**-4, scale.double() * 2.0**-10)  # half a step: 3 bits of mantissa, least 2**-9
assert ((joined.double() * scale.double() - was).abs() <= step * (1 + 1e-6)).all()
assert (joined[8:].view(torch.uint8) != parts[1].view(torch.uint8)).any()
print("joined layers: requantized by the largest scale")


def packed(values: torch.Tensor) -> torch.Tensor:
    """Eight 4-bit values of a row in one int32, the first in its lowest bits: the layout of compressed-tensors."""
    words = sum(values[:, place::8].long() << 4 * place for place in range(8))
    return (words - ((words >> 31) << 32)).to(torch.int32)


def parameter(data: torch.Tensor, **places: int) -> torch.nn.Parameter:
    made = torch.nn.Parameter(data, requires_grad=False)
    for name, place in places.items():
        setattr(made, name, place)
    return made


GROUP, WIDE = 32, torch.randn(TOKENS, INNER)
for zero_points in (False, True):
    values = torch.randint(0, 16, (OUT, INNER), dtype=torch.int32)
    scales = torch.rand(OUT, INNER // GROUP) * 0.1
    zeros = torch.randint(0, 16, (OUT, INNER // GROUP), dtype=torch.int32) if zero_points else torch.tensor(8)
    wide_zeros = zeros.repeat_interleave(GROUP, 1) if zero_points else zeros
    exact = WIDE.double() @ ((values - wide_zeros) * scales.double().repeat_interleave(GROUP, 1)).t()
    kind = scalar_types.uint4 if zero_points else scalar_types.uint4b8
    config = MPLinearLayerConfig((INNER, OUT), (INNER, OUT), kind, torch.float32, GROUP, zero_points)
    chosen = linear.choose_mp_linear_kernel(config)
    assert avx512 or chosen is ReferenceINT4LinearKernel, chosen
    # As compressed-tensors stores it, and transposed as vLLM hands over AutoAWQ's.
    for out_first in (True, False):
        layer = torch.nn.Module()
        turned = (lambda x: x) if out_first else torch.t
        layer.weight = parameter(turned(packed(values)), input_dim=int(out_first), output_dim=int(not out_first))
        layer.scale = parameter(turned(scales), output_dim=int(not out_first))
        if zero_points:
            layer.zeros = parameter(turned(packed(zeros.t()).t()), output_dim=int(not out_first))
        kernel = ReferenceINT4LinearKernel(config, "weight", "scale", "zeros" if zero_points else None)
        kernel.process_weights_after_loading(layer)
        got = kernel.apply_weights(layer, WIDE, bias.float())
        assert torch.allclose(got.double(), exact + bias.double(), rtol=1e-5, atol=1e-4)
        print(f"INT4 kernel: zero_points={zero_points} out_first={out_first}")
print("all checked")
