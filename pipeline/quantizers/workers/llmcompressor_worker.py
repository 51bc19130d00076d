"""Quantizes one checkpoint with llm-compressor. Job fields: see ``quantizers/llmcompressor.py``.

Large models: the weights are loaded to CPU memory in their own dtype and llm-compressor moves one
decoder layer at a time to the GPU, where there is one (its "sequential onloading"), so a model
larger than the GPU's memory can be quantized.
"""

# ruff: noqa: E402 - the report channel must be claimed before the libraries print on import
from __future__ import annotations

import worker_io

JOB = worker_io.start()

from typing import Any

import torch
from bf16_products import multiply_in_float32
from calibration_tokens import calibration_tokens
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, preset_name_to_scheme
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modeling.moe.linearize import load_quantizable_moe
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier
from sampled_awq import SampledAWQ
from sensitivity import divergences
from shared_hessian import SharedHessianGPTQ
from transformers import AutoModelForCausalLM, GenerationConfig


def scheme(name: str, targets: list[str], group_size: int | None) -> QuantizationScheme:
    """A preset of compressed-tensors, with the recipe's group size where it has groups."""
    made = preset_name_to_scheme(name, targets)
    if group_size is not None:
        made.weights = made.weights.model_copy(update={"group_size": group_size})
    return made


def quantizer(job: dict[str, Any], eight_bit: list[str]) -> QuantizationModifier | SharedHessianGPTQ:
    """The modifier that fixes scales and rounds weights. A module's name goes before its class in targets."""
    groups = {"group_0": scheme(job["scheme"], ["Linear"], job["group_size"])}
    if eight_bit:
        groups["group_1"] = scheme(job["eight_bit"]["scheme"], eight_bit, None)
    common: dict[str, Any] = {"ignore": job["ignore"], "config_groups": groups}
    if job["kv_cache"]:
        common["kv_cache_scheme"] = QuantizationArgs(num_bits=8, type="float", strategy="tensor", dynamic=False)
    if job["method"] == "gptq":
        order = "static" if job["activation_order"] else None
        return SharedHessianGPTQ(dampening_frac=job["dampening"], actorder=order, **common)
    return QuantizationModifier(**common)


def eight_bit_modules(job: dict[str, Any], model: Any, ids: list[list[int]], device: Any) -> dict[str, Any]:
    """The modules to keep at 8 bits: those the recipe names, or those of the layers that suffer most from INT4."""
    part = job["eight_bit"]
    if part is None:
        return {"eight_bit_modules": []}
    if part["layers"] is None:
        return {"eight_bit_modules": part["modules"]}
    worker_io.say(f"measuring which of {len(part['layers'])} layers suffer most from INT4")
    weights = scheme(job["scheme"], ["Linear"], job["group_size"]).weights
    found = divergences(model, part["layers"], ids[: job["search_samples"]], weights, device)
    kept = sorted(found, key=found.__getitem__, reverse=True)[: part["keep"]]
    worker_io.say(f"at 8 bits: {', '.join(kept)}")
    return {
        "eight_bit_modules": [module for layer in kept for module in part["layers"][layer]],
        "layer_divergences": found,
    }


def main() -> None:
    """Load, quantize, save."""
    job = JOB
    multiply_in_float32()
    data: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    ids: list[list[int]] = []
    if job["samples"]:
        ids = calibration_tokens(job)
        facts = {"calibration_samples": len(ids), "calibration_tokens": sum(map(len, ids))}
        worker_io.say(f"calibrating on {len(ids)} conversations, {facts['calibration_tokens']} tokens")
        data = {
            "dataset": Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * len(i) for i in ids]}),
            "num_calibration_samples": len(ids),
            "shuffle_calibration_samples": False,
        }
    with load_quantizable_moe():
        model = AutoModelForCausalLM.from_pretrained(job["checkpoint"], dtype="auto")
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    facts |= {"device": str(device)} | eight_bit_modules(job, model, ids, device)
    worker_io.say(f"quantizing {job['modules']} linear modules to {job['scheme']} ({job['method']}) on {device}")
    recipe: list[Any] = [quantizer(job, facts["eight_bit_modules"])]
    if job["method"] == "awq":
        recipe.insert(0, SampledAWQ(search_samples=job["search_samples"]))
    # Only GPTQ changes what the next layer reads, which takes a second pass through each layer. Scaling by
    # SmoothQuant or AWQ leaves a layer's output as it was.
    common = {"model": model, "tokenizer": job["checkpoint"], **data}
    if job["smoothquant"] is not None:
        smooth = SmoothQuantModifier(smoothing_strength=job["smoothquant"])
        oneshot(recipe=[smooth], propagate_error=False, **common)
    oneshot(recipe=recipe, propagate_error=job["method"] == "gptq", **common)
    worker_io.say("saving")
    # The baseline's own file is copied afterwards; a published one that transformers finds fault with
    # (a temperature without do_sample is common) must not keep the candidate from being saved.
    model.generation_config = GenerationConfig()
    model.save_pretrained(job["output"], save_compressed=True)
    worker_io.finish(facts)


if __name__ == "__main__":
    main()
