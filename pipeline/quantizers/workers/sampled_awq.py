"""llm-compressor's AWQ, with scales tried on the first conversations only, and able to run without a GPU.

Which channels matter is a mean over all calibration text. Each of the 20 strengths of scaling is then tried by
running a block again on the inputs that it saw; a few conversations decide that as well as all (Lin et al. 2023,
arXiv:2306.00978, figure 8a: 16 sequences suffice).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import worker_io
from compressed_tensors.utils import patch_attr
from llmcompressor.modifiers.transform.awq import AWQModifier, base
from llmcompressor.pipelines.cache import IntermediatesCache


class FirstSamples(IntermediatesCache):
    """Keeps what was seen in the first ``limit`` samples."""

    def __init__(self, limit: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.limit = limit

    def append(self, values: dict[str, Any]) -> None:
        """Keep the values of one sample, if it is one of the first."""
        if len(self) < self.limit:
            super().append(values)

    def pin_memory(self, batch_index: int, input_names: list[str] | None = None) -> None:
        """Pin where there is a device to copy to; llm-compressor 0.14 asks for it on a CPU too and fails."""
        if torch.accelerator.is_available():
            super().pin_memory(batch_index, input_names)


class SampledAWQ(AWQModifier):
    """:class:`AWQModifier` that tries scales on the first ``search_samples`` samples."""

    search_samples: int

    def _setup_activation_cache_hooks(self) -> None:
        with patch_attr(base, "IntermediatesCache", functools.partial(FirstSamples, self.search_samples)):
            super()._setup_activation_cache_hooks()

    def _compute_best_scale(self, *arguments: Any) -> torch.Tensor:
        scale = super()._compute_best_scale(*arguments)
        worker_io.advance(len(self._error_metrics), len(self._resolved_mappings))
        return scale
