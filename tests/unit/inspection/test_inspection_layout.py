"""Files, headers, coverage and hardware: every fault is named by its check."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import (
    CONFIG,
    HIDDEN,
    PROJECTIONS,
    SCHEMES,
    bf16,
    experts,
    fp8_channel,
    int4_group,
    int8_channel,
    llama,
    quantize,
    value,
    write,
)
from inspecting import Inspect, named

from pipeline.errors import ModelError, SettingsError
from pipeline.inspection import Hardware, Severity, inspect_artifact, load_hardware
from pipeline.inspection.tensors import read_header

Candidate = Callable[..., Path]
Q = "model.layers.1.self_attn.q_proj"
INDEX = "model.safetensors.index.json"


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 7, 100, -1])
def test_files_cut_short(inspect: Inspect, candidate: Candidate, left: int) -> None:
    folder = candidate()
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:left])
    assert "weights-damaged" in named(inspect(folder))


def rewritten(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a safetensors file, its data as it is."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def test_tensors_that_overlap_or_leave_gaps(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()

    def overlap(header: dict[str, Any]) -> None:
        other = header["model.embed_tokens.weight"]["data_offsets"]
        width = header[f"{Q}.weight_packed"]["data_offsets"]
        header[f"{Q}.weight_packed"]["data_offsets"] = [other[0], other[0] + width[1] - width[0]]

    rewritten(folder / "model.safetensors", overlap)
    assert "weights-damaged" in named(inspect(folder))


def test_a_header_with_the_wrong_type(candidate: Candidate) -> None:
    folder = candidate()
    rewritten(folder / "model.safetensors", lambda h: h["model.norm.weight"].update(dtype="F32"))
    tensors, faults = read_header(folder / "model.safetensors")
    assert "model.norm.weight" not in tensors
    assert any("F32 [128] does not take 256 bytes" in fault for fault in faults)


def test_a_missing_shard(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate(files=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    found = inspect(folder)
    assert named(found) == {"weights-index"} and "model-00002-of-00003" in found[0].text


def test_an_index_that_forgets_or_invents(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate(files=3)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["model.layers.9.extra"] = "model-00001-of-00003.safetensors"
    index["weight_map"].pop("model.norm.weight")
    (folder / INDEX).write_text(json.dumps(index))
    found = inspect(folder)
    assert named(found) == {"weights-index"} and len(found) == 2


def test_shards_of_an_earlier_upload(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate(files=3)
    shutil.copyfile(folder / "model-00001-of-00003.safetensors", folder / "model-00001-of-00002.safetensors")
    assert [(f.check, f.severity) for f in inspect(folder)] == [("weights-stray", Severity.WARNING)]


def test_a_shard_whose_tensors_are_gone_from_the_index_as_well(inspect: Inspect, candidate: Candidate) -> None:
    """A checkpoint that looks complete by itself: only the baseline tells that layers are missing."""
    made = {n: t for n, t in quantize(llama(), int4_group).items() if "layers.1.mlp" not in n}
    found = inspect(candidate("int4", made, files=2))
    assert {"tensor-missing", "size"} <= named(found)


def test_no_checkpoint_at_all(inspect: Inspect, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such directory"):
        inspect(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert {"file-unreadable", "weights-index", "scheme-missing"} <= named(inspect(tmp_path / "empty"))


def test_a_config_that_is_not_json(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate()
    (folder / "config.json").write_text("{")
    assert "file-unreadable" in named(inspect(folder))


# --- tensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["model.norm.weight", "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight"]
)
def test_missing_tensors(inspect: Inspect, candidate: Candidate, name: str) -> None:
    made = {n: t for n, t in quantize(llama(), int4_group).items() if n != name}
    assert "tensor-missing" in named(inspect(candidate("int4", made)))


def test_missing_biases(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    bias = {f"{Q}.bias": bf16(np.ones(HIDDEN))}
    beside = write(tmp_path / "biased", llama() | bias, CONFIG)
    assert named(inspect(candidate("int4"), beside)) == {"tensor-missing"}
    assert inspect(candidate("int4", quantize(llama(), int4_group) | bias), beside) == ()


def test_missing_prediction_layers_are_a_warning(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    extra = {
        "mtp.layers.0.mlp.up_proj.weight": bf16(np.ones((8, HIDDEN))),
        "model.layers.2.eh_proj.weight": bf16(np.ones((8, 8))),
    }
    beside = write(tmp_path / "mtp", llama() | extra, CONFIG)
    found = inspect(candidate("int4"), beside)
    assert ("tensor-missing", Severity.WARNING) in {(f.check, f.severity) for f in found}
    assert not any(f.check == "tensor-missing" and f.severity is Severity.FATAL for f in found)


def test_names_with_another_prefix(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), int4_group)
    renamed = {n.replace("model.", "model.language_model.model.", 1): t for n, t in made.items()}
    found = next(f for f in inspect(candidate("int4", renamed)) if f.check == "tensor-missing")
    assert "names begin with 'model.language_model.model.' instead of 'model.'" in found.text


def test_tensors_that_do_not_belong(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), int4_group)
    found = inspect(candidate("int4", made | {"model.layers.0.mlp.act_fn.extra": bf16(np.ones(4))}))
    assert [(f.check, f.severity) for f in found] == [("tensor-unexpected", Severity.WARNING)]
    both = made | {f"{Q}.weight": llama()[f"{Q}.weight"]}
    found = inspect(candidate("int4", both))
    assert ("tensor-unexpected", Severity.FATAL) in {(f.check, f.severity) for f in found}


def test_other_shapes(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), int4_group)
    resized = made | {"model.embed_tokens.weight": bf16(value(made["model.embed_tokens.weight"])[:300])}
    assert "tensor-shape" in named(inspect(candidate("int4", resized)))
    thinner = made | {f"{Q}.{part}": stored for part, stored in int4_group(value(llama()[f"{Q}.weight"])[:64]).items()}
    assert "tensor-shape" in named(inspect(candidate("int4", thinner)))
    lying = made | {f"{Q}.weight_shape": ("int64", np.array([HIDDEN, 64], np.int64))}
    assert "tensor-shape" in named(inspect(candidate("int4", lying)))


def test_tied_heads(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    tied = {"tie_word_embeddings": True}
    beside = write(tmp_path / "tied", llama(tied=True), {**CONFIG, **tied})
    plain = quantize(llama(tied=True), int4_group)
    embed = plain["model.embed_tokens.weight"]

    found = inspect(candidate("int4", plain, {"tie_word_embeddings": False}), beside)
    assert named(found) == {"tied-embedding"} and found[0].severity is Severity.FATAL

    twice = plain | {"lm_head.weight": embed}
    found = inspect(candidate("int4", twice, tied), beside)
    assert {(f.check, f.severity) for f in found} >= {("tied-embedding", Severity.WARNING)}

    other = plain | {"lm_head.weight": bf16(value(embed) + 1)}
    found = inspect(candidate("int4", other, tied), beside)
    assert {(f.check, f.severity) for f in found} >= {("tied-embedding", Severity.FATAL)}

    head = {f"lm_head.{part}": stored for part, stored in int4_group(value(embed)).items()}
    found = inspect(candidate("int4", plain | head, tied, {"ignore": []}), beside)
    assert "tied-embedding" in named(found)


def test_a_head_that_was_lost(inspect: Inspect, candidate: Candidate) -> None:
    made = {n: t for n, t in quantize(llama(), int4_group).items() if n != "lm_head.weight"}
    found = inspect(candidate("int4", made, {"tie_word_embeddings": True}))
    assert "tied-embedding" in named(found)


# --- coverage ----------------------------------------------------------------------------------


def test_modules_left_or_added(inspect: Inspect, candidate: Candidate) -> None:
    left = quantize(llama(), int4_group, [m for m in PROJECTIONS if "down" not in m])
    assert named(inspect(candidate("int4", left))) == {"scheme-coverage", "size"}
    assert "recipe-coverage" in named(inspect(candidate("int4", left), intended=PROJECTIONS))
    more = quantize(llama(), int4_group, [*PROJECTIONS, "lm_head"])
    assert {"scheme-coverage", "protected-quantized"} <= named(inspect(candidate("int4", more)))
    found = inspect(candidate("int4", declared={"ignore": ["lm_head", "re:.*down_proj$"]}))
    assert {"scheme-coverage", "size"} == named(found)


@pytest.mark.parametrize(
    ("bits", "wanted", "severity"),
    [
        (None, None, None),
        (8, "FP8", None),
        (8, None, Severity.PARITY),  # the engine would obey the config
        (None, "FP8", Severity.FATAL),
        (4, "FP8", Severity.FATAL),
    ],
)
def test_the_kv_cache_is_that_of_the_recipe(
    inspect: Inspect, candidate: Candidate, bits: int | None, wanted: str | None, severity: Severity | None
) -> None:
    scheme = bits and {"num_bits": bits, "type": "float", "strategy": "tensor", "dynamic": True}
    made = candidate("fp8", declared={"kv_cache_scheme": scheme})
    found = inspect(made, intended=PROJECTIONS, intended_kv_cache=wanted)
    assert [(f.check, f.severity) for f in found] == ([("recipe-kv-cache", severity)] if severity else [])
    assert inspect(made) == ()  # without a recipe there is nothing to hold it against


def test_nothing_was_quantized(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(candidate("int4", llama()))
    assert {"scheme-coverage", "size"} <= named(found)


def test_no_or_an_unknown_declaration(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate("int4")
    config = json.loads((folder / "config.json").read_text())
    kept = config.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(config))
    assert named(inspect(folder)) >= {"scheme-missing"}
    (folder / "config.json").write_text(
        json.dumps({**config, "quantization_config": {**kept, "format": "nvfp4-pack-quantized"}})
    )
    assert [(f.check, f.severity) for f in inspect(folder)] == [("scheme-unknown", Severity.NOTE)]


def test_a_declaration_in_a_file_of_its_own(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate("gptq")
    config = json.loads((folder / "config.json").read_text())
    declared = config.pop("quantization_config")
    declared.pop("quant_method")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "quantize_config.json").write_text(json.dumps(declared))
    assert inspect(folder) == ()


def test_joined_layers_quantized_differently(inspect: Inspect, candidate: Candidate) -> None:
    without_k = [m for m in PROJECTIONS if "k_proj" not in m]
    found = inspect(
        candidate("int4", quantize(llama(), int4_group, without_k), declared={"ignore": ["lm_head", "re:.*k_proj$"]})
    )
    assert named(found) == {"scheme-fused"}
    assert found[0].where == "model.layers.0.self_attn.q_proj/k_proj/v_proj"


def test_other_types_than_declared(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(candidate("fp8", quantize(llama(), int8_channel)))
    assert "scheme-dtype" in named(found)
    made = quantize(llama(), fp8_channel)
    plain = made | {f"{Q}.weight": llama()[f"{Q}.weight"]}  # scales, but 16-bit weights: saved uncompressed
    assert "scheme-dtype" in named(inspect(candidate("fp8", plain)))
    lost = {n: t for n, t in made.items() if n != f"{Q}.weight_scale"}
    assert "scheme-dtype" in named(inspect(candidate("fp8", lost)))


def test_experts(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    before = experts(llama())
    beside = write(tmp_path / "experts", before, CONFIG)
    modules = [n.removesuffix(".weight") for n in before if "_proj" in n]

    some = quantize(before, int4_group, [m for m in modules if "experts.3" not in m])
    found = inspect(candidate("int4", some), beside)
    assert "experts-partial" in named(found) and "scheme-coverage" not in named(found)

    none = quantize(before, int4_group, [m for m in modules if "experts" not in m])
    ignoring = {"ignore": ["lm_head", "re:.*experts.*", "re:.*gate$"]}
    found = inspect(candidate("int4", none, declared=ignoring), beside)
    assert [(f.check, f.severity) for f in found if f.check != "size"] == [("experts-partial", Severity.WARNING)]
    found = inspect(candidate("int4", none, declared=ignoring), beside, intended=modules)
    assert {("experts-partial", Severity.FATAL)} <= {(f.check, f.severity) for f in found}

    gone = {n: t for n, t in quantize(before, int4_group, modules).items() if "experts.3" not in n}
    assert {"experts-partial", "tensor-missing"} <= named(inspect(candidate("int4", gone), beside))

    router = quantize(before, int4_group, modules) | {
        f"model.layers.0.mlp.gate.{part}": stored
        for part, stored in int4_group(value(before["model.layers.0.mlp.gate.weight"])).items()
    }
    router.pop("model.layers.0.mlp.gate.weight")
    found = inspect(candidate("int4", router), beside)
    assert [(f.check, f.severity) for f in found] == [("protected-quantized", Severity.WARNING)]


# --- hardware ----------------------------------------------------------------------------------


def targets(*names: str, share: int = 1) -> Hardware:
    """The shipped table with other targets."""
    return load_hardware().model_copy(update={"targets": list(names), "tensor_parallel_size": share})


# Limits from vLLM's documentation: "FP8 computation is supported on NVIDIA GPUs with compute capability >= 8.9 ... will
# run on compute capability >= 7.5 as weight-only W8A16"; "INT8 is not supported on compute capability >= 10.0".
@pytest.mark.parametrize(
    ("scheme", "gpu", "wanted"),
    [
        ("fp8", "h100", set()),
        ("fp8", "l4", set()),
        ("fp8", "b200", set()),
        ("fp8", "a100-80", {"kernel-fallback"}),
        ("fp8", "t4", {"kernel-fallback"}),
        ("int8", "t4", set()),
        ("int8", "h100", set()),
        ("int8", "b200", {"kernel-missing"}),
        ("int8", "rtx-5090", {"kernel-missing"}),
        ("int4", "t4", set()),
        ("int4", "b200", set()),
        ("awq", "t4", set()),
        ("gptq", "rtx-5090", set()),
    ],
)
def test_kernels_by_gpu(candidate: Candidate, baseline: Path, scheme: str, gpu: str, wanted: set[str]) -> None:
    assert named(inspect_artifact(candidate(scheme), baseline, hardware_targets=targets(gpu))) == wanted


def test_declarations_that_the_engine_refuses(inspect: Inspect, candidate: Candidate) -> None:
    assert "kernel-missing" in named(inspect(candidate("gptq", declared={"sym": False})))
    assert "kernel-missing" in named(inspect(candidate("int4", declared={"sparsity_config": {"targets": ["Linear"]}})))


def test_shares_of_several_gpus(candidate: Candidate, baseline: Path) -> None:
    """o_proj has 128 input columns: with 8 GPUs each gets 16, half a group of 32; down_proj has 256."""
    found = inspect_artifact(candidate("int4"), baseline, hardware_targets=targets("h100", share=8))
    assert named(found) == {"group-divides"} and "o_proj" in found[0].where
    assert inspect_artifact(candidate("int4"), baseline, hardware_targets=targets("h100", share=4)) == ()
    blocks = inspect_artifact(candidate("fp8-block"), baseline, hardware_targets=targets("h100", share=8))
    assert named(blocks) == {"group-divides"} and len(blocks) == 2


def test_groups_that_do_not_divide(inspect: Inspect, candidate: Candidate) -> None:
    groups = json.loads(json.dumps(SCHEMES["int4"][1]["config_groups"]))
    groups["group_0"]["weights"]["group_size"] = 96
    found = inspect(candidate("int4", declared={"config_groups": groups}))
    assert {"group-divides", "kernel-missing"} <= named(found)


def test_a_target_without_a_capability(tmp_path: Path) -> None:
    text = Path("configs/hardware.yaml").read_text(encoding="utf-8").replace("targets: [h100]", "targets: [h100x]")
    (tmp_path / "hardware.yaml").write_text(text)
    with pytest.raises(SettingsError, match="'h100x' is not under gpus"):
        load_hardware(tmp_path / "hardware.yaml")
    text = text.replace("targets: [h100x]", "targets: [mi300x]")
    (tmp_path / "hardware.yaml").write_text(text)
    with pytest.raises(SettingsError, match="'mi300x' has no NVIDIA compute capability"):
        load_hardware(tmp_path / "hardware.yaml")
