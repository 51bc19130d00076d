"""A diagnosis in words and figures, shared by its reports."""

from __future__ import annotations

from pipeline.reporting import words
from pipeline.reporting.diagnosis.facts import DiagnosisRecord, Measured, PartFacts

FULL = "full"
SHOWN = 12
"""Parts, layers and slices that the short tables show."""


def drift(value: float) -> str:
    """Nats a token with three significant digits."""
    return f"{value:.3g}"


def percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def same(measured: Measured, record: DiagnosisRecord) -> str:
    """Turns on which every token stays the baseline's: ``3 of 12``."""
    return f"{measured.same_words} of {len(record.turns)}"


def level(part: PartFacts) -> str:
    """What the proposal makes of a part."""
    return {None: "", FULL: "16 bits"}.get(part.promoted_to, f"8 bits ({part.promoted_to})")


def headline(record: DiagnosisRecord) -> str:
    """Where the drift comes from, in a sentence."""
    if record.whole.drift == 0 or not record.parts:
        return "The candidate's weights answer as the baseline's do: what was lost has another cause."
    layer, of_layer = next(iter(record.by_layer().items()))
    kind, of_kind = next(iter(record.by_kind().items()))
    worst = record.worst[0]
    text = f"{worst.name} hurts most ({percent(record.share([worst]))} of what all parts cause alone)"
    if not record.smoothed:
        text += f"; layer {layer} causes {percent(record.share(of_layer))}, {kind} {percent(record.share(of_kind))}"
    return f"{text}."


def cause(record: DiagnosisRecord) -> str:
    """KV cache or weights."""
    if record.kv is None:
        return "The weights: this recipe leaves the KV cache as it is served on both sides."
    alone, weights = record.kv.alone.drift, record.kv.weights.drift
    more, less = ("KV cache", "weights") if alone > weights else ("weights", "KV cache")
    high, low = drift(max(alone, weights)), drift(min(alone, weights))
    kept = "keeps" if record.kv.kept else "gives up"
    return f"The {more} more than the {less}: {high} against {low} nats a token; the proposal {kept} the FP8 cache."


def proposed(record: DiagnosisRecord) -> str:
    """The proposal in a sentence, or why there is none."""
    found = record.proposal
    if found is None:
        return record.no_proposal
    full = sum(part.promoted_to == FULL for part in record.promoted)
    eight = len(record.promoted) - full
    levels = [f"{count} at {bits} bits" for count, bits in ((eight, 8), (full, 16)) if count] or ["none promoted"]
    left = percent(found.predicted.drift / record.whole.drift) if record.whole.drift else "0 %"
    return (
        f"{found.name}: of {len(record.parts)} parts {', '.join(levels)}; weights {words.size(found.weight_bytes)} "
        f"(candidate {words.size(record.candidate_bytes)}, baseline {words.size(record.baseline_bytes)}); "
        f"{left} of the drift left, every token the baseline's on {same(found.predicted, record)} lost turns "
        f"(candidate {same(record.whole, record)})."
    )


def next_step(record: DiagnosisRecord) -> str:
    """What to do now."""
    tried = record.tried
    if tried is not None:
        return f"The gate says {tried.verdict} of the proposal: {tried.why}"
    if record.proposal is None:
        return record.no_proposal
    return "Gate the proposal: the same command with --run. Only the gate can say whether it may ship."


def notes(record: DiagnosisRecord) -> list[str]:
    """What a reader must know beside the figures."""
    lines = [
        f"Measured on {len(record.turns)} of {record.lost} lost turns, {sum(turn.tokens for turn in record.turns)} "
        f"tokens of the baseline's own replies forced; the baseline itself would choose "
        f"{percent(record.agreement)} of them."
    ]
    if record.smoothed:
        lines.append("Factors were moved between modules of a layer, so whole layers were exchanged.")
    if record.proposal is not None and record.proposal.recipe["method"] == "gptq":
        lines.append(
            "The proposal rounds its INT4 part by GPTQ, whatever made the candidate; the drift shown for it is that "
            "of the candidate's own INT4 weights."
        )
    if record.proposal is not None:
        lines.append(
            "The proposal was chosen on turns that judge it. After k tries the chance of accepting one with a loss "
            "beyond a margin is k x alpha; confirm the last on other turns (docs/ladder.md)."
        )
    return lines
