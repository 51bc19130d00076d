"""Stage decide: outcomes of both sides to a verdict with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import evidence, statistics
from pipeline.digests import digest_of, file_digest, tree_digest
from pipeline.errors import RecordError
from pipeline.evidence.outcomes import read_outcomes
from pipeline.evidence.record import RecordContext, build_record, write_record
from pipeline.settings import GateSettings
from pipeline.statistics.verdict import decide
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
) -> StageOutput:
    """Decide, and write ``decision.json`` and ``flips.jsonl``.

    The output depends on the golden set, the content of the outcome files, the policy, the source of the
    deciding code and ``context`` without its times. A verdict other than ACCEPT is a result, not an error.

    :param repeat_outcomes_paths: outcomes of further replays of the baseline, for the noise floor.
    :raises RecordError: an outcome file is unreadable or damaged.
    """
    paths = {"baseline_outcomes": baseline_outcomes_path, "candidate_outcomes": candidate_outcomes_path}
    paths |= {f"repeat_outcomes_{number}": path for number, path in enumerate(repeat_outcomes_paths, 1)}
    try:
        digests = {name: file_digest(path) for name, path in paths.items()}
    except OSError as error:
        raise RecordError(f"cannot read outcomes: {error}", "Run the evaluate stage again.") from error
    digests |= {
        "golden_set": golden.digest,
        "policy": digest_of(policy.model_dump(mode="json")),
        "decision_source": source_digest(),
    }

    def build(directory: Path) -> None:
        decision = decide(
            golden.turns,
            read_outcomes(baseline_outcomes_path),
            read_outcomes(candidate_outcomes_path),
            policy,
            benefit=context.benefit,
            repeats=[read_outcomes(path) for path in repeat_outcomes_paths],
        )
        record = build_record(decision, golden=golden, policy=policy, context=context, inputs=digests)
        write_record(directory, record, decision)

    return store.make(STAGE, {**digests, "context": context.identity()}, build)


def source_digest() -> str:
    """Digest of the code and schema that make a decision."""
    root = Path(statistics.__path__[0]).parent
    sources = [*Path(statistics.__path__[0]).glob("*.py"), *Path(evidence.__path__[0]).glob("*.*")]
    return tree_digest(root, [*sources, Path(__file__)])
