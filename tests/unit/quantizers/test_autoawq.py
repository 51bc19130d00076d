"""What AutoAWQ's old transformers is told about a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_llama import MakeCheckpoint

from pipeline.errors import RecipeError
from pipeline.progress import Silent
from pipeline.quantizers import autoawq
from pipeline.quantizers.autoawq import in_old_words, tokenizer_in_old_words
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import load_recipe

# Names: LlamaConfig of transformers 4.51 (rope_theta, rope_scaling, torch_dtype) and 5 (rope_parameters, dtype).


def test_new_names_are_told_by_the_old_ones_too() -> None:
    new = {"dtype": "bfloat16", "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}
    assert in_old_words(new) == new | {"torch_dtype": "bfloat16", "rope_theta": 5e5}


def test_scaled_rotary_embeddings() -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    told = in_old_words({"rope_parameters": {"rope_theta": 5e5, **scaling}})
    assert told["rope_theta"] == 5e5
    assert told["rope_scaling"] == scaling


def test_an_old_config_stays_as_it_is() -> None:
    old = {"torch_dtype": "float16", "rope_theta": 1e4, "rope_scaling": None}
    assert in_old_words(old) == old


def test_embeddings_that_differ_by_layer_cannot_be_told() -> None:
    with pytest.raises(RecipeError, match="differ by kind of layer") as raised:
        in_old_words({"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {}}})
    assert "int4-awq" in raised.value.remedy


def test_the_tokenizer_is_told_by_its_old_class() -> None:
    """Transformers 5 calls PreTrainedTokenizerFast TokenizersBackend, and lists what 4.51 kept by name."""
    new = {"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<a>"], "eos_token": "</s>"}
    assert tokenizer_in_old_words(new) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "additional_special_tokens": ["<a>"],
        "eos_token": "</s>",
    }
    old = {"tokenizer_class": "LlamaTokenizer", "extra_special_tokens": {"image": "<i>"}}
    assert tokenizer_in_old_words(old) == old


def test_the_worker_reads_links_and_leaves_nothing(
    make_checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_checkpoint(config={"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}})
    baseline = read_checkpoint(folder, "x")
    fitted = fit_recipe(load_recipe("int4-autoawq"), baseline)
    seen: dict[str, object] = {}

    def worker(script: str, job: dict[str, object], **more: object) -> dict[str, object]:
        view = Path(str(job["checkpoint"]))
        seen.update(job, config=json.loads((view / "config.json").read_text()))
        assert (view / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
        assert (view / "tokenizer.json").exists()
        return {"made": True}

    monkeypatch.setattr(autoawq, "run_worker", worker)
    output = tmp_path / "output"
    output.mkdir()
    samples = output / "calibration.jsonl"
    made = autoawq.quantize(baseline, fitted, samples, output, python=Path("python"), progress=Silent())
    assert made == {"made": True}
    assert seen["config"]["rope_theta"] == 7.0  # type: ignore[index]
    assert "rope_theta" not in json.loads((folder / "config.json").read_text())
    assert seen["group_size"] == 64  # divides 192 and 320
    assert seen["search_samples"] == 4
    assert list(output.iterdir()) == []
