"""Figures and verdicts in words, shared by the terminal, Markdown and HTML reports.

Own text is ASCII, so that it survives any terminal; the HTML report swaps in typographic signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pipeline.errors import Verdict
from pipeline.reporting.facts import RunFacts
from pipeline.reporting.record import DecisionRecord, Finding, MetricRow, ResourceRow, WorstFlip

NOT_KNOWN = "n/a"

HEADLINES: dict[Verdict, str] = {
    Verdict.ACCEPT: "The candidate may replace the baseline.",
    Verdict.REJECT: "Do not ship the candidate.",
    Verdict.INCONCLUSIVE: "Not proved either way: do not ship the candidate yet.",
    Verdict.INVALID: "No judgement on the candidate: the comparison itself cannot be relied on.",
}

TOUR_HEADLINE = "The candidate keeps what this tour asks for."


def headline(record: DecisionRecord) -> str:
    """The verdict in a sentence."""
    tour = record.verdict is Verdict.ACCEPT and not record.policy.get("release", True)
    return TOUR_HEADLINE if tour else HEADLINES[record.verdict]


_METRIC_TITLES = {
    "policy_adherence": "Follows the policy",
    "tool_call_correct": "Makes the right tool call",
    "tool_call_valid": "Tool calls are well formed",
    "refuses_when_required": "Refuses what it must",
    "complies_when_allowed": "Helps where it may",
    "free_of_degeneration": "Free of loops and broken text",
}

_RESOURCE_TITLES = {
    "weight_bytes": "Weights",
    "kv_tokens": "KV-cache pool",
    "throughput_at_slo": "Requests within the service level",
    "ttft_p95": "Time to first token, p95",
    "itl_p95": "Time between tokens, p95",
}
_RESOURCE_UNITS = {"throughput_at_slo": "a second", "ttft_p95": "ms", "itl_p95": "ms"}


def finding(found: Finding) -> str:
    """A finding of the inspection on one line."""
    return f"{found.severity} {found.check}: {found.where}: {found.text}. {found.remedy}"


def metric_title(metric: str) -> str:
    """A metric's plain name; an unknown one is shown by its own name."""
    return _METRIC_TITLES.get(metric, metric.replace("_", " ").capitalize())


def percent(share: float | None) -> str:
    """A share as percent with one decimal, without the sign: 0.9125 -> ``91.2``."""
    return NOT_KNOWN if share is None else f"{100 * share:.1f}"


def points(share: float | None, decimals: int = 2) -> str:
    """A difference of shares in percentage points, always signed: -0.0211 -> ``-2.11``."""
    if share is None:
        return NOT_KNOWN
    text = f"{100 * share:+.{decimals}f}"
    return text.replace("-", "+") if float(text) == 0 else text


def limit_points(limit: float | None, margin: float) -> str:
    """A limit in points, with as many decimals (2 to 5) as show on which side of ``-margin`` it lies."""
    if limit is None:
        return NOT_KNOWN
    for decimals in range(2, 6):
        text = points(limit, decimals)
        shown = round(float(text) + 100 * margin, 9)
        if (shown >= 0) == (limit >= -margin):
            break
    return text


def in_hundred(share: float) -> str:
    """A share as ``2.7 in 100``, rounded up: an "at most" never shows less than was computed."""
    return f"{math.ceil(round(share * 1000, 6)) / 10:.1f} in 100"


def at_least_in_hundred(share: float) -> str:
    """A share as ``2.7 in 100``, rounded down, for an "at least"."""
    return f"{math.floor(round(share * 1000, 6)) / 10:.1f} in 100"


def size(count: int | None) -> str:
    """Bytes in decimal units: 269060552 -> ``269.1 MB``."""
    if count is None:
        return NOT_KNOWN
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def confidence(record: DecisionRecord) -> str:
    """The confidence level of one-sided limits: ``95 %``."""
    return f"{100 * record.confidence:g} %"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def tested(record: DecisionRecord) -> str:
    """What was tested, in a sentence."""
    golden = record.golden_set
    if not record.replayed:
        return (
            f"Nothing was replayed: the run ended before. Golden set {golden.name} has {_count(golden.turns, 'turn')} "
            f"in {_count(golden.scenarios, 'scenario')}."
        )
    return (
        f"{golden.turns} turns of {golden.transcripts} support conversations in {golden.scenarios} scenarios, "
        f"answered by both {_how_served(record)}. Golden set: {golden.name}."
    )


def _how_served(record: DecisionRecord) -> str:
    """Both builds alike, unless something differs by intent."""
    if record.conditions:
        return "sides; what differs between them is what the verdict is conditional on"
    return "builds on the same engine with the same settings"


def gain(record: DecisionRecord) -> str:
    """What shipping the candidate would save, in bytes of weights."""
    before, after = record.baseline.weight_bytes, record.candidate.weight_bytes
    if not before or after is None:
        return "Not known: the size of the weights is not on record."
    change = 100 * (after - before) / before
    return f"Weights {size(before)} -> {size(after)} ({change:+.1f} %)."


def resource_title(name: str) -> str:
    """A resource's plain name."""
    return _RESOURCE_TITLES.get(name, name)


def resource_figure(name: str, values: tuple[float, ...]) -> str:
    """The figures of one side: their geometric mean where there are several, as in what is gained; 0 with a 0."""
    if not values:
        return NOT_KNOWN
    mean = math.exp(sum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0
    if name == "weight_bytes":
        return size(round(mean))
    return f"{mean:,.0f} tokens" if name == "kv_tokens" else f"{mean:,.4g} {_RESOURCE_UNITS.get(name, '')}".strip()


def gains(record: DecisionRecord) -> list[str]:
    """What each resource gains or costs, one line each; what does not count says so."""
    return gain_lines(record.resources)


def gain_lines(rows: Iterable[ResourceRow]) -> list[str]:
    """The same for rows alone."""
    lines = []
    for row in rows:
        figures = f"{resource_figure(row.name, row.baseline)} -> {resource_figure(row.name, row.candidate)}"
        text = f"{resource_title(row.name)}: {figures}"
        if row.change == 0:
            text += ", unchanged"
        elif row.change is not None:
            text += f", {percent(abs(row.change))} % {'better' if row.change > 0 else 'worse'}"
        if row.lower is not None and row.upper is not None and row.lower != row.upper:
            text += f" (between {points(row.lower, 1)} and {points(row.upper, 1)} %)"
        told = [row.state.upper() if row.state in ("worse", "undecided") and row.counted else ""]
        told += ["" if row.counted else "does not count", "declared" if row.declared else "", row.note]
        if shown := "; ".join(filter(None, told)):
            text += f" [{shown}]"
        lines.append(text + ".")
    return lines


def risk(record: DecisionRecord) -> list[str]:
    """The risk of shipping in plain words, from the limits of the gating metrics and the critical turns."""
    if record.verdict is Verdict.INVALID:
        return ["Not known. The figures of this run are no basis for a release decision."]
    if not record.replayed:
        return ["Not known: nothing was measured."]
    gating = [row for row in record.metrics if row.gating]
    bounds = [row.lower for row in gating if row.lower is not None]
    level = confidence(record)
    lines = [line for row in gating if (line := _shortfall(row, level))]
    if not lines and bounds:
        loss = in_hundred(max(0.0, -min(bounds)))
        lines.append(f"At most {loss} turns could be worse on balance, on any gating metric ({level} confidence each).")
    lines.append(critical(record))
    return lines


def _shortfall(row: MetricRow, level: str) -> str | None:
    """What keeps a gating metric from being accepted, or None when its loss is within the margin."""
    title, accepted = metric_title(row.metric), f"{round(100 * row.margin, 6):g}"
    if row.lower is None or row.upper is None:
        return f"{title}: not measured."
    if row.upper < -row.margin:
        loss = at_least_in_hundred(-row.upper)
        return f"{title}: at least {loss} turns are worse on balance ({level} confidence); {accepted} were acceptable."
    if row.lower < -row.margin:
        loss = in_hundred(-row.lower)
        return f"{title}: up to {loss} turns could be worse on balance ({level} confidence); {accepted} are acceptable."
    return None


def critical(record: DecisionRecord) -> str:
    """What is known about the critical turns, in a sentence."""
    facts = record.critical
    if not facts.turns:
        return "No turn of this golden set is marked critical."
    if not record.replayed:
        return f"{facts.turns} turns are marked critical; none was replayed."
    if not facts.passed_by_baseline:
        return f"None of the {facts.turns} critical turns is passed by the baseline, so they prove nothing."
    failed = len(facts.failed)
    text = f"Critical turns: {failed} of the {facts.passed_by_baseline} that the baseline passes fail"
    if facts.upper_limit is not None:
        text += f"; at most {in_hundred(facts.upper_limit)} such turns could fail ({confidence(record)} confidence)"
    others = facts.turns - facts.passed_by_baseline
    return text + (f". {others} more prove nothing: the baseline fails them, always or at times." if others else ".")


def noise(record: DecisionRecord) -> list[str]:
    """How often the baseline differs from itself, and what of the candidate's flips that does not explain."""
    measured = [row for row in record.metrics if row.gating and row.noise is not None]
    lines = []
    for row in measured:
        floor = row.noise
        if floor is not None and (floor.flips or row.b or row.c):
            lines.append(
                f"{metric_title(row.metric)}: the baseline differs from itself on {floor.flips} of {floor.compared} "
                f"turns, the candidate from it on {row.b + row.c} of {row.n} ({floor.excess_flips:+.1f} beyond noise)."
            )
    if measured and not lines:
        return ["Neither the baseline, replayed again, nor the candidate differs on any gating metric."]
    return lines


def worst_flips(record: DecisionRecord) -> list[str]:
    """The lost turns to read first. A critical one that the baseline fails on another metric is no critical loss."""

    def mark(flip: WorstFlip) -> str:
        if not flip.critical:
            return ""
        lost = flip.turn_id in record.critical.failed
        return " (critical)" if lost else " (critical, but the baseline fails another metric of it)"

    return [f"{flip.turn_id}{mark(flip)}: {', '.join(flip.metrics)}" for flip in record.worst_flips]


def next_step(record: DecisionRecord, run: RunFacts) -> str:
    """What to do next; where that is to diagnose the candidate, with the options that made it."""
    if not run.command.startswith("quant-gate run "):  # a comparison, which made no candidate
        return record.next_step
    options = run.command.removeprefix("quant-gate run")
    return record.next_step.replace("`quant-gate diagnose`", f"`quant-gate diagnose{options}`")


def rollback(record: DecisionRecord) -> str:
    """How to get back to the baseline, or why there is nothing to undo."""
    if record.verdict is not Verdict.ACCEPT:
        return "Nothing to undo: keep serving the baseline."
    return (
        "Serve the baseline again with the same engine flags; prompts, templates and clients stay as they are. "
        "Keep its files deployable until the release has settled. Where the registry's champion is served, "
        "quant-gate rollback makes the build before it champion again."
    )


def caveats(record: DecisionRecord, notes: Iterable[str] = ()) -> list[str]:
    """What a reader must know beside the verdict: deprecation, engine notes, unanswered turns, notes of the run."""
    lines = []
    if ended := record.candidate.recipe.get("deprecated"):
        lines.append(f"The recipe is deprecated: {ended}.")
    if not record.engine.speed_representative:
        lines.append(
            "Speed was not representative on this machine: nothing here says how fast the candidate is, and of what it "
            "gains only bytes of weights and tokens of KV cache count."
        )
    lines += record.engine.notes
    asked = record.accounting.turns
    for side, scored in (
        ("baseline", record.accounting.baseline_scored),
        ("candidate", record.accounting.candidate_scored),
    ):
        if scored < asked:
            lines.append(f"The {side} gave no usable answer to {asked - scored} of {asked} turns.")
    lines += [
        f"{metric_title(row.metric)}: about {row.n_to_decide:,} turns would decide it; {row.n:,} were scored."
        for row in record.metrics
        if row.gating and row.verdict is Verdict.INCONCLUSIVE and row.n_to_decide
    ]
    return list(dict.fromkeys([*lines, *notes]))
