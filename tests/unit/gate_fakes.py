"""Labelled fakes for tests of the runner and the command line: everything that needs a model or an engine.

They write stage outputs of the real form through the real store; golden set, evaluators, decision, reports
and tracking are the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import evaluators
from evaluators.turn import Reply, ToolCall, Turn
from pipeline import gate
from pipeline.bundle.gathering import checkpoint_digest
from pipeline.digests import file_digest
from pipeline.golden import GoldenSet
from pipeline.inspection import Finding
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan
from pipeline.serving.records import Record
from pipeline.serving.replay import build_request, request_digest
from pipeline.settings import Recipe, Sampling
from pipeline.stages.serve_replay import repeat_sampling
from pipeline.store import StageOutput, Store

TURNS = 90
TOOL = {
    "type": "function",
    "function": {
        "name": "get_order",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}},
            "required": ["order_id"],
            "additionalProperties": False,
        },
    },
}
DEAD_SERVER = "http://127.0.0.1:9"
"""A tracking server that refuses at once (port 9 is "discard", which nobody runs)."""

Answer = Callable[[int], bool]
"""Whether the n-th turn (from 0) is answered rightly."""


def write_golden(root: Path, turns: int = TURNS) -> Path:
    """Transcripts of one turn each, three to a scenario: the order named must be looked up."""
    (root / "transcripts").mkdir(parents=True)
    lines = []
    for number in range(turns):
        order = f"A-{number:03}"
        call = {"name": "get_order", "arguments": {"order_id": order}}
        lines.append(
            {
                "id": f"order-{number:03}",
                "scenario": f"s{number // 3:02}",
                "slices": ["orders"],
                "tools": [TOOL],
                "messages": [
                    {"role": "user", "content": f"where is order {order}"},
                    {"role": "assistant", "expect": {"behaviour": "tool_call", "tool_calls": [call]}},
                ],
            }
        )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (root / "transcripts" / "orders.jsonl").write_text(text, encoding="utf-8")
    return root


def write_replies(golden: Path) -> None:
    """Give each turn of :func:`write_golden` the golden reply that it expects."""
    path = golden / "transcripts" / "orders.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        (call,) = line["messages"][-1]["expect"]["tool_calls"]
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        line["messages"][-1]["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_policy(path: Path, margin: float = 0.1) -> Path:
    """A policy that the set can prove: 30 scenarios without a flip rule out a loss of 2.706 / 32.706 = 8.3 points."""
    gating = ("tool_call_correct", "free_of_degeneration")
    lines = [
        f"  {name}: {{gating: {str(name in gating).lower()}, margin: {margin}, floor: 0.5}}\n"
        for name in evaluators.METRICS
    ]
    path.write_text("metrics:\n" + "".join(lines), encoding="utf-8")
    return path


def always(number: int) -> bool:
    return True


def write_checkpoint(path: Path, name: str, weight_bytes: int) -> str:
    """A directory with the files of a checkpoint, of which nothing but digests is looked at; returns its digest."""
    path.mkdir(parents=True, exist_ok=True)
    contents = {"config.json": b"{}", "model.safetensors": (name.encode() * weight_bytes)[:weight_bytes]}
    for file, content in contents.items():
        (path / file).write_bytes(content)
    return checkpoint_digest({file: {"sha256": file_digest(path / file)} for file in contents})


@dataclass
class FakeMachine:
    """Stands for resolve, quantize, the engine and its plan; notes what was really done."""

    baseline: Answer = always
    candidate: Answer = always
    repeat: Answer | None = None
    """The baseline replayed again; None: as before."""
    candidate_name: str = "candidate"
    """Another name makes another candidate."""
    candidate_digest: str = ""
    """That of the candidate made last."""
    saved: float = 0.4
    overlap: bool = True
    template_of_candidate: str = "same"
    engine_of_candidate: dict[str, Any] = field(default_factory=dict)
    """What the candidate's engine says of itself otherwise than the baseline's."""
    findings: tuple[Finding, ...] = ()
    """What the inspection of the candidate finds."""
    canary: tuple[str, ...] = (" Paris", ".", " It", " is")
    """Tokens of the candidate's reply to a canary; the baseline gives the default ones."""
    warning: str = ""
    """A line of the candidate's server log."""
    done: list[str] = field(default_factory=list)
    hooks: dict[str, Callable[[], None]] = field(default_factory=dict)
    """Called in the middle of ``serve environment``, ``resolve``, ``plan``, ``quantize``, ``inspect``, ``baseline``,
    ``repeat`` or ``candidate``."""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gate.environments, "provide", lambda name, progress: self._do(f"{name} environment"))
        monkeypatch.setattr(gate.resolve, "run", self.resolve)
        monkeypatch.setattr(gate.resolve, "unmade", lambda store, model: None)
        monkeypatch.setattr(gate.quantize, "run", self.quantize)
        monkeypatch.setattr(gate.inspect, "run", self.inspect)
        monkeypatch.setattr(gate.serve_replay, "run", self.replay)
        monkeypatch.setattr(gate, "make_plan", self.plan)
        monkeypatch.setattr(gate, "can_overlap", lambda plan, weight_bytes: self.overlap)

    def _do(self, what: str) -> None:
        if hook := self.hooks.get(what):
            hook()

    def resolve(
        self, store: Store, model: str, progress: Progress, download: object, template: Path | None = None
    ) -> Checkpoint:
        self._do("resolve")
        path = store.root / "fake-baseline"
        digest = write_checkpoint(path, "baseline", 1000)
        return Checkpoint(path, model, None, digest, 1000, "FakeForCausalLM", "template")

    def plan(self, serving: object, store: Store) -> EnginePlan:
        self._do("plan")
        return EnginePlan(
            name="vllm",
            version="9.9.9",
            device="cpu",
            hardware="a fake",
            flags=("--seed", "0"),
            environment={},
            chat_template=None,
            python=Path("/fake"),
            env_digest="ee" * 32,
            kv_cache_gib=1,
            startup_timeout_s=1,
            speed_representative=False,
        )

    def quantize(
        self,
        store: Store,
        checkpoint: Checkpoint,
        recipe: Recipe,
        calibration: Path,
        golden: GoldenSet,
        progress: Progress,
    ) -> tuple[StageOutput, Checkpoint]:
        weight_bytes = round(checkpoint.weight_bytes * (1 - self.saved))

        def build(directory: Path) -> None:
            self.done.append("quantize")
            self._do("quantize")

        output = store.make("quantize", {"checkpoint": checkpoint.digest, "recipe": recipe.name}, build)
        path = store.root / f"fake-{self.candidate_name}"
        self.candidate_digest = write_checkpoint(path, self.candidate_name, weight_bytes)
        return output, Checkpoint(
            path, "fake", None, self.candidate_digest, weight_bytes, "FakeForCausalLM", "template"
        )

    def inspect(self, store: Store, *, candidate: Checkpoint, **settings: Any) -> StageOutput:
        def build(directory: Path) -> None:
            self._do("inspect")
            text = json.dumps([finding.as_json() for finding in self.findings])
            (directory / "findings.json").write_text(text, encoding="utf-8")

        inputs = {"candidate": candidate.digest, "findings": [finding.text for finding in self.findings]}
        return store.make("inspect", inputs, build)

    def replay(
        self,
        store: Store,
        *,
        checkpoint_path: Path,
        checkpoint_digest: str,
        golden: GoldenSet,
        plan: EnginePlan,
        label: str,
        repeats: int,
        sampling: Sampling,
        looks: Sequence[GoldenSet] = (),
        stop: Callable[[int, StageOutput], bool] = lambda number, output: False,
        **settings: Any,
    ) -> tuple[StageOutput, ...]:
        side = label.removeprefix("replay ")
        answers: Mapping[str, Answer] = {"baseline": self.baseline, "candidate": self.candidate}
        prompt = self.template_of_candidate if side == "candidate" else "same"
        engine = {
            **plan.facts(),
            "identity": plan.identity(),
            "running": {"version": plan.version, "settings": {"dtype": "bfloat16"}},
        }
        engine["running"] |= self.engine_of_candidate if side == "candidate" else {}
        tokens = self.canary if side == "candidate" else FakeMachine.canary
        engine["canary"] = {"short": {"tokens": list(tokens), "finite": True}}

        def build(part: GoldenSet, number: int, name: str, answer: Answer, directory: Path) -> None:
            self.done.append(f"start {name}")
            self._do(name)
            numbers = {turn.id: number for number, turn in enumerate(golden.turns)}
            drawn = repeat_sampling(sampling, number)
            lines = [_record(turn, drawn, answer(numbers[turn.id]), prompt).line() for turn in part.turns]
            (directory / "replies.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            log = self.warning if name == "candidate" else ""
            (directory / "server.log").write_text(log, encoding="utf-8")
            (directory / "engine.json").write_text(json.dumps(engine) + "\n", encoding="utf-8")
            self.done.append(f"end {name}")

        def make(part: GoldenSet, number: int, name: str, answer: Answer) -> StageOutput:
            inputs = {"checkpoint": checkpoint_digest, "golden": part.digest, "repeat": number}
            return store.make("replay", inputs, partial(build, part, number, name, answer), resumable=True)

        for number, part in enumerate(looks, 1):
            output = make(part, 0, f"look {number}", answers[side])
            if stop(number, output):
                return (output,)
        name, again = ("repeat", self.repeat or self.baseline) if side == "baseline" else ("sample", answers[side])
        replays = [(side, answers[side]), *[(name, again)] * repeats]
        return tuple(make(golden, number, name, answer) for number, (name, answer) in enumerate(replays))


def _record(turn: Turn, sampling: Sampling, right: bool, prompt: str) -> Record:
    order = str(turn.messages[-1]["content"]).split()[-1]
    if right:
        reply = Reply(turn.id, tool_calls=(ToolCall("get_order", json.dumps({"order_id": order})),))
    else:
        reply = Reply(turn.id, content="Which order is it?", finish_reason="stop", completion_tokens=5)
    digest = request_digest(build_request(turn, sampling))
    return Record(turn.id, digest, reply, f"{prompt} {turn.id}", 20, 0.1, 1)
