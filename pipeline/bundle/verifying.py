"""Deriving a verdict again from the raw replies of a bundle, offline, and naming what does not agree.

Everything is computed by the code that a run uses: evaluators, comparison of conditions, decision. Taken as recorded
is what no reply can show (the inspection's findings on the candidate's files, times, where models came from); that
it was not edited is known by the manifest, and that the manifest was not, by a signature (:mod:`pipeline.signoff`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import evaluators
from pipeline.bundle import comparing
from pipeline.bundle.archive import unpack
from pipeline.bundle.gathering import checkpoint_digest, golden_digests, replay_name
from pipeline.bundle.layout import (
    ATTESTATIONS,
    CHECKPOINTS,
    DECIDED,
    EVIDENCE_FILE,
    FINDINGS,
    GOLDEN,
    MANIFEST,
    POLICY,
    REPLAYS,
    REQUESTS,
    TURNS,
    Difference,
    altered,
    read_json,
    read_manifest,
)
from pipeline.bundle.turns import read_golden, read_turns
from pipeline.digests import digest_of, file_digest
from pipeline.errors import VERDICT_EXIT_CODES, GateError, RecordError, UsageError, Verdict
from pipeline.evidence.outcomes import read_outcomes
from pipeline.evidence.record import DECISION_FILE, FLIPS_FILE, RecordContext, build_record, write_record
from pipeline.general.suite import general_metrics
from pipeline.golden import GoldenSet, restrict
from pipeline.inspection.served import served_findings
from pipeline.progress import Silent
from pipeline.serving.records import read_records
from pipeline.serving.replay import build_request, request_digest
from pipeline.settings import GateSettings
from pipeline.stages import decide as decide_stage
from pipeline.stages import drift, evaluate, inspect, serve_replay
from pipeline.stages.abilities import ABOUT
from pipeline.stages.comparability import compared
from pipeline.stages.resources import kv_pool
from pipeline.statistics.benefit import unmeasured_reasons
from pipeline.statistics.facts import Decision, Reason, ReasonCode
from pipeline.statistics.planning import exploratory_reason, plan_power, underpowered_reasons
from pipeline.statistics.sequential import plan_looks
from pipeline.statistics.verdict import decide, decide_without_replay
from pipeline.store import STAGE_FILE, StageOutput, Store

_REMEDY = "The evidence is damaged, was edited, or comes from another version of quant-gate."
SIDES = ("baseline", "candidate")
_SHOWN_BY_REPLAYS = (ReasonCode.PROMPTS_DIFFER, ReasonCode.CONDITIONS_DIFFER, ReasonCode.EXPLORATORY)
"""Reasons from outside the outcomes that replays and request alone show. Others rest on what only the run could see."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of it. ``verdict`` is the recorded one; it counts where there are no ``differences``.

    :ivar notes: what could not be checked, or was made by other code, without contradicting the verdict.
    """

    run: Mapping[str, Any]
    verdict: Verdict
    manifest_digest: str
    decision: Mapping[str, Any]
    differences: Sequence[Difference] = ()
    notes: Sequence[str] = field(default=())

    @property
    def exit_code(self) -> int:
        """The verdict's, or that of INVALID where anything does not agree."""
        return VERDICT_EXIT_CODES[Verdict.INVALID if self.differences else self.verdict]


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """The bundle ``path``, or that of the kept run in the directory ``path``, unpacked in a temporary directory.

    :raises UsageError: there is no such bundle or run.
    :raises RecordError: it cannot be read.
    """
    archive = path / EVIDENCE_FILE if path.is_dir() else path
    if not archive.is_file():
        raise UsageError(f"{archive}: no such file", "Give the name of a kept run, its directory, or a bundle.")
    with tempfile.TemporaryDirectory(prefix="quant-gate-") as folder:
        root = Path(folder)
        unpack(archive, root)
        if path.is_dir():
            for file in (path / ATTESTATIONS).glob("*"):
                (root / ATTESTATIONS).mkdir(exist_ok=True)
                shutil.copyfile(file, root / ATTESTATIONS / file.name)
        yield root


def verify(root: Path, kept: Path | None = None) -> Verification:
    """Score and decide anew from an unpacked bundle.

    :param kept: directory of the run, whose own copies of the record must be those of the bundle.
    :raises RecordError: so much is missing or damaged that nothing can be derived.
    """
    manifest = read_manifest(root)
    found = altered(root, manifest)
    decision = read_json(root / DECISION_FILE)
    if not isinstance(decision, dict):
        raise RecordError(f"{DECISION_FILE}: not a decision record", _REMEDY)
    notes: list[str] = []
    try:
        verdict = Verdict(decision["verdict"])
        if kept is not None:
            found += comparing.fields(f"{kept.name}/{DECISION_FILE}", read_json(kept / DECISION_FILE), decision)
            found += comparing.lines(f"{kept.name}/{FLIPS_FILE}", kept / FLIPS_FILE, root / FLIPS_FILE)
        found += _Check(root, manifest, decision).all(notes)
    except GateError as error:
        found.append(Difference("the evidence", error.message))
        verdict = Verdict.INVALID
    except Exception as error:  # noqa: BLE001 - whatever a stranger's files make the code of a run raise
        found.append(Difference("the evidence", f"nothing can be derived from it: {error!r}"))
        verdict = Verdict.INVALID
    return Verification(manifest["run"], verdict, file_digest(root / MANIFEST), decision, tuple(found), tuple(notes))


class _Check:
    """One bundle being checked."""

    def __init__(self, root: Path, manifest: Mapping[str, Any], decision: Mapping[str, Any]) -> None:
        self.root, self.manifest, self.decision = root, manifest, decision
        self.policy = GateSettings.model_validate_json((root / POLICY).read_text(encoding="utf-8"))
        self.golden_manifest: Mapping[str, Any] = read_json(root / GOLDEN)
        self.golden: GoldenSet = read_golden(self.golden_manifest, read_turns(root / TURNS))
        self.findings = tuple(inspect.read_findings(root / FINDINGS))

    def all(self, notes: list[str]) -> list[Difference]:
        """Every check; adds to ``notes`` what could not be made."""
        found = [*self._code(notes), *self._golden(notes), *self._checkpoints()]
        with tempfile.TemporaryDirectory(prefix="quant-gate-") as folder:
            target = Path(folder)
            if not (self.root / REPLAYS).is_dir():
                return [*found, *self._early(target)]
            found += self._requests()
            outcomes = {}
            for name in [*self._names("baseline"), *self._names("candidate")]:
                found += self._replay(name)
                outcomes[name] = self._outcomes(Store(target / "store"), name)
                recorded, file = self.root / REPLAYS / name / evaluate.OUTCOMES, f"{REPLAYS}/{name}/{evaluate.OUTCOMES}"
                found += comparing.lines(file, recorded, outcomes[name] / evaluate.OUTCOMES)
            return [*found, *self._decide(outcomes, target)]

    # --- what was compared ---------------------------------------------------------------------

    def _code(self, notes: list[str]) -> list[Difference]:
        made_by = self.manifest["made_by"]
        here = {"decision_source": decide_stage.source_digest(), "evaluators_source": evaluators.source_digest()}
        if any(made_by.get(name) != digest for name, digest in here.items()):
            at = made_by.get("commit") or f"version {made_by.get('version')}"
            notes.append(f"The verdict was made by other code than that which verifies it (made at {at}).")
        recorded = self.decision["inputs"].get("decision_source")
        if recorded != made_by["decision_source"]:
            text = f"recorded {recorded}, the manifest says {made_by['decision_source']}"
            return [Difference(f"{DECISION_FILE}.inputs.decision_source", text)]
        return []

    def _golden(self, notes: list[str]) -> list[Difference]:
        files, digest = self.golden_manifest["files"], self.golden_manifest["digest"]
        sample = None if self.policy.sample is None else self.policy.sample.model_dump(mode="json")
        found = comparing.fields(f"{GOLDEN}.sample", self.golden_manifest["sample"], sample)
        if files is None:
            notes.append("The golden set's digest is as recorded: its files are not known one by one.")
        elif digest not in golden_digests(files, sample):
            found.append(Difference(f"{GOLDEN}.digest", "is not that of the files and the sample that are listed"))
        return found

    def _checkpoints(self) -> list[Difference]:
        found = []
        for side in ("baseline", "candidate"):
            path, recorded = self.root / CHECKPOINTS / f"{side}.json", self.decision[side]
            if side == "candidate" and recorded["digest"] is None and not path.exists():
                continue
            files = read_json(path)
            derived = {
                "digest": checkpoint_digest(files),
                "weight_bytes": sum(facts["bytes"] for facts in files.values() if facts["weights"]),
            }
            told = {name: recorded[name] for name in derived}
            found += comparing.fields(f"{DECISION_FILE}.{side}", told, derived)
        return found

    # --- what was asked and answered -----------------------------------------------------------

    def _names(self, side: str) -> list[str]:
        """The replays of a side, the first one first."""
        present = [path.name for path in (self.root / REPLAYS).iterdir() if path.name.partition("_")[0] == side]
        names = [replay_name(side, number) for number in range(len(present))]
        if sorted(names) != sorted(present) or not names:
            raise RecordError(f"{REPLAYS}/: {side} has {sorted(present)}, not a replay and its repeats", _REMEDY)
        return names

    def _sent(self) -> dict[tuple[str, int], str]:
        """Digest of each request that follows from turns and sampling, by turn and sample."""
        return {
            (turn.id, number): request_digest(
                build_request(turn, serve_replay.repeat_sampling(self.policy.sampling, number))
            )
            for turn in self.golden.turns
            for number in range(self.policy.sampling.samples)
        }

    def _requests(self) -> list[Difference]:
        found, expected = [], self._sent()
        with (self.root / REQUESTS).open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                line = json.loads(raw)
                wanted = expected.pop((line["turn_id"], line["sample"]), None)
                if not wanted == line["digest"] == request_digest(line["body"]):
                    where = f"{REQUESTS}:{number} ({line['turn_id']})"
                    found.append(Difference(where, "is not the request that the golden turn makes"))
        found += [Difference(f"{REQUESTS}", f"no request for {turn}") for turn, _ in list(expected)[:5]]
        return found

    def _replay(self, name: str) -> list[Difference]:
        """Whether one replay answers these requests, by this checkpoint, under the key that the record gives it."""
        folder, side = self.root / REPLAYS / name, name.partition("_")[0]
        stage = read_json(folder / STAGE_FILE)
        told = {"key": self.decision["inputs"].get(f"{name}_replies"), "checkpoint": self.decision[side]["digest"]}
        derived = {"key": digest_of(stage["inputs"])[:16], "checkpoint": stage["inputs"]["checkpoint"]}
        found = comparing.fields(f"{DECISION_FILE} on {REPLAYS}/{name}", told, derived)
        for file in (serve_replay.REPLIES, serve_replay.ENGINE, serve_replay.LOG):
            if stage["files"][file][1] != file_digest(folder / file):
                found.append(Difference(f"{REPLAYS}/{name}/{file}", "is not the file that the replay ended with"))
        number = int(name.rpartition("_")[2]) if "_" in name else 0
        sample = number if self.policy.sampling.samples > 1 else 0
        sent = self._sent()
        for turn_id, record in read_records(folder / serve_replay.REPLIES).items():
            if record.request_digest != sent.get((turn_id, sample)):
                where = f"{REPLAYS}/{name}/{serve_replay.REPLIES} ({turn_id})"
                found.append(Difference(where, "answers another request than the golden turn makes"))
        engine, told = read_json(folder / serve_replay.ENGINE), self.decision["engine"]
        return found + comparing.fields(
            f"{DECISION_FILE}.engine", told, {key: engine[key] for key in told.keys() & engine}
        )

    # --- scoring and deciding anew -------------------------------------------------------------

    def _asked(self, name: str) -> GoldenSet:
        """What a side was asked: a candidate that was given up at a look, only the turns up to there."""
        look = self.decision["look"]
        if look is None or not name.startswith("candidate"):
            return self.golden
        planned = plan_looks(self.golden.turns, self.policy.looks)[look - 1]
        return restrict(self.golden, planned.turns, ["look", planned.scenarios])

    def _outcomes(self, store: Store, name: str) -> Path:
        folder = self.root / REPLAYS / name
        output: StageOutput = evaluate.run(store, self._asked(name), folder, name, Silent())
        return output.path

    def _decide(self, outcomes: Mapping[str, Path], target: Path) -> list[Difference]:
        """Decide anew on outcomes that were scored anew, and compare."""
        stage = read_json(self.root / DECIDED)
        context, reasons = self._context(stage["inputs"]), [_reason(told) for told in stage["inputs"]["findings"]]
        found = self._told(reasons, context)
        paths = {side: [outcomes[name] / evaluate.OUTCOMES for name in self._names(side)] for side in SIDES}
        (first, *repeats), (second, *samples) = paths["baseline"], paths["candidate"]
        decision = decide(
            self.golden.turns,
            read_outcomes(first),
            read_outcomes(second),
            self.policy,
            benefit=context.benefit,
            repeats=[read_outcomes(path) for path in repeats],
            candidate_repeats=[read_outcomes(path) for path in samples],
            findings=reasons,
            look=self.decision["look"],
        )
        digests = {f"{side}_outcomes": file_digest(paths[side][0]) for side in SIDES}
        digests |= {f"repeat_outcomes_{number}": file_digest(path) for number, path in enumerate(repeats, 1)}
        digests |= {f"candidate_repeat_outcomes_{number}": file_digest(path) for number, path in enumerate(samples, 1)}
        return [*found, *self._compared(decision, context, digests, target)]

    def _told(self, reasons: Sequence[Reason], context: RecordContext) -> list[Difference]:
        """Whether the decision was told what the replays show, and nothing of the kind that they do not show."""
        baseline, candidate = ([self.root / REPLAYS / name for name in self._names(side)] for side in SIDES)
        served = served_findings(baseline[0], candidate[0])
        shown = [*inspect.reasons((*self.findings, *served)), *compared(baseline, candidate)]
        shown += decide_stage.missing_repeats(len(baseline) - 1, self.policy)
        power = plan_power(self.golden.turns, self.policy)
        shown += [exploratory_reason(power)] if self.manifest["run"]["explore"] else underpowered_reasons(power)
        if context.drift and self.policy.drift:
            shown += drift.reasons(context.drift, self.policy.drift)
        loaded = context.load is not None
        shown += unmeasured_reasons(self.policy.benefit, device=context.engine["device"], loaded=loaded)
        where = f"{DECIDED}.inputs.findings"
        told, derived = ({(each.code, each.verdict, each.text) for each in some} for some in (reasons, shown))
        found = [Difference(where, f"lacks {code}: {text}") for code, _, text in sorted(derived - told)]
        found += [
            Difference(where, f"holds {code}, which the replays do not show: {text}")
            for code, _, text in sorted(told - derived)
            if code in _SHOWN_BY_REPLAYS and not text.startswith(ABOUT)
        ]
        found += [*self._general(reasons, context), *self._resources(baseline[0], candidate[0], context)]
        known = list(map(dict, context.findings))
        return found + [
            Difference(f"{DECISION_FILE}.findings", f"lacks {finding.check}: {finding.text}")
            for finding in (*self.findings, *served)
            if finding.as_json() not in known
        ]

    def _general(self, reasons: Sequence[Reason], context: RecordContext) -> list[Difference]:
        """Whether every general task that the policy demands has its row, and one that fails its reason."""
        rules = general_metrics(self.policy)
        if rules is None or self.decision["look"] is not None:
            return []
        rows = {row["metric"]: row for row in (context.general or {}).get("metrics", ())}
        argued = {reason.metric for reason in reasons}
        found = []
        for name, rule in rules.metrics.items():
            where, row = f"{DECISION_FILE}.general.metrics[{name}]", rows.get(name)
            if row is None:
                found.append(Difference(where, "is missing, though the policy asks for it"))
                continue
            told = {key: row[key] for key in ("gating", "margin", "floor")}
            found += comparing.fields(where, told, {key: getattr(rule, key) for key in told})
            accepted = row["verdict"] == Verdict.ACCEPT
            if accepted and (row["lower"] is None or row["lower"] < -row["margin"]):
                found.append(Difference(where, f"is ACCEPT with a lower limit of {row['lower']}"))
            if rule.gating and not accepted and name not in argued:
                found.append(Difference(where, f"is {row['verdict']}, and the decision was not told"))
        return found

    def _resources(self, baseline: Path, candidate: Path, context: RecordContext) -> list[Difference]:
        """Whether the KV caches' pools are those of the engines; figures under load only where load was measured."""
        where, pool = f"{DECISION_FILE}.resources", kv_pool(baseline, candidate)
        told = [resource for resource in context.resources if resource.name == "kv_tokens"]
        found = comparing.fields(where, *([asdict(resource) for resource in some] for some in (told, pool)))
        if context.load is None and len(told) < len(context.resources):
            found.append(Difference(where, "holds figures under load, and no load was measured"))
        return found

    def _early(self, target: Path) -> list[Difference]:
        """Of a run that was settled before anything was replayed."""
        stage = read_json(self.root / DECIDED)
        context, told = self._context(stage["inputs"]), [_reason(told) for told in stage["inputs"]["reasons"]]
        explore = self.manifest["run"]["explore"]
        settled = [] if explore else underpowered_reasons(plan_power(self.golden.turns, self.policy))
        reasons = settled or inspect.reasons(self.findings)
        where = f"{DECIDED}.inputs.reasons"
        found = comparing.fields(where, [each.text for each in told], [each.text for each in reasons])
        decision = decide_without_replay(self.golden.turns, self.policy, reasons, benefit=context.benefit)
        return [*found, *self._compared(decision, context, {}, target)]

    def _context(self, inputs: Mapping[str, Any]) -> RecordContext:
        """What the decision was told beside outcomes, as its stage recorded it."""
        benefit = inputs.get("benefit") or {}
        beside = {name: benefit[name] for name in ("resources", "weights_declared") if name in benefit}
        times = self.decision["times"]
        return TypeAdapter(RecordContext).validate_python({**inputs["context"], **beside, "times": times})

    def _compared(
        self, decision: Decision, context: RecordContext, digests: Mapping[str, str], target: Path
    ) -> list[Difference]:
        inputs = {
            **digests,
            "golden_set": self.golden.digest,
            "policy": digest_of(self.policy.model_dump(mode="json")),
            "decision_source": self.decision["inputs"].get("decision_source"),  # see _code
        }
        record = build_record(decision, golden=self.golden, policy=self.policy, context=context, inputs=inputs)
        write_record(target, record, decision)
        return [
            *comparing.fields(DECISION_FILE, self.decision, read_json(target / DECISION_FILE)),
            *comparing.lines(FLIPS_FILE, self.root / FLIPS_FILE, target / FLIPS_FILE),
        ]


def _reason(told: Sequence[Any]) -> Reason:
    """A reason as the stage of the decision recorded it."""
    code, verdict, text, metric, figures = told
    return Reason(ReasonCode(code), Verdict(verdict), text, metric, figures)
