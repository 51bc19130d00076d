"""Checks of ``config.json``, ``generation_config.json`` and processor files: both sides are run alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ModelError
from pipeline.inspection.artifact import Artifact, listed, read_json
from pipeline.inspection.findings import Finding, Severity, finding

COPY = "Copy the file from the baseline; quantizing changes nothing in it."
_IGNORED = re.compile(
    r"^(quantization_config|compression_config|_name_or_path|transformers_version|torch_dtype|dtype|use_cache|"
    r"tie_word_embeddings|id2label|label2id|auto_map|_\w+|(bos|eos|pad)_token_id|rope_\w+|output_\w+)$"
)
"""Keys that say nothing about the arithmetic, or that other checks read."""
_NEEDED = re.compile(
    r"^(architectures|model_type|\w*hidden_size|intermediate_size|num_\w+|head_dim|vocab_size|max_position_embeddings|"
    r"sliding_window|layer_types|rms_norm_eps|layer_norm_eps\w*|hidden_act|\w*softcapping|attention_multiplier|"
    r"logits_scaling|embedding_multiplier|residual_multiplier)$"
)
"""Keys whose loss changes the model: an engine would take its default."""
_SAMPLING = {
    **{"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
    **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "max_new_tokens": None},
}
"""Sampling settings that the engine takes from a checkpoint, with what it does without (``ModelConfig`` of vLLM)."""
_ALIASES = {"su": "longrope"}
"""Older names of a RoPE kind."""
_PROCESSORS = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "image_processor_config.json",
    "feature_extractor_config.json",
)


def model_config(artifact: Artifact) -> Iterator[Finding]:
    """Architecture, sizes, positions, RoPE and the like are the baseline's."""
    before, after = _flat(artifact.baseline_config), _flat(artifact.config)
    differing = []
    for key in sorted(before.keys() | after.keys()):
        name = key.rpartition(".")[2]
        if _IGNORED.match(name):
            continue
        if key in before and key in after:
            if before[key] != after[key]:
                differing.append(f"{key}: {after[key]!r} instead of {before[key]!r}")
        elif key in before and _NEEDED.match(name) and before[key] is not None:
            differing.append(f"{key}: missing, {before[key]!r} in the baseline")
    differing += [f"rope: {d}" for d in _rope_differences(artifact.baseline_config, artifact.config)]
    if differing:
        yield finding(
            "config-differs",
            "config.json",
            f"{len(differing)} settings differ from the baseline's: {listed(differing)}",
            "Take the baseline's config.json and add quantization_config alone.",
            {"count": len(differing)},
        )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with those of ``text_config`` and the like by their path."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and key.endswith("_config") and key != "quantization_config":
            flat |= {f"{key}.{inner}": setting for inner, setting in value.items()}
        else:
            flat[key] = value
    return flat


def _rope_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    first, second = rope(before), rope(after)
    keys = sorted(first.keys() | second.keys())
    return [
        f"{key}: {second.get(key)!r} instead of {first.get(key)!r}" for key in keys if first.get(key) != second.get(key)
    ]


def rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """RoPE's settings in one form: of ``rope_theta``, ``rope_scaling`` (transformers 4), ``rope_parameters`` (5)."""
    inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    config = {**config, **(inner or {})}
    settings: dict[str, Any] = {}
    if config.get("rope_theta") is not None:
        settings["rope_theta"] = config["rope_theta"]
    for part in ("rope_scaling", "rope_parameters"):
        if isinstance(config.get(part), dict):
            settings |= {key: value for key, value in config[part].items() if value is not None}
    kind = settings.pop("type", None)
    kind = settings.pop("rope_type", None) or kind or "default"
    settings["rope_type"] = _ALIASES.get(str(kind), kind)
    if settings["rope_type"] == "default":
        settings.pop("factor", None)
    return settings


# --- generation --------------------------------------------------------------------------------


def generation(artifact: Artifact) -> Iterator[Finding]:
    """The ids that end a reply, and the sampling defaults, are the baseline's."""
    name = "generation_config.json"
    before, after = read_json(artifact.baseline / name), read_json(artifact.candidate / name)
    had, has = end_ids(before, artifact.baseline_config), end_ids(after, artifact.config)
    if had is None and has is None:
        yield finding(
            "generation-eos",
            name,
            "neither side names an end-of-sequence id: replies end by the tokenizer's alone",
            "Name eos_token_id in generation_config.json.",
            severity=Severity.NOTE,
        )
    if lost := sorted((had or set()) - (has or set())):
        yield finding(
            "generation-eos",
            name,
            f"end-of-sequence ids {lost} of the baseline were lost: replies may never end",
            COPY,
            {"lost": len(lost)},
        )
    differing = []
    if more := sorted((has or set()) - (had or set())):
        differing.append(f"end-of-sequence ids {more} were added")
    for key, default in _SAMPLING.items():
        first, second = (default if value in (None, -1) else value for value in (before.get(key), after.get(key)))
        if first != second:
            differing.append(f"{key}: {second!r} instead of {first!r}")
    if differing:
        missing = " (the file is missing)" if before and not after else ""
        yield finding("generation-differs", name, f"generation settings differ{missing}: {'; '.join(differing)}", COPY)


def end_ids(generation_config: Mapping[str, Any], config: Mapping[str, Any]) -> set[int] | None:
    """The ids that end a reply: of ``generation_config.json``, else of ``config.json``; None where neither says.

    :raises ModelError: what stands there is neither an id nor a list of them.
    """
    for source in (generation_config, config, config.get("text_config") or {}):
        value = source.get("eos_token_id")
        if value is not None:
            ids = value if isinstance(value, list) else [value]
            if not all(isinstance(n, int) for n in ids):
                raise ModelError(f"eos_token_id is {value!r}: neither an id nor a list of ids", COPY)
            return set(ids)
    return None


def processors(artifact: Artifact) -> Iterator[Finding]:
    """Processor files of the baseline are there, with the same settings."""
    for name in _PROCESSORS:
        if not (artifact.baseline / name).is_file():
            continue
        if not (artifact.candidate / name).is_file():
            yield finding("processor-missing", name, f"{name} of the baseline is missing", COPY)
            continue
        before, after = _settings(artifact.baseline / name), _settings(artifact.candidate / name)
        keys = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
        if keys:
            yield finding(
                "processor-missing",
                name,
                f"settings of {name} differ: {listed(keys)}",
                COPY,
                {"count": len(keys)},
                severity=Severity.PARITY,
            )


def _settings(path: Path) -> dict[str, Any]:
    return {k: v for k, v in read_json(path).items() if not k.startswith("_") and k != "transformers_version"}
