"""Stage report: decision record, flips, golden turns and both sides' replies to what people read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import reporting
from pipeline.digests import file_digest, tree_digest
from pipeline.errors import RecordError
from pipeline.evidence.record import DECISION_FILE, FLIPS_FILE, read_decision
from pipeline.inspection.findings import CHECKS
from pipeline.reporting import RunFacts
from pipeline.reporting.html import render
from pipeline.reporting.junit import junit_xml
from pipeline.reporting.markdown import summary_markdown
from pipeline.reporting.record import load_flips, load_replies, read_record
from pipeline.reporting.review import review_markdown
from pipeline.reporting.terminal import summary_text
from pipeline.store import StageOutput, Store

if TYPE_CHECKING:
    from pipeline.golden import GoldenSet

STAGE = "report"
REPORT_FILE = "report.html"
SUMMARY_TEXT_FILE = "summary.txt"
SUMMARY_MARKDOWN_FILE = "summary.md"
REVIEW_FILE = "review.md"
JUNIT_FILE = "junit.xml"


def run(
    store: Store,
    *,
    decision_dir: Path,
    golden: GoldenSet,
    replies_paths: Sequence[Path],
    run_facts: RunFacts,
) -> StageOutput:
    """Write ``report.html``, ``summary.txt``, ``summary.md``, ``review.md`` and ``junit.xml``.

    The output depends on the content of every file read, on the source of the reports, and on the model,
    recipe, command and waivers of ``run_facts``; what else that holds changes from run to run and is left out.

    :param decision_dir: output of the decide stage (``decision.json`` and ``flips.jsonl``).
    :param replies_paths: replies of baseline and candidate; none where nothing was replayed.
    :raises RecordError: a file is unreadable, or the decision belongs to another golden set.
    """
    decision_path, flips_path = decision_dir / DECISION_FILE, decision_dir / FLIPS_FILE
    lasting = RunFacts(run_facts.model, run_facts.recipe, run_facts.command, waivers=run_facts.waivers)
    try:
        inputs = {
            "decision": file_digest(decision_path),
            "flips": file_digest(flips_path),
            "replies": [file_digest(path) for path in replies_paths],
            "golden_set": golden.digest,
            "run": {"model": lasting.model, "recipe": lasting.recipe, "command": lasting.command}
            | {"waivers": list(lasting.waivers)},
            "source": source_digest(),
        }
    except OSError as error:
        raise RecordError(f"cannot read what the report needs: {error}", "Run the decide stage again.") from error

    def build(directory: Path) -> None:
        decision = read_decision(decision_path)
        measured = read_record(decision).golden_set.digest
        if measured != golden.digest:
            raise RecordError(
                f"{decision_path}: the decision was made on golden set {measured[:16]}, not on {golden.digest[:16]}",
                "Run the decide stage on this golden set, or report with the set of the decision.",
            )
        flips = load_flips(flips_path)
        flipped = frozenset(flip.turn_id for flip in flips)
        baseline, candidate = (load_replies(path, flipped) for path in replies_paths) if replies_paths else ({}, {})
        page = render(
            decision,
            lasting,
            turns={turn.id: turn for turn in golden.turns if turn.id in flipped},
            flips=flips,
            baseline=baseline,
            candidate=candidate,
        )
        junit = junit_xml(
            decision,
            lasting,
            flips=flips,
            critical_turns=[turn.id for turn in golden.turns if turn.expect.critical],
            checks={name: aim for name, (_, aim) in CHECKS.items()},
        )
        for name, text in {
            REPORT_FILE: page,
            SUMMARY_TEXT_FILE: summary_text(decision, lasting),
            SUMMARY_MARKDOWN_FILE: summary_markdown(decision, lasting),
            REVIEW_FILE: review_markdown(decision, lasting),
            JUNIT_FILE: junit,
        }.items():
            (directory / name).write_text(text, encoding="utf-8")

    return store.make(STAGE, inputs, build)


def source_digest() -> str:
    """Digest of the code and templates that make the reports, and of this stage."""
    package = Path(reporting.__file__).parent
    here = Path(__file__)
    files = [f for f in package.rglob("*") if f.is_file() and f.suffix != ".pyc"]
    return tree_digest(here.parent.parent, [*files, here])
