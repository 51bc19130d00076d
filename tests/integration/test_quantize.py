"""Real quantizing of a tiny random llama, in the quantize environment."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from pipeline import environments
from pipeline.errors import EnvironmentMissing, QuantizeError
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import SIDE_PATTERNS, Checkpoint, read_checkpoint, side_files, tensors, weight_files
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import Calibration, Recipe, load_recipe
from pipeline.stages import quantize
from pipeline.store import Store

TEMPLATE = Path(__file__).parents[2] / "examples" / "demo_model" / "chat_template.jinja"
LAYERS, HIDDEN, INNER = 2, 128, 192  # 128 = 64 * 2 and 192 = 64 * 3: a group of 64 fits
PROJECTIONS = 7 * LAYERS
MAKE = """
import sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
torch.manual_seed(0)
folder, layers, hidden, inner = sys.argv[1], *map(int, sys.argv[2:5])
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
tokenizer = Tokenizer(models.BPE({t: n for n, t in enumerate(special + alphabet)}, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(special)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
fast.chat_template = open(sys.argv[5]).read()
fast.save_pretrained(folder)
config = LlamaConfig(vocab_size=len(fast), hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=True,
    rope_theta=12345.0, bos_token_id=1, eos_token_id=2, dtype="bfloat16")
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
"""


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return environments.python_of("quantize")
    except EnvironmentMissing as error:
        pytest.skip(f"no quantize environment: {error.message}")


@pytest.fixture(scope="module")
def baseline(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    arguments = [str(folder), str(LAYERS), str(HIDDEN), str(INNER), str(TEMPLATE)]
    made = subprocess.run([python, "-c", MAKE, *arguments], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2000:]
    # Keys that an old transformers reads and a new one drops must survive quantizing.
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rope_theta": 12345.0, "torch_dtype": "bfloat16"}))
    (folder / "generation_config.json").write_text('{"eos_token_id": 2, "temperature": 0.5}')
    return read_checkpoint(folder, "tiny")


@pytest.fixture(scope="module")
def calibration_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("calibration")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    lines = [
        {
            "messages": [
                {"role": "user", "content": f"Where is order {n}? " * 20},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "{}"},
                {"role": "assistant", "content": f"It is on truck {n * 7}."},
            ],
            "tools": [tool],
        }
        for n in range(6)
    ]
    (root / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def gptq(scheme: str, **more: object) -> Recipe:
    calibration = Calibration(samples=4, max_tokens=200)
    facts = {"name": "t", "description": "", "method": "gptq", "scheme": scheme, "calibration": calibration}
    return Recipe.model_validate(facts | more)


# What compressed-tensors writes for a linear layer, by its format documentation: FP8 weights and one scale a
# row; INT8 likewise; INT4 packed eight to an int32, with scales by group and the unpacked shape.
KINDS = {
    "fp8-dynamic": {("weight", "F8_E4M3"), ("weight_scale", "BF16")},
    "int4-rtn": {("weight_packed", "I32"), ("weight_scale", "BF16"), ("weight_shape", "I64")},
    "int4-gptq": {("weight_packed", "I32"), ("weight_scale", "BF16"), ("weight_shape", "I64")},
    "int8-w8a8": {("weight", "I8"), ("weight_scale", "BF16")},
}
RECIPES = {
    "fp8-dynamic": load_recipe("fp8-dynamic"),
    "int4-rtn": load_recipe("int4-rtn"),
    "int4-gptq": gptq("W4A16", group_size="auto"),
    "int8-w8a8": gptq("W8A8", smoothquant=0.8),
}


@pytest.mark.parametrize("kind", KINDS)
def test_candidate_is_quantized_as_asked_and_complete(
    kind: str, python: Path, baseline: Checkpoint, calibration_root: Path, tmp_path: Path
) -> None:
    recipe, store = RECIPES[kind], Store(tmp_path)
    kept, candidate = quantize.run(store, baseline, recipe, calibration_root, Silent())

    held = list(tensors(candidate.path))
    quantized = [t for t in held if ".layers." in t.name and "_proj." in t.name]
    assert {(t.name.rpartition(".")[2], t.dtype) for t in quantized} == KINDS[kind]
    assert Counter(t.name.rpartition(".")[2] for t in quantized)["weight_scale"] == PROJECTIONS
    assert {t.dtype for t in held if t not in quantized} == {"BF16"}
    if recipe.scheme == "W4A16":
        scale = next(t for t in held if t.name == "model.layers.0.mlp.down_proj.weight_scale")
        assert scale.shape == (HIDDEN, INNER // 64)

    # Complete: every file beside the weights is the baseline's, byte for byte, but for config.json.
    for file in side_files(baseline.path):
        if file.name != "config.json":
            assert (candidate.path / file.name).read_bytes() == file.read_bytes(), file.name
    assert {f.name for f in side_files(candidate.path)} == {f.name for f in side_files(baseline.path)}
    before = json.loads((baseline.path / "config.json").read_text())
    after = json.loads((candidate.path / "config.json").read_text())
    assert after.pop("quantization_config")["quant_method"] == "compressed-tensors"
    assert after == before

    # The prediction is of tensors; the file adds a header.
    predicted = fit_recipe(recipe, baseline).predicted_bytes
    headers = sum(int.from_bytes(f.read_bytes()[:8], "little") + 8 for f in weight_files(candidate.path))
    assert candidate.weight_bytes == predicted + headers

    again, same = quantize.run(store, baseline, recipe, calibration_root, Silent())
    assert again.reused
    assert (again.path, same.digest) == (kept.path, candidate.digest)
    facts = json.loads((kept.path / "facts.json").read_text())
    if recipe.calibration:
        assert facts["calibration_samples"] == 4
        assert facts["calibration_tokens"] == 4 * 200  # each conversation is longer than 200 bytes
    else:
        assert "calibration_samples" not in facts


def test_a_checkpoint_that_has_its_template_from_the_settings(
    python: Path, baseline: Checkpoint, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in [*side_files(baseline.path), *weight_files(baseline.path)]:
        if file.name != "chat_template.jinja":
            (bare / file.name).write_bytes(file.read_bytes())
    given = read_checkpoint(bare, "bare", template_override="{{ messages }}")
    _, candidate = quantize.run(Store(tmp_path / "store"), given, RECIPES["fp8-dynamic"], tmp_path, Silent())
    assert candidate.template == "{{ messages }}"
    assert not (candidate.path / "chat_template.jinja").exists()


def test_a_failed_worker_leaves_no_output(python: Path, baseline: Checkpoint, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in [*side_files(baseline.path), *weight_files(baseline.path)]:
        (broken / file.name).write_bytes(file.read_bytes())
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"model_type": "no_such_type"}))
    store = Store(tmp_path / "store")
    with pytest.raises(QuantizeError, match="no_such_type"):
        quantize.run(store, read_checkpoint(broken, "x"), RECIPES["fp8-dynamic"], tmp_path, Silent())
    assert [p.suffix for p in (tmp_path / "store" / "stages" / "quantize").iterdir() if p.is_dir()] == []


RENDER = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
case = json.loads(sys.argv[2])
print(json.dumps(tokenizer.apply_chat_template(**case, tokenize=True, return_dict=False)))
print(json.dumps(tokenizer(sys.argv[3], add_special_tokens=False)["input_ids"]))
"""


def test_transformers_renders_the_demo_template_to_the_same_tokens(python: Path, baseline: Checkpoint) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"q": "é<"}}}
    case = {
        "conversation": [
            {"role": "system", "content": "P."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "{}"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "D",
                    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
                },
            }
        ],
        "add_generation_prompt": True,
    }
    expected = (
        "<|im_start|>system\nP.\n\n<tools>\nf(q: string): D\n</tools>\n"
        'To call a tool: <tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\nHi<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {"q": "é<"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    shown = subprocess.run(
        [python, "-c", RENDER, str(baseline.path), json.dumps(case), expected],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr[-2000:]
    rendered, plain = map(json.loads, shown.stdout.splitlines()[-2:])
    assert rendered == plain
    assert len(plain) > 100


def test_patterns_cover_what_transformers_saves(baseline: Checkpoint) -> None:
    saved = {f.name for f in baseline.path.iterdir()} - {"model.safetensors"}
    assert saved == {f.name for f in side_files(baseline.path)}, SIDE_PATTERNS
