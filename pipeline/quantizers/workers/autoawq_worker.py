"""Quantizes one checkpoint with AutoAWQ. Job fields: see ``quantizers/autoawq.py``."""

# ruff: noqa: E402 - the report channel must be claimed before the libraries print on import
from __future__ import annotations

import worker_io

JOB = worker_io.start()

import math
import warnings

warnings.filterwarnings("ignore", category=DeprecationWarning)  # AutoAWQ prints a page about its end

import torch
from awq import AutoAWQForCausalLM
from awq.utils.utils import get_best_device
from bf16_products import multiply_in_float32
from calibration_tokens import calibration_tokens
from mended_awq import MendedQuantizer
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

PARALLEL = 8
"""Blocks of calibration text that go through a layer at once."""


class ReportingQuantizer(MendedQuantizer):
    """Tells after each decoder layer how far it is."""

    def _apply_quant(self, module: torch.nn.Module, named_linears: dict[str, torch.nn.Linear]) -> None:
        super()._apply_quant(module, named_linears)
        self.finished = getattr(self, "finished", 0) + 1
        worker_io.advance(self.finished, len(self.modules))


def main() -> None:
    """Load, quantize, save."""
    job = JOB
    multiply_in_float32()
    ids = calibration_tokens(job)
    total = sum(map(len, ids))
    worker_io.say(f"calibrating on {len(ids)} conversations, {total} tokens")
    dtype = AutoConfig.from_pretrained(job["checkpoint"]).torch_dtype
    block = min(job["max_tokens"], total)  # conversations are joined and cut into blocks of this length
    ReportingQuantizer.search_blocks = math.ceil(sum(map(len, ids[: job["search_samples"]])) / block)
    # AutoAWQ moves one decoder layer at a time to the GPU, where there is one.
    model = AutoAWQForCausalLM.from_pretrained(job["checkpoint"], torch_dtype=dtype, device_map="cpu")
    worker_io.say(f"quantizing {job['modules']} linear modules to INT4 with AutoAWQ on {get_best_device()}")
    model.quantize(
        AutoTokenizer.from_pretrained(job["checkpoint"]),
        quant_config={"zero_point": True, "q_group_size": job["group_size"], "w_bit": 4, "version": "GEMM"},
        calib_data=ids,
        max_calib_samples=len(ids),
        max_calib_seq_len=block,
        n_parallel_calib_samples=PARALLEL,
        quantizer_cls=ReportingQuantizer,
    )
    worker_io.say("saving")
    model.model.generation_config = GenerationConfig()  # as in llmcompressor_worker.py
    model.save_quantized(job["output"])
    worker_io.finish({"calibration_samples": len(ids), "calibration_tokens": total, "device": str(get_best_device())})


if __name__ == "__main__":
    main()
