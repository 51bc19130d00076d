"""A gate whose policy asks for general ability: both servers are asked, and what comes out weighs in the verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, write_golden, write_policy

from pipeline import gate
from pipeline.bundle.verifying import opened, verify
from pipeline.errors import GoldenSetError, RecordError, SettingsError, Verdict
from pipeline.evidence.record import read_decision
from pipeline.progress import Silent
from pipeline.reporting import RunFacts
from pipeline.reporting.markdown import summary_markdown
from pipeline.reporting.terminal import summary_text
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.settings import PROJECT_ROOT
from pipeline.stages import general
from pipeline.store import StageOutput, Store

ITEMS = 120


@dataclass
class Asked:
    """Stands for the servers of both sides and for lm-eval, which asks them."""

    passed: dict[str, int] = field(default_factory=lambda: {"baseline": 100, "candidate": 100})
    """Items that a side passes, the first ones."""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    machine: FakeMachine = field(default_factory=FakeMachine)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine.install(monkeypatch)
        monkeypatch.setattr(gate.serve_replay, "run", self.replay)
        monkeypatch.setattr(general, "run_worker", self.worker)
        monkeypatch.setattr(general.environments, "provide", lambda name, progress: Path("/python"))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)

    def replay(
        self, store: Store, *, label: str, probes: Sequence[Callable[..., object]], **settings: Any
    ) -> tuple[StageOutput, ...]:
        outputs = self.machine.replay(store, label=label, **settings)

        class Server:
            url = label.removeprefix("replay ")
            check = staticmethod(lambda: None)

        for probe in probes:
            probe(lambda: Server)
        return outputs

    def worker(self, script: str, job: dict[str, Any], *, folder: Path, **_: Any) -> dict[str, Any]:
        self.jobs.append(job)
        for entry, task in job["tasks"].items():
            lines = [
                {
                    "id": f"{task['task']}#{number}",
                    **dict.fromkeys(("doc_hash", "prompt_hash", "target_hash"), str(number)),
                    "target": "right",
                    "prompt": [{"role": "user", "content": f"question {number}"}],
                    "responses": ["right" if number < self.passed[job["url"]] else "<b>wrong</b>"],
                    "answered": True,
                    "value": float(number < self.passed[job["url"]]),
                }
                for number in range(ITEMS)
            ]
            (folder / f"samples-{entry}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            facts = {**task, "lm_eval": "0.4.13", "versions": {task["task"]: 1.0}, "limit": None, "items": ITEMS}
            (folder / f"facts-{entry}.json").write_text(json.dumps(facts))
        (folder / "job.json").write_text("{}")
        return {}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    fake = Asked()
    fake.install(monkeypatch)
    return fake


def request_of(tmp_path: Path, tasks: str = "{reading: {margin: 0.1, floor: 0.5}}", **further: Any) -> Request:
    policy, golden = write_policy(tmp_path / "gate.yaml"), write_golden(tmp_path / "orders")
    section = f"general: {{suite: own, tasks: {tasks}}}\n"
    policy.write_text(section + policy.read_text(encoding="utf-8"), encoding="utf-8")
    return Request(model="some/model", golden=str(golden), policy=policy, **further)


def run_gate(request: Request, tmp_path: Path) -> RunResult:
    result = run(request, Store(tmp_path / "home"), Silent())
    with opened(result.directory) as root:
        assert verify(root, result.directory).differences == ()  # whatever came out is derived again
    return result


def test_both_sides_are_asked_alike_and_the_record_tells(asked: Asked, tmp_path: Path) -> None:
    request = request_of(tmp_path)
    result = run_gate(request, tmp_path)
    assert result.verdict is Verdict.ACCEPT
    assert sorted(job["url"] for job in asked.jobs) == ["baseline", "candidate"]
    first, second = ({name: v for name, v in job.items() if name not in ("url", "output")} for job in asked.jobs)
    assert {**first, "tokenizer": ""} == {**second, "tokenizer": ""}
    told = result.decision["general"]
    assert (told["suite"], told["items"]) == ("own", ITEMS)
    assert told["tasks"]["reading"]["lm_eval"] == "0.4.13"
    assert [(row["metric"], row["n"], row["verdict"]) for row in told["metrics"]] == [
        ("general.reading", ITEMS, "ACCEPT")
    ]
    assert run_gate(request, tmp_path).verdict is Verdict.ACCEPT
    assert len(asked.jobs) == 2  # kept


def test_a_loss_there_rejects_although_every_golden_turn_holds(asked: Asked, tmp_path: Path) -> None:
    asked.passed["candidate"] = 60
    result = run_gate(request_of(tmp_path), tmp_path)
    assert result.verdict is Verdict.REJECT
    (reason,) = result.decision["reasons"]
    assert (reason["code"], reason["metric"]) == ("METRIC_LOSS", "general.reading")
    assert "general.reading" in result.decision["to_change"]
    assert len(result.decision["general"]["lost"]) == 20
    page = (result.directory / "report.html").read_text(encoding="utf-8")
    assert "General ability" in page
    assert "&lt;b&gt;wrong&lt;/b&gt;" in page
    facts = RunFacts("m", "r", "c")
    for text in (summary_text(result.decision, facts), summary_markdown(result.decision, facts)):
        assert "83.3" in text  # 100 of 120
        assert "50.0" in text


def test_too_few_items_to_tell_are_inconclusive(asked: Asked, tmp_path: Path) -> None:
    asked.passed["candidate"] = 95
    result = run_gate(request_of(tmp_path, "{reading: {margin: 0.05}}"), tmp_path)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "suite with more items for general.reading" in result.decision["next_step"]


def test_a_task_that_is_only_watched_decides_nothing(asked: Asked, tmp_path: Path) -> None:
    asked.passed["candidate"] = 0
    result = run_gate(request_of(tmp_path, "{reading: {gating: false, margin: 0.05}}"), tmp_path)
    assert result.verdict is Verdict.ACCEPT
    assert result.decision["general"]["metrics"][0]["b"] == 100


def test_without_the_section_nothing_is_asked(asked: Asked, tmp_path: Path) -> None:
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")
    result = run_gate(Request(model="some/model", golden=str(golden), policy=policy), tmp_path)
    assert result.verdict is Verdict.ACCEPT
    assert asked.jobs == []
    assert result.decision["general"] is None


def test_calibration_text_that_holds_an_item_is_refused_first(asked: Asked, tmp_path: Path) -> None:
    lines = (PROJECT_ROOT / "golden_sets" / "general" / "reading.jsonl").read_text(encoding="utf-8").splitlines()
    leak = {"messages": [{"role": "user", "content": json.loads(lines[0])["question"]}]}
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "log.jsonl").write_text(json.dumps(leak) + "\n")
    with pytest.raises(GoldenSetError, match="reading-000"):
        run_gate(request_of(tmp_path, calibration=str(tmp_path / "text")), tmp_path)
    assert asked.machine.done == []


def test_calibration_text_that_cannot_be_read_is_no_fault_of_the_suite(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "log.jsonl").write_text("no json\n")
    with pytest.raises(GoldenSetError, match=r"^calibration text:\n.*log\.jsonl:1: .*not JSON") as raised:
        run_gate(request_of(tmp_path, calibration=str(tmp_path / "text")), tmp_path)
    assert raised.value.remedy == "Mend the lines named, then run again."


def test_an_unknown_task_is_a_fault_of_the_settings(asked: Asked, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="poetry"):
        run_gate(request_of(tmp_path, "{poetry: {margin: 0.1}}"), tmp_path)


def test_a_record_that_accepts_beside_a_lost_task_contradicts_itself(asked: Asked, tmp_path: Path) -> None:
    result = run_gate(request_of(tmp_path), tmp_path)
    path = result.directory / "decision.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["general"]["metrics"][0]["verdict"] = "REJECT"
    path.write_text(json.dumps(record))
    with pytest.raises(RecordError, match="ACCEPT, though a gating metric is not"):
        read_decision(path)
