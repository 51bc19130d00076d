"""Rules about the records themselves: whatever they find makes the run INVALID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pipeline.errors import Verdict
from pipeline.statistics.advice import listed
from pipeline.statistics.facts import Reason, ReasonCode
from pipeline.statistics.pairing import NOT_APPLICABLE, Mask, Pairs, Side
from pipeline.statistics.study import Study


def integrity(study: Study) -> list[Reason]:
    """Everything that is wrong with the records of a decision, in order of rule."""
    repeats = [f"baseline repeat {number}" for number in range(1, len(study.repeats) + 1)]
    others = [f"candidate repeat {number}" for number in range(1, len(study.candidate_repeats) + 1)]
    sides = [("baseline", study.baseline), ("candidate", study.candidate)]
    sides += zip(repeats, study.repeats, strict=True)
    sides += zip(others, study.candidate_repeats, strict=True)
    reasons = _bad_records(study, sides) + _samples(study)

    undeclared = sorted({metric for _, side in sides for metric in side.undeclared})
    if undeclared:
        text = f"outcomes of metrics that the policy does not name: {listed(undeclared)}."
        figures = {"metrics": len(undeclared)}
        reasons.append(Reason(ReasonCode.UNDECLARED_METRIC, Verdict.INVALID, text, figures=figures))

    lacking = {"baseline": _any(pair.lacking_first for pair in study.pairs.values())}
    named = [*zip(repeats, study.repeat_pairs, strict=True), *zip(others, study.candidate_repeat_pairs, strict=True)]
    for name, pairs in (("candidate", study.pairs), *named):
        lacking[name] = _any(pair.lacking_second for pair in pairs.values())
        reasons += _mismatches(study, name, pairs)
    reasons += [_unscorable(study, name, mask) for name, mask in lacking.items() if mask.any()]

    for metric in study.gating:
        if not study.pairs[metric].scored.any():
            text = f"{metric}: no turn was scored on both sides, though the policy makes it gating."
            figures = {"turns": len(study.index.turns), "scored": 0}
            reasons.append(Reason(ReasonCode.NO_DATA, Verdict.INVALID, text, metric, figures))
    unread = study.index.critical.copy()
    for metric in study.gating:
        unread &= study.baseline.codes[metric] == NOT_APPLICABLE
    if unread.any():
        text = f"critical turns that no gating metric reads: {listed(study.turn_ids(unread))}."
        figures = {"turns": int(np.count_nonzero(unread))}
        reasons.append(Reason(ReasonCode.NO_DATA, Verdict.INVALID, text, figures=figures))
    return reasons


def _bad_records(study: Study, sides: Sequence[tuple[str, Side]]) -> list[Reason]:
    reasons = []
    faults = [("turn ids given twice in the golden set", study.index.repeated)]
    faults += [(f"outcomes given twice ({name})", side.repeated) for name, side in sides]
    faults += [(f"outcomes of unknown turns ({name})", side.unknown) for name, side in sides]
    for text, items in faults:
        if items:
            figures = {"count": len(items)}
            reason = Reason(ReasonCode.BAD_RECORDS, Verdict.INVALID, f"{text}: {listed(items)}.", figures=figures)
            reasons.append(reason)
    return reasons


def _samples(study: Study) -> list[Reason]:
    wanted = study.policy.sampling.samples
    found = {"baseline": 1 + len(study.repeats), "candidate": 1 + len(study.candidate_repeats)}
    if found["candidate"] == wanted and (found["baseline"] == wanted or not study.sampled):
        return []
    text = (
        f"the policy samples each turn {wanted} times; the baseline was replayed {found['baseline']} times, the "
        f"candidate {found['candidate']} times."
    )
    return [Reason(ReasonCode.NO_DATA, Verdict.INVALID, text, figures={"samples": wanted, **found})]


def _unscorable(study: Study, side: str, mask: Mask) -> Reason:
    count = int(np.count_nonzero(mask))
    text = f"{side}: {count} of {len(mask)} turns have missing or unscorable outcomes: {listed(study.turn_ids(mask))}."
    figures = {"turns": len(mask), "scored": len(mask) - count}
    return Reason(ReasonCode.UNSCORABLE, Verdict.INVALID, text, figures=figures)


def _mismatches(study: Study, name: str, pairs: Mapping[str, Pairs]) -> list[Reason]:
    reasons = []
    for metric, pair in pairs.items():
        if pair.mismatched.any():
            ids = listed(study.turn_ids(pair.mismatched))
            text = f"{metric} applies on one side only (baseline, {name}): {ids}."
            figures = {"turns": int(np.count_nonzero(pair.mismatched))}
            reasons.append(Reason(ReasonCode.PAIRS_DIFFER, Verdict.INVALID, text, metric, figures))
    return reasons


def _any(masks: Iterable[Mask]) -> Mask:
    union: Mask = np.logical_or.reduce(list(masks))
    return union
