"""llm-compressor's GPTQ, with less arithmetic on the way to the same Hessians.

In a decoder layer q, k and v read one tensor, gate and up another; llm-compressor 0.14 forms the Hessian of each
anew. Here modules that read the same tensor share one. A Hessian is symmetric, so only its upper triangle is formed,
in blocks of rows. Both leave every value as it was, but for the order of float32 sums.
"""

from __future__ import annotations

from typing import Any

import torch
import worker_io
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.gptq.helpers import make_empty_hessian
from pydantic import PrivateAttr

BLOCK = 256
"""Rows formed at once. With n blocks (n + 1) / 2n of the work remain."""


class SharedHessianGPTQ(GPTQModifier):
    """:class:`GPTQModifier` whose modules share the Hessian of a shared input."""

    _owners: dict[torch.nn.Module, torch.nn.Module] = PrivateAttr(default_factory=dict)
    _last_input: Any = PrivateAttr(default=None)
    _last_owner: Any = PrivateAttr(default=None)

    def calibrate_module(self, module: torch.nn.Module, args: tuple[torch.Tensor, ...], _output: torch.Tensor) -> None:
        """Add the module's input to its Hessian, unless the module before has added the very same tensor."""
        if not isinstance(module, torch.nn.Linear):
            super().calibrate_module(module, args, _output)
            return
        inputs = args[0]
        same = inputs is self._last_input
        owner = self._owners.setdefault(module, self._last_owner if same else module)
        if owner is module:
            self._last_input, self._last_owner = inputs, module
            if module not in self._num_samples:
                self._hessians[module] = make_empty_hessian(module, device=inputs.device)
                self._num_samples[module] = torch.zeros((), device=inputs.device)
            add_upper_triangle(inputs.reshape(-1, inputs.shape[-1]), self._hessians[module])
            self._num_samples[module] += inputs.shape[0] if inputs.ndim > 2 else 1
        elif same and self._last_owner is owner:
            self._hessians[module], self._num_samples[module] = self._hessians[owner], self._num_samples[owner]
        else:
            raise RuntimeError(f"{self._module_names[module]} reads another tensor than in the sample before")

    def compress_modules(self) -> None:
        """Complete the Hessians of the layer and quantize its modules."""
        self._last_input = self._last_owner = None
        for hessian in {id(h): h for m, h in self._hessians.items() if m in self._owners}.values():
            mirror(hessian)
        super().compress_modules()

    def compress_module_list(self, module_list: list[torch.nn.Module]) -> None:
        """Quantize and report how many modules are finished."""
        super().compress_module_list(module_list)
        worker_io.advance(self._num_compressed_modules, len(self._module_names))


def add_upper_triangle(inputs: torch.Tensor, hessian: torch.Tensor) -> None:
    """Add 2 X^T X to the upper triangle of ``hessian`` [in, in], for inputs X [tokens, in]; in float32.

    The factor is GPTQ's own: H = 2 X X^T, Frantar et al. 2022 (arXiv:2210.17323), equation 2 and after.
    Blocks below the diagonal are left as they are; :func:`mirror` fills them.
    """
    inputs = inputs.to(device=hessian.device, dtype=hessian.dtype)
    for start in range(0, hessian.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        hessian[rows, start:].addmm_(inputs[:, rows].t(), inputs[:, start:], alpha=2)


def mirror(hessian: torch.Tensor) -> None:
    """Copy the upper triangle to the lower one."""
    hessian.triu_()
    hessian.add_(hessian.triu(1).t())
