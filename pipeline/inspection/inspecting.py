"""Runs every check on a candidate and its baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluators.turn import Turn
from pipeline.errors import ModelError
from pipeline.inspection import configs, counterparts, coverage, hardware, layout, scales, templates, tokens, values
from pipeline.inspection.artifact import QUANTIZED_PARTS, Artifact, own_linear, read_json, split_experts
from pipeline.inspection.counterparts import Counterpart
from pipeline.inspection.findings import Finding, Severity, finding, gravest_first
from pipeline.inspection.hardware import Hardware
from pipeline.inspection.schemes import Declared, Scheme, UnknownScheme, read_declared
from pipeline.inspection.tensors import Tensors
from pipeline.progress import Progress, Silent
from pipeline.quantizers.checkpoint import weight_files

STAGE = "inspect"
FETCH = "Fetch or copy the checkpoint again."
AMEND = "Correct quantization_config."


def inspect_artifact(
    candidate: Path,
    baseline: Path,
    *,
    hardware_targets: Hardware,
    turns: Sequence[Turn] = (),
    intended: Iterable[str] | None = None,
    intended_schemes: Iterable[Scheme] | None = None,
    intended_kv_cache: str | None = None,
    rounded: bool = False,
    template_override: str | None = None,
    progress: Progress | None = None,
    weights: bool = True,
) -> tuple[Finding, ...]:
    """Everything that is wrong with a candidate, the gravest first.

    Reads both checkpoints once; nothing is loaded whole and nothing is run but chat templates, sandboxed.

    :param turns: golden turns, whose prompts must come out equal.
    :param intended: modules that the recipe was to quantize, where a recipe is known.
    :param intended_schemes: the schemes that it was to give them.
    :param intended_kv_cache: the type that it was to give the KV cache, if any.
    :param rounded: whether that recipe rounds to the nearest value and does nothing else.
    :param template_override: text of the chat template that the serving settings name.
    :param weights: hold the weights against the baseline's. False where those are not the same weights in 16 bits, or
        the candidate may be unquantized: then its own scales and declaration are looked at, where it has any, and the
        baseline says which tensors there are, of which shapes and about how large.
    :raises ModelError: there is no such candidate, or the *baseline* cannot be read.
    """
    if not candidate.is_dir():
        raise ModelError(f"candidate {candidate}: no such directory", "Give the directory that holds config.json.")
    found: list[Finding] = []
    config = _guarded(found, lambda: read_json(candidate / "config.json"), {})
    if not config and not found:
        found.append(finding("file-unreadable", "config.json", "there is no config.json, or it is empty", FETCH))
    files = _guarded(found, lambda: weight_files(candidate), [], "weights-index")
    with Tensors(files) as mine, Tensors(weight_files(baseline)) as theirs:
        packed = any(name.rpartition(".")[2] in QUANTIZED_PARTS for name in mine)
        declared = _declared(found, candidate, config, demanded=weights or packed)
        split_experts(theirs, mine)
        artifact = Artifact(
            candidate,
            baseline,
            config,
            read_json(baseline / "config.json"),
            mine,
            theirs,
            declared,
            None if intended is None else frozenset(intended),
            None if intended_schemes is None else frozenset(intended_schemes),
            intended_kv_cache,
            rounded,
        )
        texts = [str(message.get("content") or "") for turn in turns for message in turn.messages]
        if files and weights:
            _extend(found, _weights(artifact, hardware_targets, progress or Silent()))
        elif files:
            _extend(found, _own_weights(artifact, hardware_targets, progress or Silent()))
        _extend(found, configs.model_config(artifact))
        _extend(found, configs.generation(artifact))
        _extend(found, configs.processors(artifact))
        _extend(found, tokens.tokenizer_files(artifact))
        _extend(found, tokens.special_tokens(artifact))
        _extend(found, tokens.token_ids(artifact, texts))
        _extend(found, templates.chat_template(artifact, turns, template_override))
    return gravest_first(found)


def _weights(artifact: Artifact, targets: Hardware, progress: Progress) -> Iterator[Finding]:
    damage = list(layout.files(artifact.tensors, artifact.candidate))
    yield from damage
    yield from layout.tensors_present(artifact)
    yield from layout.shapes(artifact)
    yield from layout.size(artifact)
    yield from coverage.intended_modules(artifact)
    yield from coverage.intended_schemes(artifact)
    yield from coverage.intended_kv_cache(artifact)
    yield from _declaration(artifact, targets)
    if any(found.check == "weights-damaged" for found in damage):
        return  # the rest reads what the headers promise
    yield from layout.tied_head(artifact)
    yield from scales.fused_scales(artifact)
    yield from scales.kv_cache_scales(artifact)
    yield from values.values(artifact, lambda done, total: progress.advance(STAGE, done, total))


def _own_weights(artifact: Artifact, targets: Hardware, progress: Progress) -> Iterator[Finding]:
    """What a candidate's files show by themselves and beside a baseline of other weights."""
    damage = list(layout.files(artifact.tensors, artifact.candidate))
    yield from damage
    if any(found.check == "weights-damaged" for found in damage):
        return  # the rest reads what the headers promise
    split_experts(artifact.tensors, artifact.baseline_tensors)
    artifact = replace(artifact)
    artifact = replace(artifact, own=own_linear(artifact))
    alone = _alone(artifact)
    yield from counterparts.tensors(artifact, alone)
    yield from _declaration(artifact, targets)
    yield from layout.tied_head(artifact)
    yield from scales.fused_scales(artifact)
    yield from scales.kv_cache_scales(artifact)
    yield from counterparts.sizes(artifact, alone, lambda done, total: progress.advance(STAGE, done, total))


def _alone(artifact: Artifact) -> Counterpart:
    """The baseline by its own declaration; what is wrong with that is no fault of the candidate's."""
    unread: list[Finding] = []
    declared = _declared(unread, artifact.baseline, dict(artifact.baseline_config), demanded=False)
    return counterparts.alone(artifact, declared, readable=not unread)


def _declaration(artifact: Artifact, targets: Hardware) -> Iterator[Finding]:
    """What is quantized is what the config declares, alike where the engine joins layers, and can be served."""
    yield from coverage.declared_modules(artifact)
    yield from coverage.experts(artifact)
    yield from coverage.protected(artifact)
    yield from coverage.fused(artifact)
    yield from coverage.dtypes(artifact)
    yield from hardware.kernels(artifact, targets)
    yield from hardware.groups(artifact, targets)


def _declared(found: list[Finding], candidate: Path, config: dict[str, Any], *, demanded: bool) -> Declared | None:
    """What the candidate declares: in its config, or in the files that older tools wrote.

    :param demanded: that it declares nothing is a finding.
    """
    said = config.get("quantization_config") or config.get("compression_config")
    for name in ("quantize_config.json", "quant_config.json"):
        if said is None and (candidate / name).is_file():
            said = _guarded(found, lambda name=name: read_json(candidate / name), {})  # type: ignore[misc]
            said.setdefault("quant_method", "gptq" if name == "quantize_config.json" else "awq")
    if not said and not demanded:
        return None
    if not said:
        text = "config.json declares no quantization: the engine would read the weights as unquantized"
        found.append(finding("scheme-missing", "config.json", text, "Save the quantized model with its config."))
        return None
    if not isinstance(said, dict):
        text = f"quantization_config is {said!r}, not a JSON object"
        found.append(finding("scheme-unknown", "config.json", text, AMEND, severity=Severity.FATAL))
        return None
    try:
        declared = read_declared(said)
    except UnknownScheme as unknown:
        text = f"{unknown} is not known here: scales and values were not looked at"
        found.append(
            finding("scheme-unknown", "config.json", text, "Rely on the replays, or extend pipeline/inspection.")
        )
        return None
    if declared.transformed:
        text = "weights were rotated (transform_config): they were not compared with the baseline's"
        found.append(finding("scheme-unknown", "config.json", text, "Rely on the replays."))
    return declared


def _extend(found: list[Finding], check: Iterator[Finding]) -> None:
    """Add what a check finds; a file of the candidate that it cannot read is a finding too."""
    try:
        found.extend(check)
    except ModelError as error:
        found.append(finding("file-unreadable", "checkpoint", error.message, error.remedy or FETCH))
    except UnknownScheme as error:
        found.append(finding("scheme-unknown", "config.json", f"{error}", AMEND, severity=Severity.FATAL))


def _guarded(found: list[Finding], read: Callable[[], Any], default: Any, check: str = "file-unreadable") -> Any:
    try:
        return read()
    except ModelError as error:
        found.append(finding(check, "checkpoint", error.message, error.remedy))
        return default
