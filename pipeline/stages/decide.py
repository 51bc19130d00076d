"""Stage decide: outcomes of both sides to a verdict with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import evidence, statistics
from pipeline.digests import digest_of, file_digest, tree_digest
from pipeline.errors import RecordError, Verdict
from pipeline.evidence.outcomes import read_outcomes
from pipeline.evidence.record import RecordContext, build_record, write_record
from pipeline.evidence.secrecy import demand_no_secrets
from pipeline.settings import GateSettings
from pipeline.statistics.facts import Reason, ReasonCode
from pipeline.statistics.verdict import decide, decide_without_replay
from pipeline.store import StageOutput, Store

if TYPE_CHECKING:
    from pipeline.golden import GoldenSet

STAGE = "decide"


def run(
    store: Store,
    *,
    golden: GoldenSet,
    baseline_outcomes_path: Path,
    candidate_outcomes_path: Path,
    policy: GateSettings,
    context: RecordContext,
    repeat_outcomes_paths: Sequence[Path] = (),
    candidate_repeat_outcomes_paths: Sequence[Path] = (),
    findings: Sequence[Reason] = (),
    look: int | None = None,
) -> StageOutput:
    """Decide, and write ``decision.json`` and ``flips.jsonl``.

    The output depends on the golden set, the content of the outcome files, the policy, the source of the
    deciding code, ``findings`` and ``context`` without its times. A verdict other than ACCEPT is a result, not an
    error.

    :param repeat_outcomes_paths: outcomes of further replays of the baseline, for the noise floor. Fewer than the
        policy asks for make the decision INVALID.
    :param candidate_repeat_outcomes_paths: the candidate's other samples, where the policy samples turns.
    :param findings: reasons from outside the outcomes; see :func:`pipeline.statistics.verdict.decide`.
    :param look: the candidate was given up at this look.
    :raises RecordError: an outcome file is unreadable or damaged, or the record would give a credential away.
    """
    paths = {"baseline_outcomes": baseline_outcomes_path, "candidate_outcomes": candidate_outcomes_path}
    paths |= {f"repeat_outcomes_{number}": path for number, path in enumerate(repeat_outcomes_paths, 1)}
    paths |= {f"candidate_repeat_outcomes_{n}": path for n, path in enumerate(candidate_repeat_outcomes_paths, 1)}
    try:
        digests = {name: file_digest(path) for name, path in paths.items()}
    except OSError as error:
        raise RecordError(f"cannot read outcomes: {error}", "Run the evaluate stage again.") from error
    digests |= _digests(golden, policy)
    found = [*findings, *missing_repeats(len(repeat_outcomes_paths), policy)]

    def build(directory: Path) -> None:
        decision = decide(
            golden.turns,
            read_outcomes(baseline_outcomes_path),
            read_outcomes(candidate_outcomes_path),
            policy,
            benefit=context.benefit,
            repeats=[read_outcomes(path) for path in repeat_outcomes_paths],
            candidate_repeats=[read_outcomes(path) for path in candidate_repeat_outcomes_paths],
            findings=found,
            look=look,
        )
        record = build_record(decision, golden=golden, policy=policy, context=context, inputs=digests)
        write_record(directory, record, decision)
        demand_no_secrets(directory, sorted(directory.iterdir()))

    inputs = {
        **digests,
        "context": context.identity(),
        "benefit": context.benefit and asdict(context.benefit),
        "findings": _told(found),
        "look": look,
    }
    return store.make(STAGE, inputs, build)


def run_without_replay(
    store: Store, *, golden: GoldenSet, policy: GateSettings, context: RecordContext, reasons: Sequence[Reason]
) -> StageOutput:
    """Keep the record of a run that was settled before anything was replayed: the same files, without figures.

    :param reasons: why; see :func:`pipeline.statistics.verdict.decide_without_replay`.
    """
    digests = _digests(golden, policy)

    def build(directory: Path) -> None:
        decision = decide_without_replay(golden.turns, policy, reasons, benefit=context.benefit)
        record = build_record(decision, golden=golden, policy=policy, context=context, inputs=digests)
        write_record(directory, record, decision)
        demand_no_secrets(directory, sorted(directory.iterdir()))

    return store.make(STAGE, {**digests, "context": context.identity(), "reasons": _told(reasons)}, build)


def _digests(golden: GoldenSet, policy: GateSettings) -> dict[str, str]:
    """Of what every decision depends on."""
    return {
        "golden_set": golden.digest,
        "policy": digest_of(policy.model_dump(mode="json")),
        "decision_source": source_digest(),
    }


def missing_repeats(repeats: int, policy: GateSettings) -> list[Reason]:
    """Too few further replays of the baseline, which leave the noise floor unknown."""
    wanted = 0 if policy.sampling.samples > 1 else policy.noise.repeats
    if policy.sampling.samples > 1 or repeats >= wanted:  # the number of samples is looked at by the decision
        return []
    text = f"the noise floor is not known: {repeats} further replays of the baseline, the policy asks for {wanted}."
    figures: dict[str, float | int | str] = {"repeats": repeats, "wanted": wanted}
    return [Reason(ReasonCode.NO_DATA, Verdict.INVALID, text, figures=figures)]


def _told(reasons: Sequence[Reason]) -> list[Any]:
    """Reasons as JSON values."""
    return [[reason.code, reason.verdict, reason.text, reason.metric, dict(reason.figures or {})] for reason in reasons]


def source_digest() -> str:
    """Digest of the code and schema that make a decision."""
    root = Path(statistics.__path__[0]).parent
    sources = [*Path(statistics.__path__[0]).glob("*.py"), *Path(evidence.__path__[0]).glob("*.*")]
    return tree_digest(root, [*sources, Path(__file__)])
