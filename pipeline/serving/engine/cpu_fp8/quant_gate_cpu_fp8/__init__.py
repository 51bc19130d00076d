"""A vLLM plug-in: FP8 W8A8 linear layers on a CPU, with the numerics of FP8 but not its speed.

vLLM's own CPU fallback multiplies FP8 tensors element by element and takes minutes for one prompt, and on
processors with AMX its per-tensor kernel leaves activations in BF16, which is not what a GPU computes.
This plug-in supplies a kernel that quantizes activations with vLLM's own ``QuantFP8``, multiplies the
quantized values and applies both scales afterwards. Every E4M3 value is exact in BF16 and the product of
two of them is exact in float32, so a BF16 multiplication with float32 accumulation sees the same
products as FP8 hardware does.

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


def register() -> None:
    """Offer the reference kernel to vLLM on a CPU; do nothing elsewhere."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.logger import init_logger
    from vllm.model_executor.kernels import linear
    from vllm.platforms.interface import PlatformEnum

    from quant_gate_cpu_fp8.kernel import ReferenceFP8LinearKernel

    # vLLM may load its plug-ins more than once in a process.
    if ReferenceFP8LinearKernel not in linear._POSSIBLE_FP8_KERNELS.get(PlatformEnum.CPU, []):
        linear.register_linear_kernel(ReferenceFP8LinearKernel, PlatformEnum.CPU, "fp8")
        init_logger("vllm.quant_gate_cpu_fp8").debug("reference FP8 kernel registered")
