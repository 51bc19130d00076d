"""General ability, where the policy asks for it: who was asked, and the paired decision on what came out.

Asking is the stage :mod:`pipeline.stages.general`. Output directory of the stage ``general comparison``::

    general.json         suite and versions, a row for each task as for any metric, reasons
    general_flips.jsonl  one item a line that one side passes and the other fails, with both answers
    general_items.jsonl  one item a line: how it came out on each side

Items are paired by document and judged by the rules of the golden turns (:func:`pipeline.statistics.verdict.decide`):
never an average against a tolerance. What they argue for weighs like any other reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evaluators.turn import Outcome, Status, Turn
from pipeline import evidence, statistics
from pipeline.digests import digest_of, file_digest, tree_digest
from pipeline.errors import RecordError, Verdict
from pipeline.evidence.record import metric_row
from pipeline.evidence.samples import GeneralSide, Sample, read_general, unlike
from pipeline.general.suite import PREFIX, Suite, demand_unseen, general_metrics, load_suite
from pipeline.progress import Progress
from pipeline.quantizers.calibration import readable
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.reporting.flips import clip
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
from pipeline.settings import GateSettings
from pipeline.stages import general
from pipeline.statistics.facts import Decision, Flip, Reason, ReasonCode
from pipeline.statistics.verdict import decide
from pipeline.store import StageOutput, Store

STAGE = "general comparison"
SHOWN = 20
"""Lost items that the record shows; all are in ``general_flips.jsonl``."""
CHARACTERS = 600
"""Of a text that the record shows."""
ABOUT = "general ability: "
"""What a reason begins with that is not about one task."""
FOUND, FLIPS, ITEMS = "general.json", "general_flips.jsonl", "general_items.jsonl"


@dataclass
class Abilities:
    """The general ability of a candidate beside its baseline's.

    :ivar said: output of the ``general`` stage by side, once that was asked.
    :ivar found: the content of ``general.json``, once both were compared.
    """

    store: Store
    policy: GateSettings
    progress: Progress
    said: dict[str, StageOutput] = field(default_factory=dict)
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wanted(self) -> bool:
        """Whether the policy asks for it."""
        return self.policy.general is not None

    @cached_property
    def suite(self) -> Suite:
        """The suite that the policy names.

        :raises SettingsError: unknown, invalid, or without a task of the policy's.
        """
        assert self.policy.general is not None
        return load_suite(self.policy.general.suite, self.policy.general.tasks)

    def demand_unseen(self, calibration: Path) -> None:
        """Refuse calibration text that holds items of the suite.

        :raises GoldenSetError: names them, or a line that cannot be read.
        """
        if self.wanted:
            demand_unseen(self.suite, readable(calibration))

    def ask(
        self, side: str, serve: Callable[[], Server], checkpoint: Checkpoint, plan: EnginePlan, max_model_len: int
    ) -> StageOutput:
        """Ask one side's server, or reuse what it said; see :func:`pipeline.stages.general.run`."""
        self.said[side] = general.run(
            self.store,
            self.suite,
            serve,
            checkpoint=checkpoint.path,
            checkpoint_digest=checkpoint.digest,
            plan=plan,
            policy=self.policy,
            max_model_len=max_model_len,
            progress=self.progress,
            side=side,
        )
        return self.said[side]

    def compare(self) -> StageOutput:
        """The paired decision, once both sides were asked."""
        baseline, candidate = (self.said[side].path for side in ("baseline", "candidate"))
        output = compare(self.store, self.suite, baseline, candidate, self.policy)
        self.found = json.loads((output.path / FOUND).read_text(encoding="utf-8"))
        return output

    def reasons(self) -> list[Reason]:
        """What the comparison argues for."""
        return [
            Reason(ReasonCode(told["code"]), Verdict(told["verdict"]), told["text"], told["metric"], told["figures"])
            for told in self.found.get("reasons", ())
        ]


def compare(store: Store, suite: Suite, baseline: Path, candidate: Path, policy: GateSettings) -> StageOutput:
    """Pair the samples of both sides and decide on each task, or reuse the kept decision.

    :param baseline: output directory of the baseline's ``general`` stage; ``candidate`` likewise.
    :raises RecordError: samples cannot be read, are incomplete, or are of a limited run.
    """
    rules = general_metrics(policy)
    assert rules is not None
    try:
        inputs: dict[str, Any] = {
            side: [[path.name, file_digest(path)] for path in sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")])]
            for side, folder in (("baseline", baseline), ("candidate", candidate))
        }
    except OSError as error:
        raise RecordError(f"cannot read samples: {error}", "Run again.") from error
    inputs |= {"suite": suite.name, "policy": digest_of(rules.model_dump(mode="json")), "source": source_digest()}

    def build(directory: Path) -> None:
        sides = [read_general(folder, suite.tasks, PREFIX) for folder in (baseline, candidate)]
        decision, turns = _decide(sides, rules)
        found = {
            "suite": suite.name,
            "digest": suite.digest,
            "items": len(turns),
            "tasks": {name: _task(facts) for name, facts in sides[0].facts.items()},
            "metrics": [metric_row(result) for result in decision.metrics],
            "lost": [_lost(flip, sides) for flip in decision.flips if flip.lost][:SHOWN],
            "reasons": [_told(reason) for reason in decision.reasons if reason.verdict is not Verdict.ACCEPT],
        }
        text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
        (directory / FOUND).write_text(text + "\n", encoding="utf-8")
        _write_lines(directory / FLIPS, (_flip(flip, sides) for flip in decision.flips))
        _write_lines(directory / ITEMS, (_item(turn.id, sides) for turn in turns))

    return store.make(STAGE, inputs, build)


def _decide(sides: Sequence[GeneralSide], rules: GateSettings) -> tuple[Decision, list[Turn]]:
    """The decision on all items of either side. One that only one side has is missing on the other: INVALID."""
    items: dict[str, Sample] = {**sides[1].samples, **sides[0].samples}
    turns = [items[name].turn for name in sorted(items)]
    baseline, candidate = (list(_outcomes(side, rules.metrics)) for side in sides)
    return decide(turns, baseline, candidate, rules, findings=unlike(*sides)), turns


def _outcomes(side: GeneralSide, metrics: Iterable[str]) -> Iterable[Outcome]:
    """One outcome for each item and metric: a metric reads the items of its own task alone."""
    for name, sample in side.samples.items():
        yield sample.outcome
        yield from (Outcome(name, m, Status.NOT_APPLICABLE, "") for m in metrics if m != sample.metric)


def _task(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in ("task", "metric", "filter", "interface", "items", "lm_eval", "versions")}


def _told(reason: Reason) -> dict[str, Any]:
    figures = dict(reason.figures or {})
    return {
        "code": reason.code,
        "verdict": reason.verdict,
        "metric": reason.metric,
        "text": reason.text if (reason.metric or "").startswith(PREFIX) else f"{ABOUT}{reason.text}",
        "figures": figures,
    }


def _lost(flip: Flip, sides: Sequence[GeneralSide]) -> dict[str, str]:
    told = _flip(flip, sides)
    texts = {name: clip(told[name], CHARACTERS) for name in ("target", "baseline", "candidate")}
    question = clip(str(told["prompt"][-1]["content"]), CHARACTERS) if told["prompt"] else ""
    return {"id": told["id"], "metric": told["metric"], "question": question, **texts}


def _flip(flip: Flip, sides: Sequence[GeneralSide]) -> dict[str, Any]:
    baseline, candidate = (side.samples[flip.turn_id] for side in sides)
    return {
        "id": flip.turn_id,
        "metric": flip.metric,
        "direction": "pass_to_fail" if flip.lost else "fail_to_pass",
        "prompt": list(baseline.prompt),
        "target": baseline.target,
        "baseline": baseline.reply.content,
        "candidate": candidate.reply.content,
    }


def _item(name: str, sides: Sequence[GeneralSide]) -> dict[str, Any]:
    found = [side.samples.get(name) for side in sides]
    sample = next(sample for sample in found if sample is not None)
    came = {
        side: sample.outcome.status.value if sample else "missing"
        for side, sample in zip(("baseline", "candidate"), found, strict=True)
    }
    return {"id": name, "metric": sample.metric, "target": sample.target, **came}


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as handle:
        handle.writelines(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)


def source_digest() -> str:
    """Digest of the code that decides."""
    root = Path(statistics.__path__[0]).parent
    sources = [*Path(statistics.__path__[0]).glob("*.py"), *Path(evidence.__path__[0]).glob("*.py"), Path(__file__)]
    return tree_digest(root, sources)
