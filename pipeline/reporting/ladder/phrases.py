"""A ladder in words and figures, shared by its reports."""

from __future__ import annotations

from pipeline.errors import Verdict
from pipeline.reporting import words
from pipeline.reporting.ladder.facts import Candidate, Judgement, LadderRecord, State


def headline(record: LadderRecord) -> str:
    """What the ladder came to, in a sentence."""
    choice = record.choice
    if choice is None or choice.judgement is None:
        return {
            Verdict.INCONCLUSIVE: "No candidate is proved good enough yet.",
            Verdict.REJECT: "Every candidate that could be judged is rejected.",
            Verdict.INVALID: "No candidate could be judged.",
        }[record.verdict]
    return f"{choice.recipe} is the smallest candidate that passes: {change(choice, choice.judgement)}."


def change(candidate: Candidate, judged: Judgement) -> str:
    """Weights before and after: ``269.1 MB -> 113.0 MB (-58.0 %)``."""
    before, after = judged.baseline_weight_bytes, candidate.weight_bytes
    if not before or after is None:
        return f"weights {words.NOT_KNOWN}"
    return f"weights {words.size(before)} -> {words.size(after)} ({saved(candidate, judged)} %)"


def saved(candidate: Candidate, judged: Judgement) -> str:
    """Change of the weight bytes in percent: ``-58.0``."""
    size = candidate.weight_bytes
    if not judged.baseline_weight_bytes or size is None:
        return words.NOT_KNOWN
    return f"{100 * (size / judged.baseline_weight_bytes - 1):+.1f}"


def made_in(judged: Judgement | None) -> str:
    """How long quantizing took: ``83 s``."""
    return "" if judged is None or judged.quantize_s is None else f"{judged.quantize_s:.0f} s"


def drift(judged: Judgement | None) -> str:
    """Mean divergence of next tokens, nats: ``0.0106``."""
    return "" if judged is None or judged.drift is None else f"{judged.drift:.4f}"


def speed(judged: Judgement | None) -> str:
    """Speed as a share of the baseline's: ``1.31``."""
    return "" if judged is None or judged.speed is None else f"{judged.speed:.2f}"


def notes(record: LadderRecord) -> list[str]:
    """What a reader must know beside the table, in the order of its weight."""
    lines = [line for candidate in record.candidates if (line := _note(candidate))]
    lines += error(record)
    if any(judged.replayed and not judged.speed_representative for judged in record.judgements):
        lines.append("Speed was not representative on this machine: nothing here says how fast a candidate is.")
    return lines


def error(record: LadderRecord) -> list[str]:
    """The chance that the chosen candidate is bad: what was declared, and which rule bounds it."""
    bound = record.error
    if bound is None:
        return []
    alpha, most = f"{100 * bound.alpha:g} %", f"{100 * bound.bound:.3g} %"
    family = f"{bound.candidates} candidates were declared, each judged on the same turns at {alpha}"
    if bound.candidates == 1:
        family = f"One candidate was declared, judged at {alpha}"
    why = {
        "boole": f"the chance that one with a loss beyond a margin is chosen is at most {bound.candidates} x {alpha} = "
        f"{most} (Boole). A confirmation on other turns lowers it (confirm, in the ladder's file)",
        "fixed_sequence": f"all judged before the chosen one passed too, so the chance that it has a loss beyond a "
        f"margin stays at most {most} (fixed-sequence testing)",
        "confirmed": f"the chosen one passed on other turns as well, so the chance that it has a loss beyond a margin "
        f"is at most {bound.candidates} x {alpha} x {alpha} = {most}",
    }[bound.basis]
    return [f"{family}: {why}."]


def next_step(record: LadderRecord) -> str:
    """What to do now."""
    if record.choice is not None:
        return "Read its own report, which says what to do next; the others stay on record."
    for verdict in (Verdict.INCONCLUSIVE, Verdict.REJECT, Verdict.INVALID):
        for candidate in record.candidates:
            if candidate.verdict is verdict and candidate.judgement is not None:
                return f"{candidate.recipe}: {candidate.judgement.next_step}"
    return "Mend what the candidates failed by, and run again: what is complete is reused."


def _note(candidate: Candidate) -> str:
    if candidate.state is not State.JUDGED:
        return f"{candidate.recipe} {candidate.state}: {candidate.note}"
    confirmation = candidate.confirmation
    if confirmation is None:
        return ""
    return f"{candidate.recipe} on other turns: {confirmation.verdict}, {confirmation.note}"
