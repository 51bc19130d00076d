"""Run by the training environment: loss and gradients of ``LoraLlama`` against transformers and peft, as JSON.

A small random Llama with grouped heads, float32 on both sides; the rows share a prefix, end at different lengths and
are compared with whole sequences computed one by one.
"""

from __future__ import annotations

import json
import sys

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, sys.argv[1])
from llama import LINEARS, Batch, LoraLlama

RANK, ALPHA, PREFIX, LENGTHS = 4, 8, 11, (9, 6, 3)


def difference(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference in units of the largest value."""
    return float((ours - theirs).abs().max() / theirs.abs().max())


def main() -> None:
    """Print the differences."""
    prefix_length, frozen = map(int, sys.argv[2:])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        rope_theta=10000.0,
    )
    reference = LlamaForCausalLM(config)
    state = {name: tensor.clone() for name, tensor in reference.state_dict().items() if name != "lm_head.weight"}
    for name in list(state):
        if "norm" in name:  # ones hide a norm without weight
            state[name] = torch.rand_like(state[name]) + 0.5
    reference.load_state_dict(state, strict=False)
    model = LoraLlama(
        state, config.to_dict(), rank=RANK, scale=ALPHA / RANK, seed=0, dtype=torch.float32, frozen=frozen
    )
    tuned = get_peft_model(reference, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=list(LINEARS)))
    with torch.no_grad():
        for name, (a, b) in model.adapter.items():
            b.normal_(0, 0.1)
            layer = tuned.base_model.model.get_submodule(name)
            layer.lora_A["default"].weight.copy_(a)
            layer.lora_B["default"].weight.copy_(b)

    prefix = torch.randint(0, 97, (prefix_length,))
    rows = torch.randint(0, 97, (len(LENGTHS), max(LENGTHS)))
    weights = torch.zeros(rows.shape)
    for at, length in enumerate(LENGTHS):
        weights[at, 1:length] = (torch.rand(length - 1) * 4).floor()
    ours = model.loss(Batch(prefix, rows, weights))
    ours.backward()

    losses = []
    for row, weight, length in zip(rows, weights, LENGTHS, strict=True):
        whole = torch.cat((prefix, row[:length]))[None]
        logits = tuned(whole).logits[0, len(whole[0]) - length : -1]
        losses.append(torch.nn.functional.cross_entropy(logits, row[1:length], reduction="none") @ weight[1:length])
    theirs = torch.stack(losses).sum() / weights.sum()
    theirs.backward()
    gradients = []
    for name, (a, b) in model.adapter.items():
        if a.grad is None and b.grad is None:
            continue
        layer = tuned.base_model.model.get_submodule(name)
        gradients += [difference(a.grad, layer.lora_A["default"].weight.grad)]
        gradients += [difference(b.grad, layer.lora_B["default"].weight.grad)]
    print(json.dumps({"loss": abs(ours.item() - theirs.item()), "gradient": max(gradients), "tensors": len(gradients)}))


if __name__ == "__main__":
    main()
