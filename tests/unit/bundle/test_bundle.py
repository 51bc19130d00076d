"""Evidence bundles: the same verdict again from the raw replies, and every edit named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import FakeMachine

from pipeline.bundle import comparing, verifying
from pipeline.bundle.archive import pack, unpack
from pipeline.bundle.layout import EVIDENCE_FILE, MANIFEST, read_manifest, write_manifest
from pipeline.bundle.turns import read_turns, write_turns
from pipeline.bundle.verifying import Verification, opened, verify
from pipeline.digests import file_digest
from pipeline.errors import RecordError, UsageError, Verdict
from pipeline.golden import GoldenSet
from pipeline.runner import RunResult

Gated = Callable[..., RunResult]


def verified(path: Path) -> Verification:
    with opened(path) as root:
        return verify(root, path if path.is_dir() else None)


def told(result: Verification) -> str:
    return "\n".join(map(str, result.differences))


# --- the same verdict again --------------------------------------------------------------------

VERDICTS: dict[Verdict, dict[str, Callable[[int], bool]]] = {
    Verdict.ACCEPT: {},
    Verdict.INCONCLUSIVE: {"candidate": lambda number: number not in range(0, 27, 3)},
    Verdict.REJECT: {"candidate": lambda number: number % 2 > 0},
    Verdict.INVALID: {"baseline": lambda number: number < 6},
}


@pytest.mark.parametrize(("verdict", "code"), list(zip(VERDICTS, (0, 20, 10, 30), strict=True)))
def test_every_verdict_is_derived_again_from_its_bundle_alone(
    verdict: Verdict, code: int, machine: FakeMachine, gated: Gated, tmp_path: Path
) -> None:
    for side, answers in VERDICTS[verdict].items():
        setattr(machine, side, answers)
    result = gated()
    alone = Path(shutil.copy(result.directory / EVIDENCE_FILE, tmp_path / "sent.tar.zst"))
    shutil.rmtree(result.directory.parents[1])  # the store and all runs: as on another machine
    found = verified(alone)
    assert told(found) == ""
    assert (found.verdict, found.exit_code) == (verdict, code)
    assert found.decision == result.decision


@pytest.mark.parametrize(
    "how",
    [
        {"margin": "0.02"},  # too few turns: stopped before anything is served
        {"margin": "0.02", "explore": True},
        {"policy": "sampling: {temperature: 0.7, samples: 3}\n"},
        {"policy": "sample: {turns: 60}\n"},
    ],
    ids=["underpowered", "explored", "sampled answers", "sample of the set"],
)
def test_runs_of_other_kinds_are_derived_again(how: dict[str, Any], gated: Gated) -> None:
    assert told(verified(gated(**how).directory)) == ""


def test_a_candidate_given_up_at_a_look_is_derived_again(machine: FakeMachine, gated: Gated) -> None:
    machine.candidate = lambda number: False
    result = gated(policy="looks: [0.5]\n")
    assert result.decision["look"] == 1
    found = verified(result.directory)
    assert (told(found), found.exit_code) == ("", 10)


def test_sides_served_otherwise_are_seen_again(machine: FakeMachine, gated: Gated) -> None:
    machine.template_of_candidate = "other"
    found = verified(gated().directory)
    assert (told(found), found.exit_code) == ("", 30)


def test_a_bundle_holds_what_the_verdict_rests_on(accepted: Path) -> None:
    with opened(accepted) as root:
        names = set(read_manifest(root)["files"])
        policy = json.loads((root / "policy.json").read_text("utf-8"))
        requests = [json.loads(line) for line in (root / "requests.jsonl").read_text("utf-8").splitlines()]
        weights = json.loads((root / "checkpoints" / "candidate.json").read_text("utf-8"))
    for replay in ("baseline", "baseline_repeat_1", "candidate"):
        assert {
            f"replays/{replay}/{n}" for n in ("replies.jsonl", "outcomes.jsonl", "engine.json", "server.log")
        } <= names
    assert {"decision.json", "flips.jsonl", "golden.json", "environments/pipeline.txt"} <= names
    assert policy["metrics"]["tool_call_correct"]["margin"] == 0.1
    assert len(requests) == 90 and requests[0]["body"]["messages"][-1]["content"] == "where is order A-000"
    assert set(weights) == {"config.json", "model.safetensors"}


def test_the_same_evidence_gives_the_same_bytes(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path / "one")
    pack(tmp_path / "one", tmp_path / "again.tar.zst")
    assert file_digest(tmp_path / "again.tar.zst") == file_digest(accepted / EVIDENCE_FILE)


def test_turns_come_back_as_they_were(shipped: GoldenSet, tmp_path: Path) -> None:
    write_turns(tmp_path / "turns.jsonl", shipped.turns)
    back = read_turns(tmp_path / "turns.jsonl")
    assert back == shipped.turns


def test_evidence_names_arguments_in_the_order_of_the_set(shipped: GoldenSet, tmp_path: Path) -> None:
    write_turns(tmp_path / "turns.jsonl", shipped.turns)
    orders = [
        [list(call.arguments) for turn in some for call in turn.expect.tool_calls]
        for some in (shipped.turns, read_turns(tmp_path / "turns.jsonl"))
    ]
    assert any(names != sorted(names) for names in orders[0])  # else nothing is shown
    assert orders[0] == orders[1]


# --- every edit is named -----------------------------------------------------------------------


def edit_line(name: str, number: int, change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        lines = (root / name).read_text("utf-8").splitlines()
        value = json.loads(lines[number])
        change(value)
        lines[number] = json.dumps(value, ensure_ascii=False)
        (root / name).write_text("\n".join(lines) + "\n", "utf-8")

    return edit


def edit_json(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        value = json.loads((root / name).read_text("utf-8"))
        change(value)
        (root / name).write_text(json.dumps(value, indent=1), "utf-8")

    return edit


def wrong_call(line: dict[str, Any]) -> None:
    line["reply"]["tool_calls"][0]["arguments"] = '{"order_id": "B-999"}'


def other_words(line: dict[str, Any]) -> None:
    line["reply"]["content"] = "Let me see."


def metric(record: dict[str, Any], name: str = "tool_call_correct") -> dict[str, Any]:
    (row,) = [row for row in record["metrics"] if row["metric"] == name]
    return dict(row) if row is None else row


EDITS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "a reply that now fails": (
        edit_line("replays/candidate/replies.jsonl", 4, wrong_call),
        ["replays/candidate/replies.jsonl:5: order-004#1", "order-004#1 tool_call_correct", "decision.json.metrics"],
    ),
    "a reply that scores the same": (
        edit_line("replays/baseline/replies.jsonl", 7, other_words),
        ["replays/baseline/replies.jsonl:8: order-007#1"],
    ),
    "a reply of the noise floor": (
        edit_line("replays/baseline_repeat_1/replies.jsonl", 2, wrong_call),
        ["replays/baseline_repeat_1/replies.jsonl:3: order-002#1", "noise"],
    ),
    "an outcome": (
        edit_line("replays/candidate/outcomes.jsonl", 0, lambda line: line.update(status="failed")),
        ["replays/candidate/outcomes.jsonl:1"],
    ),
    "a margin of the policy": (
        edit_json("policy.json", lambda policy: policy["metrics"]["tool_call_correct"].update(margin=0.5)),
        ["policy.json", "metrics[tool_call_correct].margin: recorded 0.1, derived 0.5", "inputs.policy"],
    ),
    "a margin of the record": (
        edit_json("decision.json", lambda record: metric(record).update(margin=0.2)),
        ["decision.json.metrics[tool_call_correct].margin: recorded 0.2, derived 0.1"],
    ),
    "a figure": (
        edit_json("decision.json", lambda record: metric(record).update(lower=-0.01)),
        ["decision.json.metrics[tool_call_correct].lower: recorded -0.01"],
    ),
    "the verdict": (
        edit_json("decision.json", lambda record: record.update(verdict="REJECT", exit_code=10)),
        ['decision.json.verdict: recorded "REJECT", derived "ACCEPT"', "decision.json.exit_code"],
    ),
    "the digest of the candidate": (
        edit_json("decision.json", lambda record: record["candidate"].update(digest="0" * 64)),
        ["decision.json.candidate.digest", "replays/candidate.checkpoint"],
    ),
    "the digest of a weight file": (
        edit_json("checkpoints/candidate.json", lambda files: files["model.safetensors"].update(sha256="0" * 64)),
        ["checkpoints/candidate.json", "decision.json.candidate.digest"],
    ),
    "the size of the weights": (
        edit_json("checkpoints/candidate.json", lambda files: files["model.safetensors"].update(bytes=1)),
        ["decision.json.candidate.weight_bytes: recorded 600, derived 1"],
    ),
    "the digest of the golden set": (
        edit_json("golden.json", lambda golden: golden.update(digest="0" * 64)),
        ["golden.json.digest", "decision.json.golden_set.digest"],
    ),
    "what a turn expects": (
        edit_line("turns.jsonl", 3, lambda turn: turn["expect"].update(tool_calls=[], behaviour="answer")),
        ["turns.jsonl:4: order-003#1", "order-003#1 tool_call_correct"],
    ),
    "what was asked": (
        edit_line("requests.jsonl", 1, lambda line: line["body"].update(temperature=1.0)),
        ["requests.jsonl:2 (order-001#1)"],
    ),
    "the engine's version": (
        edit_json("replays/candidate/engine.json", lambda engine: engine["running"].update(version="0")),
        ["replays/candidate/engine.json", "lacks CONDITIONS_DIFFER"],
    ),
    "the code that decided": (
        edit_json("decision.json", lambda record: record["inputs"].update(decision_source="0" * 64)),
        ["decision.json.inputs.decision_source"],
    ),
    "a digest of replies": (
        edit_json("decision.json", lambda record: record["inputs"].update(candidate_replies="0" * 16)),
        ["replays/candidate.key"],
    ),
    "a reason taken away": (
        edit_json(
            "decision.stage.json", lambda stage: stage["inputs"].update(findings=[["NOISE", "INVALID", "x", None, {}]])
        ),
        ["decision.stage.json", "decision.json.verdict"],
    ),
    "a flag in the record": (
        edit_json("decision.json", lambda record: record["engine"].update(flags=["--seed", "1"])),
        ["decision.json.engine.flags"],
    ),
    "the pins": (
        lambda root: (root / "environments/serve-cpu.txt").write_text("x==1\n"),
        ["environments/serve-cpu.txt"],
    ),
    "a file taken away": (
        lambda root: (root / "flips.jsonl").unlink(),
        ["flips.jsonl: is in the manifest and missing"],
    ),
    "a file put in": (lambda root: (root / "more.txt").write_text("x"), ["more.txt: is not in the manifest"]),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named_and_is_no_accept(name: str, accepted: Path, tmp_path: Path) -> None:
    edit, named = EDITS[name]
    unpack(accepted / EVIDENCE_FILE, tmp_path / "root")
    edit(tmp_path / "root")
    pack(tmp_path / "root", tmp_path / "edited.tar.zst")
    found = verified(tmp_path / "edited.tar.zst")
    assert found.exit_code == 30
    for words in named:
        assert words in told(found)


def test_an_edit_that_renews_the_manifest_is_caught_by_deciding_anew(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path)
    edit_line("replays/candidate/replies.jsonl", 4, wrong_call)(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text("utf-8"))
    name = "replays/candidate/replies.jsonl"
    manifest["files"][name]["sha256"] = file_digest(tmp_path / name)
    (tmp_path / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    found = verify(tmp_path)
    assert "order-004#1 tool_call_correct" in told(found) and found.exit_code == 30


def renewed(root: Path, *edits: Callable[[Path], None]) -> str:
    """What is named when somebody edits files and renews the manifest as well."""
    for edit in edits:
        edit(root)
    facts = {name: read_manifest(root)[name] for name in ("run", "made_by")}
    for name in (MANIFEST, "lines.json"):
        (root / name).unlink()
    write_manifest(root, facts)
    return told(verify(root))


def test_an_exploratory_run_is_none_only_where_the_set_can_decide(gated: Gated, tmp_path: Path) -> None:
    unpack(gated(margin="0.02", explore=True).directory / EVIDENCE_FILE, tmp_path / "root")
    edits = [
        edit_json("manifest.json", lambda manifest: manifest["run"].update(explore=False)),
        edit_json("decision.stage.json", lambda stage: stage["inputs"].update(findings=[])),
    ]
    assert "decision.stage.json.inputs.findings: lacks UNDERPOWERED" in renewed(tmp_path / "root", *edits)


def test_a_noise_floor_that_was_taken_out_is_missed(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path / "root")
    found = renewed(tmp_path / "root", lambda root: shutil.rmtree(root / "replays" / "baseline_repeat_1"))
    assert "decision.stage.json.inputs.findings: lacks NO_DATA: the noise floor is not known" in found


DRIFT = {
    **{"turns": 4, "compared": 4, "differing": [], "missing": [], "unread": {}, "top_k": 20, "turn_means": {}},
    "rows": [
        {
            **dict.fromkeys(("median", "p90", "p95", "p99", "p999", "maximum", "error", "same_top"), 0.1),
            **dict.fromkeys(("mean_change", "rms_change"), 0.1),
            **dict.fromkeys(("perplexity_baseline", "perplexity_candidate", "perplexity_ratio"), 2.0),
            **{"group": "all", "name": "all tokens", "tokens": 40, "mean": 5.0},
            **{"mean_interval": None, "perplexity_ratio_interval": None},
        }
    ],
}


def test_drift_beyond_the_line_argues_whatever_the_record_says(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path / "root")
    edits = [
        edit_json("policy.json", lambda policy: policy.update(drift={"turns": 4, "catastrophe": 1.0})),
        edit_json("decision.stage.json", lambda stage: stage["inputs"]["context"].update(drift=DRIFT)),
    ]
    assert "lacks DRIFT: the candidate is another model" in renewed(tmp_path / "root", *edits)


GENERAL_RULE = {"gating": True, "margin": 0.05, "floor": 0.5}


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (None, "is missing, though the policy asks for it"),
        ({"verdict": "REJECT", "lower": -0.2}, "is REJECT, and the decision was not told"),
        ({"verdict": "ACCEPT", "lower": -0.2}, "is ACCEPT with a lower limit of -0.2"),
        ({"verdict": "ACCEPT", "lower": -0.01, "margin": 0.5}, "margin: recorded 0.5, derived 0.05"),
    ],
)
def test_general_ability_is_what_the_policy_demands(
    row: dict[str, Any] | None, named: str, accepted: Path, tmp_path: Path
) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path / "root")
    plain = json.loads((tmp_path / "root" / "decision.json").read_text("utf-8"))["metrics"][0]
    rows = [plain | GENERAL_RULE | {"metric": "general.sums"} | (row or {})]
    general = {"suite": "own", "digest": None, "items": 90, "tasks": {}, "metrics": rows, "lost": []} if row else None
    edits = [
        edit_json("policy.json", lambda p: p.update(general={"suite": "own", "tasks": {"sums": GENERAL_RULE}})),
        edit_json("decision.stage.json", lambda s: s["inputs"]["context"].update(general=general)),
    ]
    found = renewed(tmp_path / "root", *edits)
    assert "decision.json.general.metrics[general.sums]" in found and named in found


def test_a_pool_that_no_engine_told_is_no_gain(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path / "root")
    pool = {"name": "kv_tokens", "baseline": [1000.0], "candidate": [3000.0]}
    edit = edit_json("decision.stage.json", lambda stage: stage["inputs"]["benefit"].update(resources=[pool]))
    assert "decision.json.resources[0].baseline: recorded [1000.0], derived []" in renewed(tmp_path / "root", edit)


def test_the_kept_copies_of_a_run_must_be_those_of_its_evidence(kept: Path) -> None:
    record = json.loads((kept / "decision.json").read_text("utf-8"))
    record["next_step"] = "Ship it."
    (kept / "decision.json").write_text(json.dumps(record), "utf-8")
    assert 'decision.json.next_step: recorded "Ship it."' in told(verified(kept))


def test_other_code_that_comes_to_the_same_is_noted(accepted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying.decide_stage, "source_digest", lambda: "0" * 64)
    found = verified(accepted)
    assert found.exit_code == 0
    assert "other code" in found.notes[0]


# --- damage ------------------------------------------------------------------------------------

NESTED = "[" * 100_000


def first_line(name: str, text: str) -> Callable[[Path], None]:
    """Puts ``text`` in the place of the first line."""

    def edit(root: Path) -> None:
        path = root / name
        path.write_text(text + "\n" + path.read_text("utf-8").partition("\n")[2], "utf-8")

    return edit


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    **{
        f"a nested line of {name}": (first_line(name, NESTED), f"{name}:1: was edited")
        for name in ("requests.jsonl", "turns.jsonl", "replays/candidate/outcomes.jsonl")
    },
    "a nested reply": (
        first_line("replays/candidate/replies.jsonl", NESTED),
        "replies.jsonl:1: not a reply record: RecursionError",
    ),
    "an endless number of transcripts": (
        edit_json("golden.json", lambda golden: golden.update(transcripts=float("inf"))),
        "golden.json: incomplete: OverflowError",
    ),
    "digests of lines of another shape": (
        edit_json("lines.json", lambda lines: lines.update({"turns.jsonl": 1})),
        "lines.json: has digest",
    ),
    "inputs of another shape": (
        edit_json("decision.json", lambda record: record.update(inputs=[])),
        "nothing can be derived from it: AttributeError",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_a_difference(name: str, accepted: Path, tmp_path: Path) -> None:
    damage, named = DAMAGES[name]
    unpack(accepted / EVIDENCE_FILE, tmp_path)
    damage(tmp_path)
    found = verify(tmp_path)
    assert named in told(found) and found.exit_code == 30


def test_a_nested_line_of_flips_is_one_that_differs(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path)
    (tmp_path / "flips.jsonl").write_text(NESTED + "\n", "utf-8")
    (tmp_path / "other.jsonl").write_text("{}\n", "utf-8")
    (found,) = comparing.lines("flips.jsonl", tmp_path / "flips.jsonl", tmp_path / "other.jsonl")
    assert str(found) == "flips.jsonl:1: is not JSON, or nested too deeply to be read"


@pytest.mark.parametrize("files", [None, [], {"decision.json": None}, {"decision.json": {"sha256": 1}}])
def test_a_manifest_that_lists_no_files_is_an_error(files: Any, accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path)
    edit_json(MANIFEST, lambda manifest: manifest.update(files=files))(tmp_path)
    with pytest.raises(RecordError, match=r"manifest\.json: does not say"):
        verify(tmp_path)


def test_a_record_that_is_no_object_is_an_error(accepted: Path, tmp_path: Path) -> None:
    unpack(accepted / EVIDENCE_FILE, tmp_path)
    (tmp_path / "decision.json").write_text("[]", "utf-8")
    with pytest.raises(RecordError, match="not a decision record"):
        verify(tmp_path)


# --- files that are no bundles -----------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"not a bundle", b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00\x99\xe9\xd8\x51"])
def test_a_file_that_is_no_bundle_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(RecordError), opened(tmp_path / "x") as root:
        read_manifest(root)


def test_a_bundle_cut_short_is_an_error(accepted: Path, tmp_path: Path) -> None:
    whole = (accepted / EVIDENCE_FILE).read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match="cannot be read as a bundle"), opened(tmp_path / "cut"):
        pass


def test_a_bundle_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"), opened(tmp_path / "missing"):
        pass


def test_a_secret_in_the_golden_set_stops_the_bundle_without_being_shown(
    gated: Gated, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "A-000 is planted")
    machine.warning = "WARNING key A-000 is planted\n"
    with pytest.raises(RecordError, match=r"server\.log:1: the value of a secret environment variable") as caught:
        gated()
    assert "planted" not in str(caught.value)
