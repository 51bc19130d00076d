"""A vLLM plug-in: linear layers on a CPU with the numerics of a GPU's, but not their speed.

FP8 W8A8 (:mod:`quant_gate_cpu_kernels.fp8`): vLLM's own CPU fallback multiplies FP8 tensors element by element and
takes minutes for one prompt, and on processors with AMX its per-tensor kernel leaves activations in BF16, which is
not what a GPU computes. INT4 weights (:mod:`quant_gate_cpu_kernels.int4`): vLLM has a kernel for them only where the
processor has AVX-512; without, it fails at the first layer.

vLLM calls :func:`register` in each of its processes. On anything but a CPU it does nothing.
"""

from __future__ import annotations

DISABLED = (
    "PerTensorTorchFP8ScaledMMLinearKernel",
    "ChannelWiseTorchFP8ScaledMMLinearKernel",
    "CPUFp8PerTensorScaledMMLinearKernel",
    "CPUFP8W8A8ScaledMMLinearKernel",
)
"""Kernels that vLLM would try first; they must be named in ``VLLM_DISABLED_KERNELS``."""
DISABLED_WITHOUT_AVX512 = ("CPUWNA16LinearKernel",)
"""Further ones on an x86 processor without AVX-512: vLLM offers them there, but has not compiled them."""


def register() -> None:
    """Offer the reference kernels to vLLM on a CPU; do nothing elsewhere."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.logger import init_logger
    from vllm.model_executor.kernels import linear
    from vllm.platforms.interface import PlatformEnum

    from quant_gate_cpu_kernels.fp8 import ReferenceFP8LinearKernel, offer_static_quantization
    from quant_gate_cpu_kernels.int4 import ReferenceINT4LinearKernel

    # vLLM may load its plug-ins more than once in a process.
    offer_static_quantization()
    if ReferenceFP8LinearKernel not in linear._POSSIBLE_FP8_KERNELS.get(PlatformEnum.CPU, []):
        linear.register_linear_kernel(ReferenceFP8LinearKernel, PlatformEnum.CPU, "fp8")
        linear.register_linear_kernel(ReferenceINT4LinearKernel, PlatformEnum.CPU, "mp")
        init_logger("vllm.quant_gate_cpu_kernels").debug("reference kernels registered")
