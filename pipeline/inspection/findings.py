"""What a check finds: its name, how grave it is, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from pipeline.errors import Verdict


class Severity(StrEnum):
    """What a finding argues for, the gravest first."""

    FATAL = "fatal"
    """The artifact is broken: REJECT before anything is replayed."""
    PARITY = "parity"
    """Both sides would not be given the same task: INVALID."""
    WARNING = "warning"
    """Worth knowing; it decides nothing."""
    NOTE = "note"
    """What was not looked at, and why."""

    @property
    def verdict(self) -> Verdict | None:
        """What findings of this severity argue for; None where they decide nothing."""
        return {Severity.FATAL: Verdict.REJECT, Severity.PARITY: Verdict.INVALID}.get(self)


CHECKS: Mapping[str, tuple[Severity, str]] = MappingProxyType(
    {
        # --- files and headers
        "file-unreadable": (Severity.FATAL, "a JSON file of the candidate cannot be read"),
        "weights-damaged": (Severity.FATAL, "a weight file is cut short, overlaps itself or has no readable header"),
        "weights-index": (Severity.FATAL, "the index and the weight files name different tensors"),
        "weights-stray": (Severity.WARNING, "weight files that the index does not name"),
        "tensor-missing": (Severity.FATAL, "a tensor of the baseline is missing"),
        "tensor-unexpected": (Severity.WARNING, "a tensor that neither the baseline nor the scheme has"),
        "tensor-shape": (Severity.FATAL, "a weight has another shape than in the baseline"),
        "tied-embedding": (Severity.FATAL, "config and tensors disagree about the tied output head"),
        "size": (Severity.WARNING, "more than 10 % off the size that the declared scheme predicts"),
        # --- the declared scheme
        "scheme-unknown": (Severity.NOTE, "a quantization method or format that cannot be inspected"),
        "scheme-missing": (Severity.FATAL, "the config declares no quantization"),
        "scheme-dtype": (Severity.FATAL, "weights are stored in another type than the scheme declares"),
        "scheme-coverage": (Severity.FATAL, "a module is left that the scheme targets, or quantized that it ignores"),
        "scheme-fused": (Severity.FATAL, "layers that the engine fuses are quantized differently"),
        "recipe-coverage": (Severity.FATAL, "a module is left that the recipe targets, or quantized that it ignores"),
        "recipe-scheme": (Severity.FATAL, "a module has another scheme than the recipe gives it"),
        "recipe-kv-cache": (Severity.PARITY, "the KV cache is quantized otherwise than the recipe says"),
        "experts-partial": (Severity.FATAL, "some experts of a layer are quantized and others not, or are missing"),
        "protected-quantized": (Severity.WARNING, "embeddings, output head, norms, routers or vision are quantized"),
        # --- scales
        "scale-missing": (Severity.FATAL, "a quantized weight has no scale"),
        "scale-shape": (Severity.FATAL, "a scale has a shape that does not fit weight and strategy"),
        "scale-value": (Severity.FATAL, "scales that are NaN, infinite, zero or negative"),
        "zero-point-missing": (Severity.FATAL, "an asymmetric weight has no zero points"),
        "zero-point-range": (Severity.FATAL, "zero points outside the range of the type"),
        "group-index": (Severity.FATAL, "a group index that does not fit the weight"),
        "scale-fused": (Severity.WARNING, "scales differ among layers that the engine fuses to one scale"),
        "scale-kv-cache": (Severity.WARNING, "a KV cache scheme without usable scales"),
        # --- values
        "weight-nonfinite": (Severity.FATAL, "NaN or infinite weights"),
        "weight-deviates": (Severity.FATAL, "a dequantized weight is not the baseline's, beyond its rounding error"),
        "weight-rows": (Severity.FATAL, "parts of a weight are scaled wrongly"),
        "weight-altered": (Severity.FATAL, "an unquantized tensor is not the baseline's"),
        "smoothing-broken": (Severity.FATAL, "a norm or layer was rescaled and its consumers were not, or not all"),
        # --- hardware
        "group-divides": (Severity.FATAL, "the group size does not divide an input dimension, or its share of a GPU"),
        "kernel-missing": (Severity.FATAL, "the engine has no kernel for the scheme on a target GPU"),
        "kernel-fallback": (Severity.WARNING, "a target GPU serves the scheme by a slower kernel, or otherwise"),
        # --- tokenizer, template, configs
        "tokenizer-missing": (Severity.FATAL, "tokenizer files of the baseline are missing"),
        "tokenizer-truncates": (Severity.FATAL, "the tokenizer cuts or pads what it is given"),
        "tokenizer-ids": (Severity.PARITY, "the same text has other token ids"),
        "tokenizer-vocabulary": (Severity.PARITY, "vocabulary or added tokens differ, or do not fit the embedding"),
        "tokenizer-special": (Severity.PARITY, "special tokens or their handling differ"),
        "tokenizer-length": (Severity.PARITY, "the maximum length differs"),
        "template-missing": (Severity.FATAL, "the chat template was not saved"),
        "template-differs": (Severity.PARITY, "golden transcripts are rendered to other token ids"),
        "generation-eos": (Severity.FATAL, "an end-of-sequence id was lost"),
        "generation-differs": (Severity.PARITY, "generation settings differ"),
        "config-differs": (Severity.PARITY, "model settings that change the arithmetic differ"),
        "processor-missing": (Severity.FATAL, "processor files of the baseline are missing"),
        # --- the running server
        "server-log": (Severity.WARNING, "the server's log tells of a fallback, a missing scale or an ignored flag"),
        "server-canary": (Severity.FATAL, "a canary prompt is not answered with text"),
    }
)
"""Name of every check, with its usual severity and what it looks for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    :ivar check: a name of :data:`CHECKS`.
    :ivar where: file, module or tensor; the first of them where there are several.
    :ivar figures: the numbers behind ``text``.
    """

    check: str
    severity: Severity
    where: str
    text: str
    remedy: str
    figures: Mapping[str, float | int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise ValueError(f"no such check: {self.check}")

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "severity": self.severity.value, "figures": dict(self.figures)}


def finding(
    check: str,
    where: str,
    text: str,
    remedy: str,
    figures: Mapping[str, float | int | str] | None = None,
    *,
    severity: Severity | None = None,
) -> Finding:
    """A finding of the check's usual severity, or of another where a case is graver or milder."""
    return Finding(check, severity or CHECKS[check][0], where, text, remedy, figures or {})


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """In order of severity, then of name and place."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda f: (order.index(f.severity), list(CHECKS).index(f.check), f.where)))
