"""Comparisons of endpoints: verdicts, what they are conditional on, and what is reused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import write_replies
from openai_server import FakeServer

from pipeline import cli
from pipeline.comparing.comparing import Compared, CompareRequest, compare
from pipeline.comparing.declared import load_declarations
from pipeline.errors import ServerError, SettingsError, UsageError
from pipeline.progress import Silent
from pipeline.signoff import commands
from pipeline.signoff.keys import KEYS, new_keys
from pipeline.store import Store
from pipeline.tracking.store import open_client

DECLARED = """\
baseline: {weights: org/model@abc, weight_bytes: 1000, engine: vLLM 0.32}
candidate: {weights: org/model-int4@def, weight_bytes: 400, engine: vLLM 0.32, flags: [--port, "8000"]}
"""


def run(golden: dict[str, Any], tmp_path: Path, baseline: FakeServer, candidate: FakeServer, **more: Any) -> Compared:
    declared = tmp_path / "declared.yaml"
    declared.write_text(more.pop("text", DECLARED), encoding="utf-8")
    request = CompareRequest(
        baseline_url=baseline.url, candidate_url=candidate.url, declared=declared, **golden, **more
    )
    return compare(request, Store(tmp_path / "home"), Silent())


def codes(result: Compared) -> list[str]:
    return [reason["code"] for reason in result.decision["reasons"]]


def test_equal_answers_are_accepted_on_declared_terms(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    result = run(golden, tmp_path, endpoint(), endpoint())
    assert (result.decision["verdict"], result.exit_code) == ("ACCEPT", 0)
    conditions = "\n".join(result.decision["conditions"])
    assert "weights: org/model@abc -> org/model-int4@def" in conditions
    assert "the candidate's weights and flags, which the endpoint" in conditions
    assert "weight_bytes 400" in conditions and "Only its answers are measured" in conditions
    assert "the endpoints do not tell their tokens" in conditions
    assert "that throughput_at_slo, ttft_p95, itl_p95 are no worse" in conditions
    (weights,) = result.decision["resources"]
    assert (weights["name"], weights["declared"], weights["state"]) == ("weight_bytes", True, "better")
    page = (result.directory / "report.html").read_text(encoding="utf-8")
    assert "The verdict is conditional on" in page and "org/model-int4@def" in page
    assert "conditional on" in (result.directory / "summary.md").read_text(encoding="utf-8")


def test_speed_that_the_policy_does_not_count_is_no_condition(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    with golden["policy"].open("a", encoding="utf-8") as policy:
        policy.write("benefit: {throughput_at_slo: null, ttft_p95: null}\n")
    conditions = "\n".join(run(golden, tmp_path, endpoint(), endpoint()).decision["conditions"])
    assert "that itl_p95 are no worse" in conditions and "ttft_p95" not in conditions


def test_a_comparison_keeps_no_evidence_to_be_verified_or_signed(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    new_keys(tmp_path / "keys", None)
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))
    result = run(golden, tmp_path, endpoint(), endpoint())
    assert result.decision["next_step"].startswith("Ship it on these conditions")
    assert "sign off this run" not in result.decision["next_step"]
    run_name = str(result.directory)
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    for command in (
        lambda: commands.verify_command(run_name),
        lambda: commands.bundle_command(run_name),
        lambda: commands.signoff_command("Ada", "fine", run_name),
    ):
        with pytest.raises(UsageError, match="a comparison of sides that were there already") as refused:
            command()
        assert "quant-gate run" in refused.value.remedy
    gated = result.directory.parent / "20200101-000000-demo-int4"
    gated.mkdir()
    (gated / "evidence.tar.zst").touch()
    with pytest.raises(UsageError) as refused:
        commands.verify_command(run_name)
    assert "RUN=20200101-000000-demo-int4" in refused.value.remedy


def test_a_loss_is_rejected(golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]) -> None:
    result = run(golden, tmp_path, endpoint(), endpoint(lambda order: int(order[2:]) % 3 == 0))
    assert result.decision["verdict"] == "REJECT" and "METRIC_LOSS" in codes(result)


def test_nothing_declared_is_no_accept(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    result = run(golden, tmp_path, endpoint(), endpoint(), text="{}\n")
    assert (result.decision["verdict"], codes(result)) == ("INCONCLUSIVE", ["BENEFIT_UNDECIDED"])
    assert result.decision["baseline"]["weight_bytes"] is None
    assert "nothing was declared" in "\n".join(result.decision["conditions"])


def test_general_ability_that_the_policy_demands_is_not_measured_and_so_no_accept(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    with golden["policy"].open("a", encoding="utf-8") as policy:
        policy.write(
            "general:\n  suite: own\n  tasks: {arithmetic: {margin: 0.05}, json: {gating: false, margin: 0.05}}\n"
        )
    result = run(golden, tmp_path, endpoint(), endpoint())
    assert (result.decision["verdict"], codes(result)) == ("INCONCLUSIVE", ["NO_DATA"])
    assert "general ability (arithmetic), which `compare` does not measure" in result.decision["reasons"][0]["text"]


def test_a_line_for_drift_that_endpoints_cannot_be_held_against_is_a_condition(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    policy = golden["policy"]
    policy.write_text("drift: {turns: 6}\n" + policy.read_text(encoding="utf-8"), encoding="utf-8")
    write_replies(Path(golden["golden"]))
    decision = run(golden, tmp_path, endpoint(), endpoint()).decision
    assert decision["verdict"] == "ACCEPT" and "drift" not in {r["code"].lower() for r in decision["reasons"]}
    assert "next-token distributions of an endpoint are not compared" in "\n".join(decision["conditions"])


def test_two_changes_at_once_need_a_word(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    sides = endpoint(), endpoint()
    text = DECLARED.replace("vLLM 0.32, flags", "llama.cpp b1, flags")
    with pytest.raises(UsageError, match=r"differ in 2 variables at once: weights: .*; engine: vLLM 0.32 -> llama.cpp"):
        run(golden, tmp_path, *sides, text=text)
    result = run(golden, tmp_path, *sides, text=text, combined=True)
    assert result.decision["verdict"] == "ACCEPT"
    assert any("no single one of them being judged" in line for line in result.decision["conditions"])


def test_declared_flags_that_differ_are_a_change(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    sides = endpoint(), endpoint()
    text = DECLARED.replace("vLLM 0.32}", 'vLLM 0.32, flags: [--port, "8001", --max-num-seqs=8]}', 1)
    with pytest.raises(UsageError, match=r"2 variables at once: weights: .*; --max-num-seqs: 8 -> not set"):
        run(golden, tmp_path, *sides, text=text)
    assert run(golden, tmp_path, *sides, text=text, combined=True).decision["verdict"] == "ACCEPT"


@pytest.mark.parametrize("field", ["weights", "engine", "model"])
def test_a_secret_in_a_declaration_is_refused_before_anything_is_sent(
    field: str, golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    sides = endpoint(), endpoint()
    text = f"candidate: {{{field}: 's3://ada:planted-password@bucket/model'}}\n"
    with pytest.raises(SettingsError, match=f"candidate.{field}: .*a password in a URL") as refused:
        run(golden, tmp_path, *sides, text=text)
    assert "planted" not in refused.value.message and sides[0].requests == sides[1].requests == []


def test_the_dialect_is_learnt_from_a_turn_with_tools(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    path = Path(golden["golden"]) / "transcripts" / "orders.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines()
    plain = json.loads(first)
    del plain["tools"]
    plain["messages"][-1]["expect"] = {"behaviour": "answer", "say": [["order"]]}
    path.write_text("\n".join([json.dumps(plain), *others]) + "\n", encoding="utf-8")
    strict = endpoint(refuses=("tool_choice",))
    assert run(golden, tmp_path, endpoint(), strict).decision["verdict"] == "ACCEPT"
    assert strict.requests[0]["tools"] and "tool_choice" not in strict.requests[0]


def test_prompts_of_other_lengths_are_a_condition(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    result = run(golden, tmp_path, endpoint(), endpoint(prompt_tokens=4))
    assert any("read other tokens at 45 of 45 turns" in line for line in result.decision["conditions"])


def test_where_both_tell_their_tokens_they_are_compared(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    other = endpoint(tells_tokens=True, token_ids=[7])
    result = run(golden, tmp_path, endpoint(tells_tokens=True), other)
    assert result.decision["verdict"] == "INVALID" and codes(result)[0] == "PROMPTS_DIFFER"


def test_kept_replies_are_reused_until_the_endpoint_answers_otherwise(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    sides = endpoint(), endpoint()
    run(golden, tmp_path, *sides)
    asked = len(sides[1].requests)
    run(golden, tmp_path, *sides)
    probes = len(sides[1].requests) - asked
    assert probes < 10 < asked
    sides[1].respond = lambda body: {"role": "assistant", "content": "I am another model."}
    assert run(golden, tmp_path, *sides).decision["verdict"] == "REJECT"


def test_an_endpoint_is_not_compared_with_itself(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    server = endpoint()
    with pytest.raises(UsageError, match=f"both sides are gate at {server.url}") as refused:
        run(golden, tmp_path, server, server)
    assert refused.value.exit_code == 2


def test_two_models_of_one_endpoint_are_both_asked(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    server = endpoint(models=b'{"data": [{"id": "one"}, {"id": "two"}]}')
    text = DECLARED.replace("{weights", "{model: one, weights", 1).replace(
        "candidate: {", "candidate: {model: two, ", 1
    )
    result = run(golden, tmp_path, server, server, text=text)
    assert result.decision["verdict"] == "ACCEPT"
    asked = [body["model"] for body in server.requests if "where is order" in body["messages"][-1]["content"]]
    assert asked.count("one") >= 45 and asked.count("two") >= 45


def test_no_side_is_given_the_replies_of_the_other(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    one, other, third = endpoint(), endpoint(), endpoint()
    run(golden, tmp_path, one, other)
    before = len(other.requests)
    run(golden, tmp_path, other, third)
    assert len(other.requests) - before >= 90  # the first replay and the repeat


def test_endpoints_that_answer_the_probes_alike_may_be_one_model(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    alike = "one model behind two addresses"
    same = run(golden, tmp_path, endpoint(), endpoint()).decision["conditions"]
    assert alike in same[-2] + same[-1]

    other = endpoint()
    orders = other.respond
    assert orders is not None
    other.respond = lambda body: (
        orders(body) if "order" in body["messages"][-1]["content"] else {"role": "assistant", "content": "Hm."}
    )
    differing = run(golden, tmp_path, endpoint(), other).decision["conditions"]
    assert not any(alike in line for line in differing)
    text = DECLARED.replace("model-int4@def", "model@abc")
    declared = run(golden, tmp_path, endpoint(), endpoint(), text=text).decision["conditions"]
    assert not any(alike in line for line in declared)


@pytest.mark.parametrize("told", [True, False])
def test_an_endpoint_that_becomes_another_model_ends_the_comparison(
    told: bool, golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    other = endpoint()
    orders = other.respond
    assert orders is not None
    probed: list[str] = []

    def swapped(body: dict[str, Any]) -> dict[str, Any]:
        text = body["messages"][-1]["content"]
        if "order" in text:
            return orders(body)
        probed.append(text)
        return {"role": "assistant", "content": "Hm." if told or len(probed) <= 4 else "Another."}

    other.respond = swapped
    if told:
        other.named = lambda text: {"model": "bf16" if "where is order" in text else "int4"}
    with pytest.raises(ServerError, match="changed what answers" if told else "otherwise than before the replay"):
        run(golden, tmp_path, endpoint(), other)


def test_a_key_reaches_the_endpoint_and_no_file(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    run(golden, tmp_path, endpoint(key="sk-very-secret"), endpoint(key="sk-very-secret"))
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"very-secret" in path.read_bytes()]


def test_mlflow_gets_the_golden_set_and_every_file_that_the_description_links(
    golden: dict[str, Any],
    tmp_path: Path,
    endpoint: Callable[..., FakeServer],
    mlflow_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    result = run(golden, tmp_path, endpoint(), endpoint(lambda order: int(order[2:]) % 3 == 0))
    assert result.facts.notes == ()
    client = open_client(mlflow_store)
    kept = client.get_run(result.facts.mlflow_run)
    (dataset,) = kept.inputs.dataset_inputs
    assert json.loads(dataset.dataset.profile)["turns"] == 45
    files = {file.path for file in client.list_artifacts(kept.info.run_id)}
    links = re.findall(r"/artifacts/([\w.]+)\)", kept.data.tags["mlflow.note.content"])
    assert sorted(links) == ["report.html", "review.md"] and set(links) <= files
    assert "flips.json" in files


def test_a_typing_error_in_the_declaration_names_its_line(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    with pytest.raises(SettingsError, match=r"declared.yaml:2: candidate.wieghts: Extra inputs"):
        run(golden, tmp_path, endpoint(), endpoint(), text="baseline: {}\ncandidate: {wieghts: x}\n")


@pytest.mark.parametrize("field", ["weight_bytes", "kv_tokens"])
def test_a_declared_size_beyond_all_sense(field: str, tmp_path: Path) -> None:
    """Too large for a float, it would end the comparison after both sides were replayed."""
    file = tmp_path / "declared.yaml"
    file.write_text(f"candidate: {{{field}: 1{'0' * 320}}}\n")
    with pytest.raises(SettingsError, match=f"candidate.{field}: Input should be less than or equal to 10{{15}}"):
        load_declarations(file)


def test_the_command(
    golden: dict[str, Any],
    tmp_path: Path,
    endpoint: Callable[..., FakeServer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(
        "sys.argv",
        [
            *("quant-gate", "compare", "--baseline-url", endpoint().url, "--candidate-url", endpoint().url),
            *("--golden", golden["golden"], "--policy", str(golden["policy"])),
        ],
    )
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 20
    shown = " ".join(capsys.readouterr().out.split())
    assert "INCONCLUSIVE" in shown and "The verdict is conditional on" in shown


def test_the_command_that_repeats_a_comparison() -> None:
    request = CompareRequest(baseline_url="http://a", candidate_serving="kv-fp8", combined=True, policy=Path("p.yaml"))
    assert request.command == (
        "quant-gate compare --baseline-url http://a --candidate-serving kv-fp8 --combined --policy p.yaml"
    )
