"""Checks by headers: whole files, tensors of the baseline there, the output head as declared, size as predicted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.inspection.artifact import (
    SCHEME_PARTS,
    Artifact,
    embedding,
    head,
    read_json,
    several,
)
from pipeline.inspection.findings import Finding, Severity, finding
from pipeline.inspection.schemes import Scheme
from pipeline.inspection.tensors import Stored, Tensors
from pipeline.quantizers.checkpoint import INDEX

AGAIN = "Save or copy the checkpoint again, and compare file sizes with the source."
SIZE_TOLERANCE = 0.10
_DERIVED = re.compile(r"(rotary_emb\.inv_freq|\.masked_bias|\.attn\.bias)$")
"""Buffers that old checkpoints hold and engines compute themselves."""
_EXTRA_LAYERS = re.compile(r"(^|\.)mtp(\.|_)|(^|\.)nextn")
BLOCK_ROWS = 4096


def files(tensors: Tensors, folder: Path) -> Iterator[Finding]:
    """Weight files against their own headers, against the index, and against each other."""
    for file, faults in tensors.faults.items():
        if faults:
            rest = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            yield finding("weights-damaged", file.name, f"{faults[0]}{rest}", AGAIN, {"faults": len(faults)})
    twice = sorted(name for name, copies in tensors.copies.items() if len(copies) > 1)
    yield from several(
        "weights-index", twice, f"{len(twice)} tensors lie in two files", "Keep one set of weight files."
    )
    stray = sorted({file.name for file in folder.glob("*.safetensors")} - {file.name for file in tensors.faults})
    yield from several(
        "weights-stray",
        stray,
        f"{len(stray)} weight files are not named by the index; an engine may load them as well",
        "Remove what is left of an earlier upload.",
    )
    index = read_json(folder / INDEX).get("weight_map")
    if index:
        unnamed, absent = sorted(tensors.keys() - index.keys()), sorted(index.keys() - tensors.keys())
        moved = sorted(n for n in index.keys() & tensors.keys() if tensors[n].file.name != index[n])
        for names, what in (
            (absent, "are in the index, but in no file"),
            (unnamed, "are in files, but not in the index"),
            (moved, "are in another file than the index says"),
        ):
            yield from several("weights-index", names, f"{len(names)} tensors {what}", AGAIN)


def tensors_present(artifact: Artifact) -> Iterator[Finding]:
    """Every tensor of the baseline is there, as it was or quantized, and nothing else is."""
    missing: list[str] = []
    extra_layers: list[str] = []
    for name, tensor in artifact.baseline_tensors.items():
        module = name.rpartition(".")[0]
        if name in artifact.tensors or _DERIVED.search(name):
            continue
        if name.endswith(".weight") and artifact.quantized(module):
            continue
        if module == head(artifact.baseline_tensors):
            continue  # tied_head() tells whether it may be missing
        (extra_layers if extra_layer(artifact, name) else missing).append(tensor.name)
    yield from several(
        "tensor-missing",
        missing,
        f"{len(missing)} of {len(artifact.baseline_tensors)} tensors of the baseline are missing{_renamed(artifact)}",
        "Save the checkpoint again; check that no shard was left out and that module names were not rewritten.",
    )
    yield from several(
        "tensor-missing",
        extra_layers,
        f"{len(extra_layers)} tensors of multi-token prediction layers are missing: no speculative decoding with them",
        "Copy them from the baseline, with the quantizer's option for it.",
        severity=Severity.WARNING,
    )
    made = {f"{module}.{part}" for module in artifact.modules for part in SCHEME_PARTS}
    unexpected = [
        name
        for name in artifact.tensors
        if name not in artifact.baseline_tensors
        and name not in made
        and not _DERIVED.search(name)
        and name.rpartition(".")[0] != head(artifact.tensors)
    ]
    yield from several(
        "tensor-unexpected",
        unexpected,
        f"{len(unexpected)} tensors that neither the baseline nor the scheme has",
        "Find out which step added them; an engine ignores them or refuses to load.",
    )
    both = [
        m for m, parts in artifact.modules.items() if "weight" in parts and {"weight_packed", "qweight"} & set(parts)
    ]
    yield from several(
        "tensor-unexpected",
        both,
        f"{len(both)} modules hold their weight both packed and unpacked",
        "Save the compressed model only.",
        severity=Severity.FATAL,
    )


def extra_layer(artifact: Artifact, name: str) -> bool:
    """Whether a tensor belongs to the layers for multi-token prediction."""
    layer = re.search(r"(?:^|\.)layers\.(\d+)\.", name)
    depth = artifact.baseline_config.get("num_hidden_layers")
    beyond = layer is not None and isinstance(depth, int) and int(layer[1]) >= depth
    return beyond or bool(_EXTRA_LAYERS.search(name))


def _renamed(artifact: Artifact) -> str:
    """How the candidate's names differ, where all of them do in the same way."""
    first = next((name for name in artifact.baseline_tensors if re.search(r"(^|\.)layers\.0\.", name)), None)
    if first is None:
        return ""
    end = first[re.search(r"layers\.0\.", first).start() :]  # type: ignore[union-attr]
    other = next((name for name in artifact.tensors if name.endswith(end) and name != first), None)
    if other is None or first in artifact.tensors:
        return ""
    return f" (names begin with {other.removesuffix(end)!r} instead of {first.removesuffix(end)!r})"


def shapes(artifact: Artifact) -> Iterator[Finding]:
    """Unquantized tensors have the baseline's shape; quantized ones are looked at with their scales."""
    differing = {
        name: tensor
        for name, tensor in artifact.tensors.items()
        if name in artifact.baseline_tensors and tensor.shape != artifact.baseline_tensors[name].shape
    }
    if differing:
        first = min(differing)
        was, is_now = artifact.baseline_tensors[first].shape, differing[first].shape
        yield from several(
            "tensor-shape",
            list(differing),
            f"{len(differing)} tensors have another shape than in the baseline, the first {list(is_now)} "
            f"instead of {list(was)}",
            "Give the baseline that this candidate was made from; embeddings must not have been resized.",
        )


def tied_head(artifact: Artifact) -> Iterator[Finding]:
    """Config and tensors agree about an output head of its own."""
    stored, embed = head(artifact.tensors), embedding(artifact.tensors)
    if not artifact.tied(artifact.config):
        if stored is None:
            yield finding(
                "tied-embedding",
                "config.json",
                "the output head is declared to have a weight of its own, but none is stored: "
                "the engine would use uninitialized memory",
                "Set tie_word_embeddings: true if the baseline ties it, or save lm_head.weight.",
            )
        return
    if stored is None and not artifact.tied(artifact.baseline_config):
        yield finding(
            "tied-embedding",
            "config.json",
            "the baseline has an output head of its own; the candidate ties it to the embedding and stores none",
            "Save lm_head.weight and set tie_word_embeddings: false.",
        )
    if stored is None or embed is None:
        return
    if artifact.quantized(stored) or artifact.quantized(embed):
        if artifact.quantized(stored) != artifact.quantized(embed) or stored not in artifact.modules:
            which = stored if artifact.quantized(stored) else embed
            yield finding(
                "tied-embedding",
                which,
                f"{which} is quantized, though config.json ties the output head to the embedding",
                "Ignore lm_head when quantizing, or untie the two (tie_word_embeddings: false) first.",
            )
        return
    names = f"{stored}.weight", f"{embed}.weight"
    if any(name not in artifact.tensors for name in names):
        return
    if not _equal(artifact.tensors, *names):
        yield finding(
            "tied-embedding",
            stored,
            "config.json ties the output head to the embedding, but a different one is stored",
            "Set tie_word_embeddings: false if the head is meant to differ, else remove it.",
        )
    else:
        size = artifact.tensors[names[0]].bytes
        yield finding(
            "tied-embedding",
            stored,
            f"the tied output head is stored a second time ({size / 1e6:.0f} MB)",
            "Remove it from the weight files.",
            {"bytes": size},
            severity=Severity.WARNING,
        )


def _equal(tensors: Tensors, first: str, second: str) -> bool:
    one, other = tensors[first], tensors[second]
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    rows = range(0, one.shape[0], BLOCK_ROWS)
    spans = ((row, min(row + BLOCK_ROWS, one.shape[0])) for row in rows)
    return all(np.array_equal(tensors.rows(first, *span), tensors.rows(second, *span)) for span in spans)


def size(artifact: Artifact) -> Iterator[Finding]:
    """Stored bytes against those that the declared scheme predicts for the baseline's tensors."""
    if artifact.declared is None:
        return
    untied = head(artifact.tensors) is not None
    predicted = 0
    for name, tensor in artifact.baseline_tensors.items():
        module = name.removesuffix(".weight")
        scheme = artifact.scheme_of(module) if module in artifact.linear else None
        if module == head(artifact.baseline_tensors) and not untied:
            continue
        predicted += tensor.bytes if scheme is None else _bytes(tensor, scheme)
    if untied and head(artifact.baseline_tensors) is None:
        embed = embedding(artifact.baseline_tensors)
        predicted += artifact.baseline_tensors[f"{embed}.weight"].bytes if embed else 0
    stored = sum(tensor.bytes for tensor in artifact.tensors.values())
    share = stored / predicted - 1
    if abs(share) > SIZE_TOLERANCE:
        yield finding(
            "size",
            str(artifact.candidate.name),
            f"the weights take {stored / 1e6:.0f} MB, {abs(share):.0%} {'more' if share > 0 else 'less'} than the "
            f"{predicted / 1e6:.0f} MB that the declared scheme predicts",
            "Look for modules left unquantized, tensors stored twice, or tensors left out.",
            {"stored_bytes": stored, "predicted_bytes": predicted},
        )


def _bytes(tensor: Stored, scheme: Scheme) -> int:
    """Stored bytes of a quantized weight, with scales of two bytes and zero points of its own width."""
    rows, columns = tensor.shape
    if scheme.block:
        scales = -(-rows // scheme.block[0]) * -(-columns // scheme.block[1])
    else:
        scales = 1 if scheme.whole else rows * -(-columns // (scheme.group or columns))
    zeros = 0 if scheme.symmetric and scheme.layout != "gptq" else scales * scheme.bits // 8
    return tensor.elements * scheme.bits // 8 + scales * 2 + zeros
