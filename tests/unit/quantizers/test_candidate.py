"""What is done to a candidate after the quantizer saved it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file
from tiny_llama import MakeCheckpoint, llama_tensors

from pipeline.errors import QuantizeError
from pipeline.quantizers.candidate import check, complete
from pipeline.quantizers.checkpoint import Checkpoint, read_checkpoint
from pipeline.quantizers.fit import FittedRecipe, fit_recipe
from pipeline.settings import Recipe

RECIPE = Recipe(name="r", description="", method="rtn", scheme="FP8_DYNAMIC")


@pytest.fixture
def baseline(make_checkpoint: MakeCheckpoint) -> Checkpoint:
    return read_checkpoint(make_checkpoint(config={"rope_theta": 5.0, "tie_word_embeddings": True}), "x")


def saved(folder: Path, modules: tuple[str, ...], config: object) -> Path:
    """A directory as the quantizer leaves it, with scales for ``modules``."""
    folder.mkdir()
    tensors = llama_tensors() | {f"{m}.weight_scale": numpy.zeros((1, 1), numpy.float16) for m in modules}
    save_file(tensors, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o600)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text('{"invented": 1}')
    (folder / "tokenizer.json").write_text('{"rewritten": 1}')
    return folder


@pytest.fixture
def fitted(baseline: Checkpoint) -> FittedRecipe:
    return fit_recipe(RECIPE, baseline)


def test_all_but_weights_and_quantization_is_the_baselines(baseline: Checkpoint, tmp_path: Path) -> None:
    made = {"quantization_config": {"quant_method": "q"}, "tie_word_embeddings": False, "rope_parameters": {}}
    folder = saved(tmp_path / "saved", (), made)
    complete(baseline, folder)
    assert json.loads((folder / "config.json").read_text()) == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "rope_theta": 5.0,
        "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "q"},
    }
    assert (folder / "tokenizer.json").read_text() == "{}"
    assert (folder / "chat_template.jinja").read_text() == baseline.template
    assert not (folder / "generation_config.json").exists()  # the baseline has none
    assert (folder / "model.safetensors").stat().st_mode == (folder / "config.json").stat().st_mode


@pytest.mark.parametrize("config", [{}, {"architectures": []}])
def test_a_config_without_quantization_is_no_candidate(baseline: Checkpoint, tmp_path: Path, config: object) -> None:
    with pytest.raises(QuantizeError, match="no quantization_config"):
        complete(baseline, saved(tmp_path / "saved", (), config))


def test_nothing_saved_is_no_candidate(baseline: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match=r"config\.json"):
        complete(baseline, tmp_path)


def test_modules_left_or_added_are_errors(fitted: FittedRecipe, tmp_path: Path) -> None:
    check(saved(tmp_path / "all", fitted.modules, {}), fitted)
    with pytest.raises(QuantizeError, match=r"of 14 modules to quantize 1 were left \(first: model\.layers\.0\.mlp"):
        check(saved(tmp_path / "fewer", fitted.modules[1:], {}), fitted)
    with pytest.raises(QuantizeError, match=r"1 others were quantized \(first: lm_head\)"):
        check(saved(tmp_path / "more", (*fitted.modules, "lm_head"), {}), fitted)
