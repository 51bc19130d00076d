"""Reading checkpoints: what is refused and why, and what the digest covers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file
from tiny_llama import MakeCheckpoint, llama_tensors

from pipeline.errors import ModelError
from pipeline.quantizers import checkpoint as module
from pipeline.quantizers.checkpoint import DigestCache, own_template, read_checkpoint, read_template, tensors


def test_facts_of_a_sound_checkpoint(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    facts = read_checkpoint(folder, "given", "rev")
    assert (facts.source, facts.revision, facts.architecture) == ("given", "rev", "LlamaForCausalLM")
    assert facts.weight_bytes == os.path.getsize(folder / "model.safetensors")  # noqa: PTH202 - another way
    assert facts.template == "{{ messages }}"


def test_sharded_checkpoint_is_read_through_its_index(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    (folder / "model.safetensors").unlink()
    everything = llama_tensors()
    names = sorted(everything)
    parts = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for part, held in parts.items():
        save_file({name: everything[name] for name in held}, folder / part)
    index = {"weight_map": {name: part for part, held in parts.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    save_file({"extra": numpy.zeros(9)}, folder / "consolidated.safetensors")

    assert sorted(t.name for t in tensors(folder)) == names
    both = sum((folder / part).stat().st_size for part in parts)
    assert read_checkpoint(folder, "x").weight_bytes == both

    (folder / "b.safetensors").unlink()
    with pytest.raises(ModelError, match=r"1 of 2 weight files are missing, first b\.safetensors"):
        read_checkpoint(folder, "x")


def test_index_cannot_point_outside(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    index = {"weight_map": {"w": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="outside the checkpoint"):
        read_checkpoint(folder, "x")


def test_no_chat_template_is_refused_with_the_way_out(make_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = make_checkpoint(template=None)
    with pytest.raises(ModelError, match="no chat template") as raised:
        read_checkpoint(folder, "x")
    assert "chat_template:" in raised.value.remedy
    override = tmp_path / "mine.jinja"
    override.write_text("mine")
    assert read_checkpoint(folder, "x", template_override=read_template(override)).template == "mine"
    with pytest.raises(ModelError, match=r"absent\.jinja"):
        read_template(tmp_path / "absent.jinja")


def test_a_template_that_is_not_text_is_refused(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe{{")
    with pytest.raises(ModelError, match=r"chat_template\.jinja: unreadable: 'utf-8'"):
        read_checkpoint(folder, "x")


def test_a_config_nested_without_end_is_refused(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    (folder / "config.json").write_text("[" * 200_000)
    with pytest.raises(ModelError, match=r"config\.json: unreadable: "):
        read_checkpoint(folder, "x")


def test_template_of_the_tokenizer_config(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint(template=None)
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": "plain"}))
    assert own_template(folder) == "plain"
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    config.write_text(json.dumps({"chat_template": named}))
    assert own_template(folder) == "t"
    (folder / "chat_template.jinja").write_text("file")
    assert own_template(folder) == "file"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quantization_config": {"quant_method": "awq"}}, r"already quantized \(awq\)"),
        ({"architectures": ["Qwen2VLForConditionalGeneration"]}, "not a text-only causal language model"),
        ({"architectures": []}, "unknown"),
    ],
)
def test_configs_that_cannot_be_a_baseline(
    make_checkpoint: MakeCheckpoint, config: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_checkpoint(make_checkpoint(config=config), "x")


def test_integer_weights_are_no_baseline_whatever_the_config_says(make_checkpoint: MakeCheckpoint) -> None:
    packed = {"model.layers.0.mlp.up_proj.weight": numpy.zeros((4, 4), numpy.int8)}
    with pytest.raises(ModelError, match=r"not in full precision: model\.layers\.0\.mlp\.up_proj\.weight is I8"):
        read_checkpoint(make_checkpoint(tensors=packed), "x")


def test_a_candidate_must_say_how_it_is_quantized(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(ModelError, match="no quantization_config"):
        read_checkpoint(make_checkpoint("plain"), "x", quantized=True)
    config = {"quantization_config": {"quant_method": "compressed-tensors"}}
    assert read_checkpoint(make_checkpoint("made", config=config), "x", quantized=True).weight_bytes > 0


def test_pickled_weights_are_refused(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickled weights only") as raised:
        read_checkpoint(folder, "x")
    assert "safe_serialization" in raised.value.remedy


def test_an_adapter_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="LoRA adapter"):
        read_checkpoint(tmp_path, "x")


def test_cut_weights_are_refused(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="unreadable weights"):
        read_checkpoint(folder, "x")


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_damaged_or_missing_parts(make_checkpoint: MakeCheckpoint, name: str) -> None:
    folder = make_checkpoint()
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name.removesuffix(".json")):
        read_checkpoint(folder, "x")


def test_digest_covers_what_changes_answers_and_nothing_else(make_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = make_checkpoint()
    digest = read_checkpoint(folder, "x").digest
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "README.md").write_text("words")
    (copy / "stage.json").write_text("{}")
    assert read_checkpoint(copy, "elsewhere").digest == digest
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        before = read_checkpoint(copy, "x").digest
        (copy / name).write_text('{"changed": 1}')
        assert read_checkpoint(copy, "x").digest != before, name
    before = read_checkpoint(copy, "x").digest
    changed = llama_tensors()
    changed["model.norm.weight"][0] = 1
    save_file(changed, copy / "model.safetensors")
    assert read_checkpoint(copy, "x").digest != before


def test_large_files_are_hashed_once_until_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED_FROM_BYTES", 4)
    read: list[Path] = []

    def counting(path: Path) -> str:
        read.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(module, "file_digest", counting)
    file, cache = tmp_path / "big", DigestCache(tmp_path / "store" / "digests.json")
    file.write_bytes(b"12345678")
    first = cache.digest(file)
    assert cache.digest(file) == DigestCache(tmp_path / "store" / "digests.json").digest(file) == first
    assert len(read) == 1
    kept = file.stat()
    file.write_bytes(b"87654321")  # same size
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # and, as a copy tool may leave it, same mtime
    assert cache.digest(file) == hashlib.sha256(b"87654321").hexdigest()
    (tmp_path / "store" / "digests.json").write_text("{damaged")
    assert cache.digest(file) == hashlib.sha256(b"87654321").hexdigest()


def test_digests_that_cannot_be_kept_are_only_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED_FROM_BYTES", 1)
    (tmp_path / "taken").touch()
    weights = tmp_path / "w"
    weights.write_bytes(b"12")
    cache = DigestCache(tmp_path / "taken" / "digests.json")
    assert cache.digest(weights) == hashlib.sha256(b"12").hexdigest()
