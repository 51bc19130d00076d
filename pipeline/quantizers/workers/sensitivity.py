"""Which decoder layers suffer most from INT4: each is rounded alone, and the model's next-token distribution compared.

The measure is the mean Kullback-Leibler divergence from the unquantized model over the last positions of some
calibration conversations, where the assistant speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import worker_io
from compressed_tensors.quantization import QuantizationArgs, fake_quantize
from compressed_tensors.quantization.utils import calculate_qparams

POSITIONS = 64
"""Last positions of each conversation at which distributions are compared."""


@torch.no_grad()
def divergences(
    model: Any, layers: dict[str, list[str]], ids: list[list[int]], weights: QuantizationArgs, device: Any
) -> dict[str, float]:
    """Mean divergence, in nats, by name of the layer that is rounded to ``weights``; the model is left as it was."""
    model.to(device).eval()
    prompts = [torch.tensor([sample], device=device) for sample in ids]
    whole = [_log_probs(model, prompt) for prompt in prompts]
    found = {}
    for name, modules in layers.items():
        with _rounded([model.get_submodule(module) for module in modules], weights):
            parts = [
                _divergence(exact, _log_probs(model, prompt)) for exact, prompt in zip(whole, prompts, strict=True)
            ]
        found[name] = float(torch.cat(parts).mean())
        worker_io.advance(len(found), len(layers))
    model.to("cpu")
    return found


def _log_probs(model: Any, prompt: torch.Tensor) -> torch.Tensor:
    logits = model(prompt, use_cache=False, logits_to_keep=POSITIONS).logits[0]
    return torch.log_softmax(logits.float(), dim=-1).cpu()


def _divergence(exact: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(exact || other) at each position [positions]."""
    return (exact.exp() * (exact - other)).sum(dim=-1)


@contextmanager
def _rounded(linears: list[torch.nn.Linear], weights: QuantizationArgs) -> Iterator[None]:
    """Weights rounded to nearest, as long as the context lasts."""
    before = [linear.weight.data for linear in linears]
    try:
        for linear in linears:
            linear.weight.data = round_to_nearest(linear.weight.data, weights)
        yield
    finally:
        for linear, weight in zip(linears, before, strict=True):
            linear.weight.data = weight


def round_to_nearest(weight: torch.Tensor, weights: QuantizationArgs) -> torch.Tensor:
    """``weight`` [rows, columns] rounded to the scheme's grid by the least and greatest value of each group."""
    groups = weight.reshape(weight.shape[0], -1, weights.group_size)
    scale, zero = calculate_qparams(groups.amin(dim=-1), groups.amax(dim=-1), weights)
    return fake_quantize(weight, scale, zero, weights)
