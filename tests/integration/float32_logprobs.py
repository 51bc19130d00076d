"""Whole next-token distributions of a checkpoint in float32, by transformers: run in the quantize environment.

``float32_logprobs.py CHECKPOINT JOB OUT``: JOB is JSON, ``[[token ids, first position], ...]``. OUT (``.npz``) gets the
log-probabilities at those positions and after, of the checkpoint (``plain``) and with its linear layers rounded to 4
bits in groups of 64 (``rounded``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM


@torch.inference_mode()
def log_probabilities(model: torch.nn.Module, job: list[tuple[list[int], int]]) -> np.ndarray:
    found = []
    for token_ids, start in job:
        logits = model(torch.tensor([token_ids])).logits[0, start - 1 : -1]  # a position tells of the next token
        found.append(torch.log_softmax(logits.float(), dim=-1).numpy())
    return np.concatenate(found)


@torch.inference_mode()
def round_weights(model: torch.nn.Module, group: int = 64) -> None:
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
            weight = module.weight.view(-1, group)
            scale = weight.abs().amax(dim=1, keepdim=True) / 7
            weight.copy_((weight / scale).round().clamp(-8, 7) * scale)


def main(checkpoint: str, job: str, out: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    wanted = json.loads(Path(job).read_text(encoding="utf-8"))
    plain = log_probabilities(model, wanted)
    round_weights(model)
    np.savez(out, plain=plain, rounded=log_probabilities(model, wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
