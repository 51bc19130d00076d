"""Reading the samples of the ``general`` stage: what one side answered to every item, and whether it passed.

A sample is to an item what an outcome is to a golden turn, so it becomes one, and the paired decision is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.turn import Behaviour, Expectation, Outcome, Reply, Status, Turn
from pipeline.errors import RecordError, Verdict
from pipeline.statistics.advice import listed
from pipeline.statistics.facts import Reason, ReasonCode

_REMEDY = "Run the general stage again; if it stays, remove its kept output first."
_SHOWN = 300
"""Characters of a target that evidence shows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of one side.

    :ivar asked: digests of document, prompt and target: equal on both sides, or the pair is void.
    """

    metric: str
    prompt: tuple[Mapping[str, Any], ...]
    asked: tuple[str, str, str]
    target: str
    reply: Reply
    passed: bool | None
    """None: there is no answer."""

    @property
    def outcome(self) -> Outcome:
        """The sample as an outcome. An empty answer fails, whatever a task makes of it; no answer is unscorable."""
        name = self.reply.turn_id
        if self.passed is None:
            return Outcome(name, self.metric, Status.UNSCORABLE, "no_reply", (str(self.reply.error),))
        target = (f"target: {self.target[:_SHOWN]}",)
        if not self.reply.content.strip():
            return Outcome(name, self.metric, Status.FAILED, "empty", target)
        passed = self.passed
        return Outcome(
            name, self.metric, Status.PASSED if passed else Status.FAILED, "ok" if passed else "wrong", target
        )

    @property
    def turn(self) -> Turn:
        """The item as a turn, a scenario of its own."""
        name = self.reply.turn_id
        gold = {"role": "assistant", "content": self.target}
        return Turn(name, name, name, (), self.prompt, (), Expectation(Behaviour.ANSWER), gold)


@dataclass(frozen=True, slots=True)
class GeneralSide:
    """What one side answered.

    :ivar facts: by entry, what was run: task and figure, versions of lm-eval and of the tasks, number of items.
    """

    samples: Mapping[str, Sample]
    facts: Mapping[str, Mapping[str, Any]]


def read_general(directory: Path, entries: Iterable[str], prefix: str) -> GeneralSide:
    """Read the output of a ``general`` stage.

    :param entries: names of the suite's entries; ``prefix`` and such a name make the name of a metric.
    :raises RecordError: unreadable, an item given twice, fewer or more items than lm-eval counted, or of a limited run.
    """
    samples: dict[str, Sample] = {}
    facts: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        told = _facts(directory / f"facts-{entry}.json")
        path, count = directory / f"samples-{entry}.jsonl", 0
        for name, sample in _samples(path, prefix + entry):
            if name in samples:
                raise RecordError(f"{path}: item {name} is given twice", _REMEDY)
            samples[name] = sample
            count += 1
        if told.get("limit", 0) is not None:
            raise RecordError(f"{path}: of a run with a limit, which decides nothing", _REMEDY)
        if count != told["items"]:
            raise RecordError(f"{path}: {count} items, lm-eval counted {told['items']}", _REMEDY)
        facts[entry] = told
    return GeneralSide(samples, facts)


def _facts(path: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {**told, "items": int(told["items"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path}: cannot read: {error!r}", _REMEDY) from error


def _samples(path: Path, metric: str) -> Iterator[tuple[str, Sample]]:
    try:
        with path.open(encoding="utf-8") as handle:
            for number, line in enumerate(handle, 1):
                try:
                    sample = _sample(json.loads(line), metric)
                except (ValueError, KeyError, TypeError) as error:
                    raise RecordError(f"{path}:{number}: not a sample: {error!r}", _REMEDY) from error
                yield sample.reply.turn_id, sample
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot read: {error}", _REMEDY) from error


def _sample(value: Mapping[str, Any], metric: str) -> Sample:
    name, answered, figure = value["id"], value["answered"], value["value"]
    if not isinstance(name, str) or not isinstance(answered, bool):
        raise TypeError("id is text, answered true or false")
    if answered and (isinstance(figure, bool) or not isinstance(figure, int | float) or not 0 <= figure <= 1):
        raise ValueError(f"value {figure!r} is not between 0 and 1")
    reply = Reply(name, content=_said(value["responses"])) if answered else Reply(name, error="no answer was obtained")
    asked = (str(value["doc_hash"]), str(value["prompt_hash"]), str(value["target_hash"]))
    return Sample(metric, tuple(value["prompt"]), asked, str(value["target"]), reply, figure >= 1 if answered else None)


def _said(responses: Sequence[Any]) -> str:
    """A generated answer, or the log-likelihood of each of the given ones, by number."""
    if all(isinstance(response, str) for response in responses):
        return "\n".join(responses)
    return "\n".join(f"({number}) {float(response[0]):.4f}" for number, response in enumerate(responses))


def unlike(baseline: GeneralSide, candidate: GeneralSide) -> list[Reason]:
    """What keeps the two sides from being compared: other questions, or another version of a task. Each is INVALID."""
    reasons = []
    both = sorted(baseline.samples.keys() & candidate.samples.keys())
    differing = [name for name in both if baseline.samples[name].asked != candidate.samples[name].asked]
    if differing:
        text = (
            f"general ability: baseline and candidate were not asked the same at {len(differing)} of {len(both)} items"
        )
        figures: dict[str, float | int | str] = {"items": len(both), "differing": len(differing)}
        text += f": {listed(differing)}."
        reasons.append(Reason(ReasonCode.CONDITIONS_DIFFER, Verdict.INVALID, text, figures=figures))
    made = ({k: _setting(v) for k, v in side.facts.items()} for side in (baseline, candidate))
    first, second = made
    others = [entry for entry in first.keys() | second.keys() if first.get(entry) != second.get(entry)]
    if others:
        text = f"general ability: baseline and candidate were not measured alike: {listed(sorted(others))}."
        reasons.append(Reason(ReasonCode.CONDITIONS_DIFFER, Verdict.INVALID, text))
    return reasons


def _setting(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What was run, without what came out."""
    return {name: value for name, value in facts.items() if name != "results"}
