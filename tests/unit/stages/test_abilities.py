"""General ability of both sides, paired: on samples made by hand, and through the stage with lm-eval replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import FakeMachine

from pipeline.errors import QuantizeError, RecordError, ReplayError, SettingsError
from pipeline.general.suite import Suite
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.settings import GateSettings, GeneralPolicy, MetricPolicy, SuiteTask
from pipeline.stages import abilities, general
from pipeline.stages.abilities import Abilities
from pipeline.store import StageOutput, Store

N = 100
SUITE = Suite("made", None, {"sums": SuiteTask(task="gate_sums", metric="acc", interface="chat")})
VERSIONS = {"lm_eval": "0.4.13", "versions": {"gate_sums": 1.0}}


def policy(margin: float = 0.05, *, floor: float = 0.0, gating: bool = True) -> GateSettings:
    rule = MetricPolicy(margin=margin, floor=floor, gating=gating)
    support = {"policy_adherence": MetricPolicy(margin=0.1)}
    return GateSettings(metrics=support, general=GeneralPolicy(suite="made", tasks={"sums": rule}))


def write_side(
    folder: Path, passed: Mapping[int, float | None], *, prompt: str = "what is", facts: dict[str, Any] | None = None
) -> Path:
    """Samples of the items named; None is an item without an answer."""
    folder.mkdir()
    lines = [
        {
            "id": f"gate_sums#{number}",
            "doc_hash": f"doc {number}",
            "prompt_hash": f"{prompt} {number}",
            "target_hash": f"target {number}",
            "target": str(number),
            "prompt": [{"role": "user", "content": f"{prompt} {number}"}],
            "responses": [] if value is None else ["so it is" if value else "no idea"],
            "answered": value is not None,
            "value": value,
        }
        for number, value in passed.items()
    ]
    (folder / "samples-sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = {**SUITE.tasks["sums"].model_dump(), **VERSIONS, "limit": None, "items": len(lines), **(facts or {})}
    (folder / "facts-sums.json").write_text(json.dumps(told))
    return folder


def compared(tmp_path: Path, rules: GateSettings, baseline: Path, candidate: Path) -> dict[str, Any]:
    output = abilities.compare(Store(tmp_path / "store"), SUITE, baseline, candidate, rules)
    found: dict[str, Any] = json.loads((output.path / "general.json").read_text(encoding="utf-8"))
    return found


def sides(tmp_path: Path, before: Mapping[int, float | None], after: Mapping[int, float | None]) -> tuple[Path, Path]:
    return write_side(tmp_path / "before", before), write_side(tmp_path / "after", after)


ALL = dict.fromkeys(range(N), 1.0)


def test_items_are_paired_by_document_and_bounded_by_tango(tmp_path: Path) -> None:
    """(b, c, n) = (12, 12, 400): the one-sided 95 % lower limit is -2.11 points (Tango 1998)."""
    before: dict[int, float | None] = dict.fromkeys(range(400), 1.0)
    after = dict(before)
    before |= dict.fromkeys(range(12), 0.0)
    after |= dict.fromkeys(range(388, 400), 0.0)
    found = compared(tmp_path, policy(), *sides(tmp_path, before, dict(reversed(after.items()))))
    (row,) = found["metrics"]
    assert (row["metric"], row["n"], row["b"], row["c"]) == ("general.sums", 400, 12, 12)
    assert row["lower"] == pytest.approx(-0.0211, abs=5e-5)
    assert row["verdict"] == "ACCEPT"
    assert found["reasons"] == []
    assert found["tasks"]["sums"]["versions"] == {"gate_sums": 1.0}
    assert found["items"] == 400


def test_equal_sides_still_need_enough_items(tmp_path: Path) -> None:
    """Without a flip it is Clopper's and Pearson's: at worst 1 - 0.05^(1/100) are lost, the "rule of three"."""
    found = compared(tmp_path, policy(0.02), *sides(tmp_path, ALL, ALL))
    assert found["metrics"][0]["lower"] == pytest.approx(0.05 ** (1 / 100) - 1, abs=1e-5)
    (reason,) = found["reasons"]
    assert (reason["code"], reason["verdict"]) == ("METRIC_UNDECIDED", "INCONCLUSIVE")


def test_a_proved_loss_rejects_and_the_flips_are_kept(tmp_path: Path) -> None:
    after = ALL | dict.fromkeys(range(20), 0.0)
    before_dir, after_dir = sides(tmp_path, ALL, after)
    found = compared(tmp_path, policy(), before_dir, after_dir)
    assert [reason["code"] for reason in found["reasons"]] == ["METRIC_LOSS"]
    assert found["reasons"][0]["metric"] == "general.sums"
    output = abilities.compare(Store(tmp_path / "store"), SUITE, before_dir, after_dir, policy())
    assert output.reused
    flips = [json.loads(line) for line in (output.path / "general_flips.jsonl").read_text().splitlines()]
    assert len(flips) == 20
    assert flips[0] | {"prompt": None} == {
        "id": "gate_sums#0",
        "metric": "general.sums",
        "direction": "pass_to_fail",
        "prompt": None,
        "target": "0",
        "baseline": "so it is",
        "candidate": "no idea",
    }
    items = [json.loads(line) for line in (output.path / "general_items.jsonl").read_text().splitlines()]
    assert len(items) == N
    assert {item["candidate"] for item in items} == {"passed", "failed"}


def test_a_figure_below_one_is_no_pass(tmp_path: Path) -> None:
    found = compared(tmp_path, policy(), *sides(tmp_path, ALL, ALL | {0: 0.5}))
    assert found["metrics"][0]["b"] == 1


def test_an_item_without_an_answer_is_unscorable_not_failed(tmp_path: Path) -> None:
    found = compared(tmp_path, policy(), *sides(tmp_path, ALL, ALL | {3: None}))
    (row,) = found["metrics"]
    assert (row["verdict"], row["unscorable_candidate"], row["b"]) == ("INVALID", 1, 0)
    assert [(reason["code"], reason["verdict"]) for reason in found["reasons"]] == [("UNSCORABLE", "INVALID")]


def test_an_empty_answer_fails_whatever_the_task_makes_of_it(tmp_path: Path) -> None:
    before, after = sides(tmp_path, ALL, ALL)
    path = after / "samples-sums.jsonl"
    path.write_text(path.read_text().replace('"so it is"', '" "', 1))
    found = compared(tmp_path, policy(), before, after)
    assert (found["metrics"][0]["b"], found["metrics"][0]["unscorable_candidate"]) == (1, 0)


def test_an_item_that_one_side_lacks_is_missing(tmp_path: Path) -> None:
    fewer = {number: value for number, value in ALL.items() if number != 7}
    found = compared(tmp_path, policy(), *sides(tmp_path, ALL, fewer))
    assert "UNSCORABLE" in [reason["code"] for reason in found["reasons"]]


def test_other_questions_are_no_comparison(tmp_path: Path) -> None:
    before, after = write_side(tmp_path / "before", ALL), write_side(tmp_path / "after", ALL, prompt="tell me")
    found = compared(tmp_path, policy(), before, after)
    (reason,) = found["reasons"]
    assert (reason["code"], reason["verdict"]) == ("CONDITIONS_DIFFER", "INVALID")
    assert "100 of 100 items" in reason["text"]


def test_another_version_of_a_task_is_no_comparison(tmp_path: Path) -> None:
    before = write_side(tmp_path / "before", ALL)
    after = write_side(tmp_path / "after", ALL, facts={"versions": {"gate_sums": 2.0}})
    assert [r["code"] for r in compared(tmp_path, policy(), before, after)["reasons"]] == ["CONDITIONS_DIFFER"]


def test_a_limited_run_feeds_no_verdict(tmp_path: Path) -> None:
    before, after = write_side(tmp_path / "before", ALL), write_side(tmp_path / "after", ALL, facts={"limit": 100})
    with pytest.raises(RecordError, match="of a run with a limit"):
        compared(tmp_path, policy(), before, after)


@pytest.mark.parametrize("facts", [{"items": N + 1}, {"items": "many"}])
def test_fewer_samples_than_lm_eval_counted_are_an_error(tmp_path: Path, facts: dict[str, Any]) -> None:
    before, after = write_side(tmp_path / "before", ALL), write_side(tmp_path / "after", ALL, facts=facts)
    with pytest.raises(RecordError):
        compared(tmp_path, policy(), before, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"value": 1.0', '"value": NaN'),
        ('"value": 1.0', '"value": 2'),
        ('"answered": true', '"answered": 1'),
        ("{", ""),
    ],
)
def test_a_damaged_sample_is_an_error_with_its_line(tmp_path: Path, old: str, new: str) -> None:
    before, after = sides(tmp_path, ALL, ALL)
    path = after / "samples-sums.jsonl"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RecordError, match=r"samples-sums\.jsonl:1: not a sample"):
        compared(tmp_path, policy(), before, after)


def test_an_item_given_twice_is_an_error(tmp_path: Path) -> None:
    before, after = sides(tmp_path, ALL, ALL)
    path = after / "samples-sums.jsonl"
    path.write_text(path.read_text().replace('gate_sums#1"', 'gate_sums#0"', 1))
    with pytest.raises(RecordError, match="gate_sums#0 is given twice"):
        compared(tmp_path, policy(), before, after)


def test_a_baseline_below_its_floor_is_no_yardstick(tmp_path: Path) -> None:
    weak = ALL | dict.fromkeys(range(60), 0.0)
    found = compared(tmp_path, policy(floor=0.5), *sides(tmp_path, weak, weak))
    assert [reason["code"] for reason in found["reasons"]] == ["BASELINE_BELOW_FLOOR"]


def test_a_task_that_is_only_watched_argues_for_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, policy(gating=False), *sides(tmp_path, ALL, dict.fromkeys(range(N), 0.0)))
    assert found["reasons"] == []
    assert found["metrics"][0]["b"] == N


# --- asking ------------------------------------------------------------------------------------


class FakeServer:
    """Stands for the running server of a replay."""

    url = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.checked = 0

    def check(self) -> None:
        self.checked += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Jobs that lm-eval's worker, which is replaced, was given."""
    jobs: list[dict[str, Any]] = []

    def worker(script: str, job: dict[str, Any], *, folder: Path, **options: Any) -> dict[str, Any]:
        assert Path(script).is_file()
        jobs.append(job)
        write_side(folder / "made", ALL)
        for path in (folder / "made").iterdir():
            path.rename(folder / path.name)
        (folder / "made").rmdir()
        (folder / "job.json").write_text("{}")
        (folder / "cache-sums_rank0.db").write_text("")
        return {}

    monkeypatch.setattr(general, "run_worker", worker)
    monkeypatch.setattr(general.environments, "provide", lambda name, progress: Path("/python"))
    return jobs


def ask(store: Store, server: FakeServer, limit: int | None = None) -> StageOutput:
    return general.run(
        store,
        SUITE,
        lambda: server,  # type: ignore[arg-type, return-value]
        checkpoint=Path("/checkpoint"),
        checkpoint_digest="ba" * 32,
        plan=FakeMachine().plan(None, store),
        policy=policy(),
        max_model_len=4096,
        progress=Silent(),
        side="baseline",
        limit=limit,
    )


def test_a_side_is_asked_once_under_the_policys_conditions(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    store, server = Store(tmp_path), FakeServer()
    output = ask(store, server)
    assert ask(store, server).reused
    (job,) = asked
    assert (job["concurrency"], job["attempts"], job["timeout_s"], job["max_length"]) == (8, 2, 300, 4096)
    assert job["tasks"] == {"sums": {"task": "gate_sums", "metric": "acc", "filter": "none", "interface": "chat"}}
    assert job["limit"] is None
    kept = {path.name for path in output.path.iterdir()}
    assert kept == {"samples-sums.jsonl", "facts-sums.json", "stage.json"}


def test_a_limited_run_has_an_output_of_its_own(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    store, server = Store(tmp_path), FakeServer()
    assert ask(store, server, limit=5).key != ask(store, server).key
    assert [job["limit"] for job in asked] == [5, None]


def test_a_failure_names_the_stage_and_keeps_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer()

    def fails(script: str, job: dict[str, Any], *, folder: Path, **options: Any) -> dict[str, Any]:
        (folder / "facts-sums.json").write_text("{}")
        raise QuantizeError("worker.py failed", "Look.")

    monkeypatch.setattr(general, "run_worker", fails)
    monkeypatch.setattr(general.environments, "provide", lambda name, progress: Path("/python"))
    with pytest.raises(ReplayError, match=r"general baseline: worker\.py failed"):
        ask(Store(tmp_path), server)
    assert server.checked == 1
    assert [path.name for path in tmp_path.rglob("facts-sums.json")] == ["facts-sums.json"]


def test_an_unknown_suite_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="unknown name 'made'"):
        Abilities(Store(tmp_path), policy(), Silent()).demand_unseen(tmp_path)


def test_what_both_sides_said_becomes_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    before, after = sides(tmp_path, ALL, ALL | dict.fromkeys(range(30), 0.0))
    outputs = iter(StageOutput("general", path.name, path, False, 1.0) for path in (before, after))
    monkeypatch.setattr(general, "run", lambda *positional, **named: next(outputs))
    monkeypatch.setattr(abilities, "load_suite", lambda name, tasks: SUITE)
    made = Abilities(store, policy(), Silent())
    plan = FakeMachine().plan(None, store)
    for side in ("baseline", "candidate"):
        checkpoint = Checkpoint(tmp_path, "m", None, "ba" * 32, 1, "F", "t")
        made.ask(side, FakeServer, checkpoint, plan, 4096)  # type: ignore[arg-type]
    made.compare()
    (reason,) = made.reasons()
    assert (reason.code, reason.verdict, reason.metric) == ("METRIC_LOSS", "REJECT", "general.sums")
