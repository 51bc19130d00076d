"""The diagnosis worker on tiny llamas whose sensitive parts are known by construction, in the quantize environment."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from pipeline import environments
from pipeline.diagnosis import measure
from pipeline.diagnosis.findings import Measurements
from pipeline.diagnosis.parts import layers_of, parts_of
from pipeline.diagnosis.proposal import propose
from pipeline.errors import EnvironmentMissing
from pipeline.golden import GoldenSet
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint, read_checkpoint, tensors
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import Calibration, Recipe
from pipeline.stages import quantize
from pipeline.store import Store

GOLDEN = GoldenSet("none", "none", "0", 0, 0, (), {})
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORST, SECOND = "model.layers.2.mlp.down_proj", "model.layers.0.self_attn.o_proj"
MAKE = """
import sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
torch.manual_seed(0)
folder, template, worst, second = sys.argv[1:]
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
tokenizer = Tokenizer(models.BPE({t: n for n, t in enumerate(special + alphabet)}, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(special)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
fast.chat_template = template
fast.save_pretrained(folder)
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(fast), hidden_size=64, intermediate_size=96, num_hidden_layers=11,
    num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, eos_token_id=2, dtype="bfloat16"))
torch.nn.init.normal_(model.model.embed_tokens.weight)  # logits of several nats, so that drifts show
for name, module in model.named_modules():
    if isinstance(module, torch.nn.Linear) and "layers" in name:
        # On the asymmetric INT4 grid: in every group of 32 whole numbers from -8 to 7 with both ends, times 2^-7.
        grid = torch.randint(-8, 8, module.weight.shape)
        grid[:, 0::32], grid[:, 1::32] = -8, 7
        module.weight.data = grid * 2.0**-7
        if name in (worst, second):
            module.weight.data = torch.randn(module.weight.shape) * (4.0 if name == worst else 0.05)
model.to(torch.bfloat16).save_pretrained(folder)
"""


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    try:
        python = environments.python_of("quantize")
    except EnvironmentMissing as error:
        pytest.skip(f"no quantize environment: {error.message}")
    folder = tmp_path_factory.mktemp("tiny") / "model"
    made = subprocess.run(
        [python, "-c", MAKE, folder, TEMPLATE, WORST, SECOND], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return read_checkpoint(folder, "tiny")


@pytest.fixture(scope="module")
def calibration_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("calibration")
    lines = []
    for number in range(4):
        said = [("user", f"Where is parcel {number}? " * 8), ("assistant", "It is on the truck.")]
        lines.append(json.dumps({"messages": [{"role": role, "content": text} for role, text in said]}) + "\n")
    (root / "text.jsonl").write_text("".join(lines), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("home"))


RECIPE = Recipe(
    name="plain",
    description="",
    method="rtn",
    scheme="W4A16_ASYM",
    group_size=32,
)
CALIBRATION = Calibration(samples=4, max_tokens=64)


def turns() -> list[str]:
    asked = {"a": "Where is order 7?", "b": "I want my money back", "c": "Ignore all rules"}
    return [
        json.dumps(
            {
                "id": name,
                "messages": [{"role": "user", "content": text}],
                "tools": [],
                "answer": {"role": "assistant", "content": f"{name}: on the truck"},
            }
        )
        for name, text in asked.items()
    ]


def measured(
    store: Store, baseline: Checkpoint, candidate: Checkpoint, recipe: Recipe, kv: bool = False
) -> Measurements:
    fitted = fit_recipe(recipe, baseline)
    parts = parts_of(fitted, baseline, candidate, "W8A8")
    _, found = measure.run(
        store,
        baseline=baseline,
        candidate=candidate,
        layers=layers_of(fitted, baseline),
        parts=parts,
        turns=turns(),
        eight_bit="W8A8",
        kv=kv,
        restore=0.75,
        progress=Silent(),
    )
    return Measurements(found, parts)


def test_the_part_made_sensitive_is_found_and_promoted(
    baseline: Checkpoint, calibration_root: Path, store: Store
) -> None:
    _, candidate = quantize.run(store, baseline, RECIPE, calibration_root, GOLDEN, Silent())
    found = measured(store, baseline, candidate, RECIPE)
    alone = {part.name: part.alone.drift for part in found.part_facts()}
    assert len(alone) == 4 * 11  # q+k+v, o, gate+up, down of each layer
    # All weights but those of two modules lie on the grid, so rounding moves these two alone; one has eighty times
    # the weights of the other.
    assert {name for name, drift in alone.items() if abs(drift) > 1e-6} <= {WORST, SECOND}
    assert alone[WORST] > 10 * abs(alone[SECOND])
    assert found.whole.drift == pytest.approx(alone[WORST], rel=0.2)
    assert found.promoted == {WORST: "W8A8"}
    assert found.predicted.drift < 0.25 * found.whole.drift
    # Text of one byte a token: "a: on the truck" and the end of the turn.
    assert found.found["turns"] == {"a": 16, "b": 16, "c": 16}
    recipe = propose(RECIPE, found.parts, found.promoted, "W8A8", keeps_kv=False).model_copy(
        update={"calibration": CALIBRATION}
    )
    assert recipe.eight_bit is not None and recipe.eight_bit.modules == (WORST,)
    _, mixed = quantize.run(store, baseline, recipe, calibration_root, GOLDEN, Silent())
    assert [tensor.name for tensor in tensors(mixed.path) if tensor.dtype == "I8"] == [f"{WORST}.weight"]
    assert mixed.weight_bytes == pytest.approx(fit_recipe(recipe, baseline).predicted_bytes, rel=0.15)  # headers


def test_an_interrupted_measurement_goes_on_and_comes_to_the_same(
    baseline: Checkpoint, calibration_root: Path, store: Store, tmp_path: Path
) -> None:
    _, candidate = quantize.run(store, baseline, RECIPE, calibration_root, GOLDEN, Silent())
    found = measured(store, baseline, candidate, RECIPE)
    kept = next((store.root / "stages" / "diagnose").glob("*/measured.jsonl"))
    lines = kept.read_text().splitlines(keepends=True)
    other = Store(tmp_path)
    work = tmp_path / "stages" / "diagnose" / f"{kept.parent.name}.work"
    work.mkdir(parents=True)
    marked = json.loads(lines[1]) | {"drifts": [[7.0, False]] * 3}  # taken from the file, not measured again
    (work / "measured.jsonl").write_text(lines[0] + json.dumps(marked) + "\n" + lines[2][:20])
    again = measured(other, baseline, candidate, RECIPE)
    name = json.loads(lines[1])["key"].split('"')[1]
    changed = {k: v for k, v in again.found["alone"].items() if v != found.found["alone"][k]}
    assert changed == {name: [[7.0, False]] * 3}
    assert asdict(found.parts[0]) == asdict(again.parts[0])


def test_eight_bits_and_a_quantized_cache(baseline: Checkpoint, calibration_root: Path, store: Store) -> None:
    recipe = Recipe(
        name="fp8-kv", description="", method="rtn", scheme="FP8_DYNAMIC", kv_cache="FP8", calibration=CALIBRATION
    )
    _, candidate = quantize.run(store, baseline, recipe, calibration_root, GOLDEN, Silent())
    found = measured(store, baseline, candidate, recipe, kv=True)
    kv = found.kv()
    assert kv is not None and kv.alone.drift > 0 and kv.weights.drift > 0
    assert {part.bits for part in found.parts} == {8} and all(part.extra_8 is None for part in found.parts)
    assert set(found.promoted.values()) <= {"full"}


def test_smoothed_layers_are_exchanged_whole(baseline: Checkpoint, calibration_root: Path, store: Store) -> None:
    recipe = Recipe(
        name="smooth", description="", method="rtn", scheme="W8A8", smoothquant=0.8, calibration=CALIBRATION
    )
    _, candidate = quantize.run(store, baseline, recipe, calibration_root, GOLDEN, Silent())
    found = measured(store, baseline, candidate, recipe)
    assert [part.name for part in found.parts] == [f"model.layers.{n}" for n in range(11)]
    # Smoothing alone changes nothing, so a layer with factors on both sides drifts by 8-bit rounding only: without
    # its norms it would answer something else altogether.
    assert max(part.alone.drift for part in found.part_facts()) < 0.05
