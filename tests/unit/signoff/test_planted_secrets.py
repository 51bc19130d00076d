"""Planted secrets and customer data, searched for in all that a run, its bundle, its sign-off and MLflow leave."""

from __future__ import annotations

import contextlib
import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from gate_fakes import FakeMachine, write_golden, write_policy

from pipeline import cli
from pipeline.bundle.layout import EVIDENCE_FILE
from pipeline.bundle.verifying import opened
from pipeline.comparing.comparing import CompareRequest
from pipeline.comparing.declared import load_declarations
from pipeline.errors import GoldenSetError, RecordError, ServerError, SettingsError
from pipeline.golden import load
from pipeline.golden.private import demand_no_private_data
from pipeline.golden.redact import redact
from pipeline.inspection import Finding, Severity
from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import run
from pipeline.secrets import REMOVED, find_secret, names_a_secret, scrubbed
from pipeline.settings import load_serving
from pipeline.signoff.keys import PASSWORD
from pipeline.store import Store

# Put together here, so that no scanner of this repository takes them for real ones.
HUB, BASIC, PASSPHRASE = "hf_" + "Pl4nted" * 6, "planted-" + "basic-auth-77", "planted-" + "pass-phrase-12"
FORMS = {
    "AWS": "AKIA" + "PLANTED0PLANTED0",
    "GitHub": "ghp_" + "planted0" * 5,
    "GitLab": "glpat-" + "planted0planted0planted0",
    "Hugging Face": HUB,
    "API": "sk-" + "planted0planted0planted0",
    "Slack": "xoxb-" + "0123456789-planted",
    "Google": "AIza" + "planted" * 5,
    "web token": "eyJ" + "planted0plant" + ".eyJ" + "planted0plant" + "." + "planted0plant",
    "private key": "-----BEGIN EC PRIVATE " + "KEY-----\nMHcCAQ\n-----END EC PRIVATE " + "KEY-----",
    "password": "s3://ada:" + BASIC + "@bucket/set",
    "signature": "https://shop.example/set.jsonl?X-Amz-Signature=" + "planted0123",
    "Bearer": "Authorization: Bearer " + "planted0planted0planted0",
    "Basic": "{'Authorization': 'Basic " + "cGxhbnRlZDpwbGFudGVk" + "'}",
    "key in a header": "x-api-key: " + "planted0planted0",
    "password with an @": "postgresql://ada:" + "pl@nted-planted" + "@db.example/tracking",
    "token for a user": "https://" + "planted0planted0planted0" + "@git.example/x",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_found_and_taken_out(name: str) -> None:
    text = f"before {FORMS[name]} after"
    assert find_secret(text)
    left = scrubbed(text)
    assert not any(part in left.lower() for part in ("planted", "pl@nted", "cgxhbnrl")) and "MHcCAQ" not in left
    assert REMOVED in left and left.startswith("before") and left.endswith("after")


@pytest.mark.parametrize(
    "text",
    [
        "Your order A-104 ships on 2026-05-01.",
        "https://shop.example/orders?id=12",
        "ada@example.com",
        "sk-1",
        "a: b@c",
        "http://127.0.0.1:8000/v1 or write to ada@example.com",
        "basic understanding of our api-key page",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert find_secret(text) is None and scrubbed(text) == text


VALUE = 'planted "value" & more'
URL_PASSWORD = "planted-in-a-url"


@pytest.mark.parametrize(
    "text",
    [VALUE, json.dumps({"error": VALUE}), html.escape(VALUE), f"key={quote(VALUE)}", f"FATAL: not {URL_PASSWORD!r}"],
)
def test_values_of_the_environment_are_found_however_they_are_written(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUANT_GATE_BASELINE_KEY", VALUE)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://ada:{URL_PASSWORD}@127.0.0.1/tracking")
    assert find_secret(text) and "planted" not in scrubbed(text)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(("VLLM_API_KEY", True), ("DB_PWD", True), ("KEY_PASSPHRASE", True), ("PROXY_AUTH", True)),
        *(("PWD", False), ("QUANT_GATE_KEYS", False), ("KEYBOARD", False), ("SSH_AUTH_SOCK", False)),
        *(("TOKENIZERS_PARALLELISM", False), ("VLLM_MAX_TOKENS_PER_EXPERT", False), ("CI_JOB_TOKEN", True)),
    ],
)
def test_variables_that_name_a_secret(name: str, secret: bool) -> None:
    assert names_a_secret(name) is secret


def test_a_broken_run_tells_no_secret(
    tmp_path: Path, mlflow_store: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In error texts, remedies, tracebacks, tags of MLflow and the environment's own listing."""
    monkeypatch.setenv("QUANT_GATE_CANDIDATE_KEY", BASIC)
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")

    def ended(error: Exception) -> str:
        def dies() -> None:
            raise error

        machine = FakeMachine(hooks={"candidate": dies})
        machine.install(monkeypatch)
        words = ["run", "--model", "some/model", "--golden", str(golden), "--policy", str(policy)]
        monkeypatch.setattr("sys.argv", ["quant-gate", *words])
        with pytest.raises(SystemExit) as ending:
            cli.main()
        assert ending.value.code == 30
        return "".join(capfd.readouterr())

    told = ended(ServerError(f"the engine ended: refused {BASIC}", f"Do not give {BASIC}."))
    assert "the engine ended" in told and BASIC not in told
    told = ended(RuntimeError(f"no such key: {BASIC}"))
    assert "RuntimeError: no such key" in told and BASIC not in told
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://ada:{BASIC}@mlflow.example")
    monkeypatch.setattr("sys.argv", ["quant-gate", "doctor"])
    with contextlib.suppress(SystemExit):
        cli.main()
    told = "".join(capfd.readouterr())
    assert "https://mlflow.example" in told and BASIC not in told
    left = [path for part in ("home", "mlruns") for path in (tmp_path / part).rglob("*") if path.is_file()]
    assert any(path.name == "mlflow.db" and b"the engine ended" in path.read_bytes() for path in left)
    assert [str(path) for path in left if BASIC.encode() in path.read_bytes()] == []


def test_a_secret_that_would_become_part_of_the_record_stops_the_run_before_mlflow_gets_it(
    tmp_path: Path, mlflow_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")
    machine = FakeMachine(findings=(Finding("size", Severity.WARNING, "config.json", f"holds {HUB}", "Take it out"),))
    machine.install(monkeypatch)
    with pytest.raises(RecordError, match=r"decision\.json:\d+: a Hugging Face token"):
        run(Request("some/model", golden=str(golden), policy=policy), Store(tmp_path / "home"), Silent())
    reports = [*(tmp_path / "mlruns").rglob("decision.json"), *(tmp_path / "home").rglob("report.html")]
    assert reports == [] and HUB.encode() not in (tmp_path / "mlruns" / "mlflow.db").read_bytes()


def test_a_comparison_repeats_and_keeps_no_secret(tmp_path: Path) -> None:
    assert BASIC not in CompareRequest(golden=f"s3://ada:{BASIC}@bucket/set").command
    (tmp_path / "sides.yaml").write_text("baseline: {flags: [--api_key, x]}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="no place for a secret"):
        load_declarations(tmp_path / "sides.yaml")


def test_nothing_that_is_left_behind_holds_a_planted_secret(
    tmp_path: Path, mlflow_store: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", HUB)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", BASIC)
    monkeypatch.setenv(PASSWORD, PASSPHRASE)
    monkeypatch.setenv("QUANT_GATE_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")
    FakeMachine().install(monkeypatch)

    def command(*words: str) -> int | str | None:
        monkeypatch.setattr("sys.argv", ["quant-gate", *words])
        with pytest.raises(SystemExit) as ending:
            cli.main()
        return ending.value.code

    words = ("--model", "some/model", "--golden", str(golden), "--policy", str(policy))
    assert command("keys", "new", "--password") == 0
    assert command("run", *words) == 0
    assert command("signoff", "--by", "Ada", "--note", "fine") == 0
    assert command("bundle", "--output", str(tmp_path / "sent.tar.zst")) == 0
    assert command("verify", str(tmp_path / "sent.tar.zst")) == 0
    assert command("run", "--model", "some/model", "--golden", f"s3://ada:{BASIC}@bucket/set", *words[4:]) == 2
    shown = capfd.readouterr()
    left = {"stdout": shown.out, "stderr": shown.err}
    files = [path for part in ("home", "mlruns") for path in (tmp_path / part).rglob("*") if path.is_file()]
    assert len(files) > 20 and any(path.name == EVIDENCE_FILE for path in files)
    left |= {str(path): path.read_bytes().decode("latin-1") for path in files}
    with opened(tmp_path / "sent.tar.zst") as root:
        left |= {f"bundle {p.name}": p.read_text("latin-1") for p in root.rglob("*") if p.is_file()}
    key = (tmp_path / "keys" / "signing.key").read_text("utf-8")
    for secret in (HUB, BASIC, PASSPHRASE, key.splitlines()[1]):
        assert [name for name, text in left.items() if secret in text] == []


@pytest.mark.parametrize("flags", [["--api-key", "x"], ["--api-key=x"], ["--hf_token", "x"], ["--x", HUB]])
def test_the_engines_flags_are_no_place_for_a_key(flags: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(f"extra_args: {json.dumps(flags)}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="no place for a secret") as caught:
        load_serving(str(tmp_path / "own.yaml"))
    assert HUB not in caught.value.message


# --- customer data -----------------------------------------------------------------------------

CARD, ADDRESS = "4929 1234 5678 9015", "mara.lindqvist@post.se"
"""Of nobody; the card's last digit was computed by hand after Luhn."""
PRIVATE = {"a payment card number": f"my card is {CARD}", "an e-mail address": f"write to {ADDRESS}"}


def plant(root: Path, text: str) -> None:
    path = root / "transcripts" / "orders.jsonl"
    lines = path.read_text("utf-8").splitlines()
    value: dict[str, Any] = json.loads(lines[3])
    value["messages"][0]["content"] += f", {text}"
    lines[3] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("kind", PRIVATE)
def test_customer_data_stops_a_run_before_anything_is_sent_or_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")
    plant(golden, PRIVATE[kind])
    machine = FakeMachine()
    machine.install(monkeypatch)
    with pytest.raises(GoldenSetError, match=f"order-003#1 holds {kind}") as caught:
        run(Request("some/model", golden=str(golden), policy=policy), Store(tmp_path / "home"), Silent())
    assert CARD not in caught.value.message and ADDRESS not in caught.value.message
    assert machine.done == [] and not (tmp_path / "home" / "runs").exists()


def test_what_redaction_writes_passes(tmp_path: Path) -> None:
    golden = write_golden(tmp_path / "orders")
    plant(golden, " and ".join(PRIVATE.values()))
    path = golden / "transcripts" / "orders.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(json.dumps(redact(line)) + "\n" for line in lines), encoding="utf-8")
    text = path.read_text("utf-8")
    assert CARD not in text and ADDRESS not in text and "my card is 4000 00" in text
    demand_no_private_data(load(golden).turns, "orders")
