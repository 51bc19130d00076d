"""GPTQ as llm-compressor does it beside ours: CPU time and error.

Ours is what the worker does (`pipeline/quantizers/workers`): shared Hessians, and on processors without BF16 products
float32 ones.

Usage: python benchmarks/gptq_speed.py [LAYERS] [SAMPLES]   (default 2 decoder layers, 16 samples; a minute or two)

A Llama with random weights in the shapes of the embedded model's layers is quantized to INT4 in groups of 64 on random
tokens, 740 a sample, three times each way, in turn. CPU seconds are those of all threads; the error is the sum over
modules of what GPTQ reports, (w - q)^2 / diag(H^-1)^2 / 2 over all weights.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from pipeline import environments
from pipeline.quantizers.worker import SCRIPTS

MEASURED = r"""
import copy, re, statistics, sys, time
import torch
from bf16_products import multiply_in_float32
from compressed_tensors.quantization import preset_name_to_scheme
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from loguru import logger
from tokenizers import Tokenizer, models
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
import worker_io
from shared_hessian import SharedHessianGPTQ

worker_io.advance = lambda done, total: None
layers, samples = map(int, sys.argv[1:3])
torch.manual_seed(0)
config = LlamaConfig(vocab_size=512, hidden_size=576, intermediate_size=1536, num_hidden_layers=layers,
    num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=1024, dtype="bfloat16")
model = LlamaForCausalLM(config).to(torch.bfloat16)
model.save_pretrained(sys.argv[3])
tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, "a")), pad_token="a")
ids = torch.randint(0, 512, (samples, 740)).tolist()
data = Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * 740] * samples})
scheme = preset_name_to_scheme("W4A16", ["Linear"])
scheme.weights = scheme.weights.model_copy(update={"group_size": 64})
errors = []
logger.remove()
logger.add(lambda m: errors.extend(map(float, re.findall(r"error ([\d.e+-]+)", str(m)))), level="METRIC")
seconds, found = {}, {}
stock = functional.linear, functional.scaled_dot_product_attention, torch.matmul
for turn in range(3):
    for kind in (GPTQModifier, SharedHessianGPTQ):
        functional.linear, functional.scaled_dot_product_attention, torch.matmul = stock
        if kind is SharedHessianGPTQ:
            multiply_in_float32()
        tried = LlamaForCausalLM.from_pretrained(sys.argv[3], dtype="auto")
        errors.clear()
        started = time.process_time()
        recipe = [kind(ignore=["lm_head"], config_groups={"group_0": copy.deepcopy(scheme)})]
        oneshot(model=tried, tokenizer=tokenizer, recipe=recipe, dataset=data, num_calibration_samples=samples,
            shuffle_calibration_samples=False)
        seconds.setdefault(kind.__name__, []).append(time.process_time() - started)
        found[kind.__name__] = sum(errors)
        assert len(errors) == 7 * layers, errors
for name in seconds:
    print(f"{name:18} CPU s {statistics.median(seconds[name]):6.1f} of {sorted(round(s, 1) for s in seconds[name])}, "
        f"error {found[name]:.2f}")
theirs, ours = (statistics.median(s) for s in seconds.values())
first, second = found.values()
print(f"GPTQ: {ours / theirs:.2f} of the CPU time, error ratio {second / first:.4f} (aims: below 0.9, 1 within 0.005)")
"""


def main() -> None:
    """Measure in the quantize environment."""
    sizes = [*sys.argv[1:], *["2", "16"][len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [environments.python_of("quantize"), "-c", MEASURED, *sizes, folder],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS), "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
            stderr=subprocess.DEVNULL,
            check=True,
        )


if __name__ == "__main__":
    main()
