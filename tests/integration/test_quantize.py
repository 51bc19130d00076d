"""Real quantizing of a tiny random llama, in the quantize environment."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from pipeline import environments
from pipeline.errors import EnvironmentMissing, QuantizeError
from pipeline.golden import GoldenSet
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import SIDE_PATTERNS, Checkpoint, read_checkpoint, side_files, tensors, weight_files
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import Calibration, EightBit, Recipe, load_recipe
from pipeline.stages import inspect, quantize
from pipeline.store import Store

TEMPLATE = Path(__file__).parents[2] / "examples" / "demo_model" / "chat_template.jinja"
GOLDEN = GoldenSet("none", "none", "0", 0, 0, (), {})
LAYERS, HIDDEN, INNER = 2, 256, 384  # keys and values have half of 256: groups and blocks of 128 fit everywhere
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


def small(name: str, **changes: object) -> Recipe:
    """A shipped recipe with as much calibration text as a test has."""
    recipe = load_recipe(name)
    few = Calibration(samples=4, max_tokens=200, search_samples=2)
    return recipe.model_copy(update={"calibration": few if recipe.calibration else None, **changes})


# What compressed-tensors writes for a linear layer, by its format documentation: FP8 weights and one scale a
# row, a tensor or a block; INT8 likewise; INT4 packed eight to an int32, with scales by group and the unpacked shape,
# and packed zero points where it is not symmetric. AutoAWQ's names are its own.
FP8 = {("weight", "F8_E4M3"), ("weight_scale", "BF16")}
INT4 = {("weight_packed", "I32"), ("weight_scale", "BF16"), ("weight_shape", "I64")}
INT8 = {("weight", "I8"), ("weight_scale", "BF16")}
ZEROS = {("weight_zero_point", "I32")}
KINDS = {
    "fp8-dynamic": FP8,
    "fp8-static": FP8 | {("input_scale", "BF16")},
    "fp8-block": FP8,
    "fp8-dynamic+fp8-kv": FP8,
    "int4-rtn": INT4,
    "int4-gptq": INT4,
    "int4-awq": INT4 | ZEROS,
    "int4-awq-sym": INT4,
    "int4-awq+fp8-kv": INT4 | ZEROS,
    "int4-mixed": INT4 | INT8,
    "int4-autoawq": {("qweight", "I32"), ("qzeros", "I32"), ("scales", "F16")},
    "int8-w8a8": INT8,
}
RECIPES = {name: small(name) for name in KINDS if name != "int4-mixed"}
RECIPES["int4-mixed"] = small("int4-mixed", eight_bit=EightBit(layers=1))


@pytest.mark.parametrize("kind", KINDS)
def test_candidate_is_quantized_as_asked_and_complete(
    kind: str, python: Path, baseline: Checkpoint, calibration_root: Path, tmp_path: Path
) -> None:
    recipe, store = RECIPES[kind], Store(tmp_path)
    kept, candidate = quantize.run(store, baseline, recipe, calibration_root, GOLDEN, Silent())

    held = list(tensors(candidate.path))
    quantized = [t for t in held if ".layers." in t.name and "_proj." in t.name]
    assert {(t.name.rpartition(".")[2], t.dtype) for t in quantized} == KINDS[kind]
    scales = "scales" if kind == "int4-autoawq" else "weight_scale"
    assert Counter(t.name.rpartition(".")[2] for t in quantized)[scales] == PROJECTIONS
    assert {t.dtype for t in held if t not in quantized} == {"BF16"}
    cache_scales = {t.name for t in held if t.name.endswith(("k_scale", "v_scale"))}
    assert len(cache_scales) == (2 * LAYERS if recipe.kv_cache else 0)
    if recipe.int4 and recipe.backend == "llmcompressor" and not recipe.eight_bit:
        scale = next(t for t in held if t.name == "model.layers.0.mlp.down_proj.weight_scale")
        assert scale.shape == (HIDDEN, INNER // 128)

    # Complete: every file beside the weights is the baseline's, byte for byte, but for config.json.
    for file in side_files(baseline.path):
        if file.name != "config.json":
            assert (candidate.path / file.name).read_bytes() == file.read_bytes(), file.name
    assert {f.name for f in side_files(candidate.path)} == {f.name for f in side_files(baseline.path)}
    before = json.loads((baseline.path / "config.json").read_text())
    after = json.loads((candidate.path / "config.json").read_text())
    method = "awq" if kind == "int4-autoawq" else "compressed-tensors"
    assert after.pop("quantization_config")["quant_method"] == method
    assert after == before

    # No false alarm: what the inspection reads is what the quantizer wrote.
    options = {"golden": GOLDEN, "recipe": recipe, "template_override": None, "progress": Silent()}
    assert inspect.look(candidate.path, baseline, **options) == ()

    # The prediction is of tensors; the file adds a header.
    predicted = fit_recipe(recipe, baseline).predicted_bytes
    headers = sum(int.from_bytes(f.read_bytes()[:8], "little") + 8 for f in weight_files(candidate.path))
    assert candidate.weight_bytes == predicted + headers

    again, same = quantize.run(store, baseline, recipe, calibration_root, GOLDEN, Silent())
    assert again.reused
    assert (again.path, same.digest) == (kept.path, candidate.digest)
    facts = json.loads((kept.path / "facts.json").read_text())
    if recipe.eight_bit:
        layers = {name.rpartition(".self_attn")[0] or name.rpartition(".mlp")[0] for name in facts["eight_bit_modules"]}
        assert layers == {max(facts["layer_divergences"], key=facts["layer_divergences"].__getitem__)}
        assert {t.name.removesuffix(".weight") for t in held if t.dtype == "I8"} == set(facts["eight_bit_modules"])
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
    _, candidate = quantize.run(Store(tmp_path / "store"), given, RECIPES["fp8-dynamic"], tmp_path, GOLDEN, Silent())
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
        quantize.run(store, read_checkpoint(broken, "x"), RECIPES["fp8-dynamic"], tmp_path, GOLDEN, Silent())
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
