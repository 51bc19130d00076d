"""Quantizes one checkpoint with llm-compressor. Job fields: see ``quantizers/llmcompressor.py``.

Large models: the weights are loaded to CPU memory in their own dtype and llm-compressor moves one
decoder layer at a time to the GPU, where there is one (its "sequential onloading"), so a model
larger than the GPU's memory can be quantized.
"""

# ruff: noqa: E402 - the report channel must be claimed before the libraries print on import
from __future__ import annotations

import worker_io

JOB = worker_io.start()

import json
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modeling.moe.linearize import load_quantizable_moe
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier
from loguru import logger
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig


def modifiers(job: dict[str, Any]) -> list[Any]:
    """The llm-compressor recipe that the job asks for."""
    common: dict[str, Any] = {"ignore": job["ignore"]}
    if job["group_size"] is None:
        common |= {"targets": "Linear", "scheme": job["scheme"]}
    else:
        weights = QuantizationArgs(
            num_bits=4, type="int", symmetric=True, strategy="group", group_size=job["group_size"]
        )
        common["config_groups"] = {"group_0": QuantizationScheme(targets=["Linear"], weights=weights)}
    if job["method"] == "gptq":
        quantizer: Any = GPTQModifier(dampening_frac=job["dampening"], **common)
    else:
        quantizer = QuantizationModifier(**common)
    if job["smoothquant"] is None:
        return [quantizer]
    return [SmoothQuantModifier(smoothing_strength=job["smoothquant"]), quantizer]


def as_rendered_by_the_engine(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copy of ``messages`` with tool-call arguments parsed, as vLLM hands them to a template."""
    copies = json.loads(json.dumps(messages))
    for message in copies:
        for call in message.get("tool_calls") or []:
            arguments = call["function"].get("arguments")
            if isinstance(arguments, str):
                call["function"]["arguments"] = json.loads(arguments) if arguments else {}
    return copies


def tokens(job: dict[str, Any]) -> list[list[int]]:
    """Token ids of the calibration conversations, in the chat template that will be served."""
    tokenizer = AutoTokenizer.from_pretrained(job["checkpoint"])
    ids = []
    for line in Path(job["samples"]).read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        text = tokenizer.apply_chat_template(
            as_rendered_by_the_engine(sample["messages"]),
            tools=sample.get("tools") or None,
            chat_template=job["template"],
            tokenize=False,
        )
        ids.append(tokenizer(text, add_special_tokens=False)["input_ids"][: job["max_tokens"]])
    return ids


def report_progress(total: int) -> None:
    """Follow GPTQ by its log: it names every module that it has started on."""
    done = 0

    def sink(message: Any) -> None:
        nonlocal done
        text = message.record["message"]
        if text.startswith("Quantizing ") and " module(s)" in text:
            done += int(text.split()[1])
            worker_io.advance(min(done, total), total)

    logger.add(sink, level="INFO")


def main() -> None:
    """Load, quantize, save."""
    job = JOB
    arguments: dict[str, Any] = {}
    counted: dict[str, Any] = {}
    if job["samples"]:
        ids = tokens(job)
        counted = {"calibration_samples": len(ids), "calibration_tokens": sum(map(len, ids))}
        worker_io.say(f"calibrating on {len(ids)} conversations, {counted['calibration_tokens']} tokens")
        arguments = {
            "dataset": Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * len(i) for i in ids]}),
            "num_calibration_samples": len(ids),
            "shuffle_calibration_samples": False,
        }
    with load_quantizable_moe():
        model = AutoModelForCausalLM.from_pretrained(job["checkpoint"], dtype="auto")
    report_progress(job["modules"])
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    worker_io.say(f"quantizing {job['modules']} linear modules to {job['scheme']} ({job['method']}) on {device}")
    oneshot(model=model, tokenizer=job["checkpoint"], recipe=modifiers(job), **arguments)
    worker_io.say("saving")
    # The baseline's own file is copied afterwards; a published one that transformers finds fault with
    # (a temperature without do_sample is common) must not keep the candidate from being saved.
    model.generation_config = GenerationConfig()
    model.save_pretrained(job["output"], save_compressed=True)
    worker_io.finish(counted | {"device": str(device)})


if __name__ == "__main__":
    main()
