"""Sign-off: what is signed verifies, what was not accepted becomes no champion, and a waiver stays one."""

from __future__ import annotations

import base64
import json
import resource
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipeline.bundle.archive import pack
from pipeline.bundle.verifying import opened
from pipeline.errors import SignoffError, StageError, UsageError, Verdict
from pipeline.signoff import checking, commands, releasing
from pipeline.signoff.attestation import RESULT_TYPE, Waiver
from pipeline.signoff.checking import check
from pipeline.signoff.keys import PASSWORD, SigningKey, load_key, new_keys, public_keys
from pipeline.signoff.releasing import attest, registered_name, roll_back, sign_off
from pipeline.tracking.registry import CHAMPION, ROLLBACK, WAIVED, Registry

Gated = Callable[..., Path]
NAME = registered_name("some/model")
LATER = date(2999, 12, 31)


def bad(number: int) -> bool:
    return number % 2 > 0


def weak(number: int) -> bool:
    return number < 6


def told(path: Path, keys: dict[Path, Any], **how: Any) -> str:
    return "\n".join(map(str, check(path, keys, **how).verification.differences))


def export(directory: Path, target: Path) -> Path:
    with opened(directory) as root:
        pack(root, target)
    return target


def accept(directory: Path, key: SigningKey, trusted: dict[Path, Any], note: str = "looks good") -> releasing.Released:
    return sign_off(directory, key, trusted, by="Ada", note=note)


@pytest.mark.parametrize("content", ["[]", '{"model.safetensors": null}'])
def test_a_damaged_list_of_weights_is_a_difference(content: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "candidate.json").write_text(content, "utf-8")
    (found,) = checking.altered_weights(tmp_path, tmp_path)
    assert str(found).startswith("checkpoints/candidate.json: does not say what was measured")


# --- keys --------------------------------------------------------------------------------------


def test_a_full_disk_leaves_no_half_of_a_pair(tmp_path: Path) -> None:
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, unlimited[1]))
    try:
        with pytest.raises(UsageError, match="cannot keep keys"):
            new_keys(tmp_path, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []
    assert new_keys(tmp_path, None)[0].stat().st_mode & 0o777 == 0o600


def test_keys_are_made_once_and_the_private_one_is_for_its_owner_alone(tmp_path: Path) -> None:
    private, public = new_keys(tmp_path / "keys", None)
    assert private.stat().st_mode & 0o777 == 0o600
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----")
    with pytest.raises(UsageError, match="there is a key already"):
        new_keys(tmp_path / "keys", None)
    private.chmod(0o644)
    with pytest.raises(UsageError, match="other users"):
        load_key(private, lambda: None)


def test_a_key_with_a_password_opens_with_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)
    private, _ = new_keys(tmp_path, "correct horse")
    assert load_key(private, lambda: "correct horse").id
    with pytest.raises(UsageError, match="cannot be opened"):
        load_key(private, lambda: "battery staple")
    with pytest.raises(UsageError, match="has a password"):
        load_key(private, lambda: None)
    monkeypatch.setenv(PASSWORD, "correct horse")
    assert load_key(private, lambda: pytest.fail("asked")).id


# --- attestation -------------------------------------------------------------------------------


def test_who_answers_for_it_is_asked_before_any_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "load_key", lambda *_: pytest.fail("a key was asked for"))
    with pytest.raises(UsageError, match="must not be empty") as refused:
        commands.signoff_command(by="", note="fine")
    assert "BY=NAME" in refused.value.remedy


def test_the_verdict_is_an_in_toto_test_result_about_the_candidates_files(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any]
) -> None:
    directory = gated()
    attest(directory, key)
    envelope = json.loads((directory / "attestations" / "verdict.dsse.json").read_text("utf-8"))
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    statement = json.loads(base64.b64decode(envelope["payload"]))
    # https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and spec/predicates/test-result.md
    jsonschema.validate(
        statement,
        {
            "required": ["_type", "subject", "predicateType", "predicate"],
            "properties": {
                "_type": {"const": "https://in-toto.io/Statement/v1"},
                "subject": {"minItems": 1, "items": {"required": ["name", "digest"]}},
                "predicateType": {"const": RESULT_TYPE},
                "predicate": {
                    "required": ["result", "configuration"],
                    "properties": {"result": {"enum": ["PASSED", "WARNED", "FAILED"]}},
                },
            },
        },
    )
    assert {subject["name"] for subject in statement["subject"]} == {"config.json", "model.safetensors"}
    assert statement["predicate"]["result"] == "PASSED"
    assert statement["predicate"]["passedTests"] == ["tool_call_correct", "free_of_degeneration"]
    found = check(directory, trusted, demand_signature=True)
    assert (found.verification.differences, found.attested) == ((), True)


def test_a_rejection_is_attested_as_failed(gated: Gated, key: SigningKey, trusted: dict[Path, Any]) -> None:
    directory = gated(candidate=bad)
    attest(directory, key)
    envelope = json.loads((directory / "attestations" / "verdict.dsse.json").read_text("utf-8"))
    assert json.loads(base64.b64decode(envelope["payload"]))["predicate"]["result"] == "FAILED"
    assert check(directory, trusted).verification.exit_code == 10


def test_what_was_altered_after_signing_is_named(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], tmp_path: Path
) -> None:
    directory = gated()
    attest(directory, key)
    path = directory / "attestations" / "verdict.dsse.json"
    whole = json.loads(path.read_text("utf-8"))
    statement = json.loads(base64.b64decode(whole["payload"]))
    statement["predicate"]["passedTests"] = []
    path.write_text(json.dumps({**whole, "payload": base64.b64encode(json.dumps(statement).encode()).decode()}))
    assert "no trusted key has signed this" in told(directory, trusted)
    path.write_text(json.dumps(whole))
    other = public_keys([new_keys(tmp_path / "other", None)[1]])
    assert "no trusted key has signed this" in told(directory, other)
    assert "no key is trusted" in told(directory, {})
    path.unlink()
    assert "the verdict is not signed" in told(directory, trusted, demand_signature=True)
    assert told(directory, trusted) == ""


def test_what_does_not_verify_is_not_attested(gated: Gated, key: SigningKey, tmp_path: Path) -> None:
    directory = gated(candidate=bad)
    text = (directory / "decision.json").read_text("utf-8")
    (directory / "decision.json").write_text(
        text.replace("REJECT", "ACCEPT").replace('"exit_code": 10', '"exit_code": 0')
    )
    with pytest.raises(SignoffError, match="does not verify"):
        attest(directory, key)
    (directory / "decision.json").write_text(text)
    (tmp_path / "home" / "fake-candidate" / "chat_template.jinja").write_text("put in later")
    with pytest.raises(SignoffError, match=r"chat_template\.jinja: was not there when the candidate was measured"):
        attest(directory, key)
    assert not (directory / "attestations").exists()


def test_a_signature_belongs_to_one_evidence(gated: Gated, key: SigningKey, trusted: dict[Path, Any]) -> None:
    one, other = gated(), gated("another")
    attest(one, key)
    shutil.copytree(one / "attestations", other / "attestations")
    found = told(other, trusted)
    assert "is not about these candidate's files" in found and "is not about this evidence" in found


def test_weights_are_bound_byte_by_byte(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], tmp_path: Path
) -> None:
    from model_signing import verifying  # the library that others will check with

    directory = gated()
    attest(directory, key)
    weights = tmp_path / "home" / "fake-candidate"
    signature = directory / "attestations" / "model.sig"
    public = next(iter(trusted))
    verifying.Config().use_elliptic_key_verifier(public_key=public).verify(weights, signature)
    assert told(directory, trusted, weights=weights) == ""
    (weights / "added.txt").write_text("x")
    assert "added.txt" in told(directory, trusted, weights=weights)
    (weights / "added.txt").unlink()
    content = (weights / "model.safetensors").read_bytes()
    (weights / "model.safetensors").write_bytes(content[:-1] + b"!")
    assert "model.safetensors: is not the file that was measured" in told(directory, trusted, weights=weights)


# --- sign-off ----------------------------------------------------------------------------------


def test_an_accepted_run_becomes_champion_and_the_one_before_it_the_rollback(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str, tmp_path: Path
) -> None:
    one, two = gated(), gated("another")
    first, second = accept(one, key, trusted), accept(two, key, trusted, "smaller")
    assert (first.name, first.aliases) == (NAME, {CHAMPION: first.version})
    assert second.aliases == {CHAMPION: second.version, ROLLBACK: first.version}
    registry = Registry()
    tags = registry.tags(NAME, second.version)
    assert (tags["verdict"], tags["run"], tags["note"]) == ("ACCEPT", two.name, "smaller")
    assert "waiver" not in tags  # the registry's page would show its name
    assert tags["signoff"].startswith("signed off by Ada on ")
    found = check(two, trusted)
    assert found.signoff == second.signoff and found.verification.exit_code == 0
    back = roll_back("some/model", trusted, by="Bo", note="pager")
    assert back.aliases == {CHAMPION: first.version, ROLLBACK: second.version}
    assert (registry.aliased(NAME, CHAMPION), registry.aliased(NAME, ROLLBACK)) == (first.version, second.version)
    assert [
        tuple(event[part] for part in ("by", "version", "before", "ended")) for event in registry.history(NAME)
    ] == [
        ("Ada", first.version, None, True),
        ("Ada", second.version, first.version, True),
        ("Bo", first.version, second.version, True),
    ]
    bundle = export(two, tmp_path / "sent.tar.zst")
    assert check(bundle, trusted, demand_signature=True).signoff == second.signoff


def test_what_is_registered_can_be_fetched_and_verified_by_the_library(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str, tmp_path: Path
) -> None:
    from model_signing import hashing, verifying

    from pipeline.tracking import download_model_uri

    accept(gated(), key, trusted)
    fetched = download_model_uri(f"models:/{NAME}@champion", tmp_path / "fetched")
    assert (fetched / "model.safetensors").read_bytes() == (
        tmp_path / "home/fake-candidate/model.safetensors"
    ).read_bytes()
    verifier = verifying.Config().use_elliptic_key_verifier(public_key=next(iter(trusted)))
    verifier.set_hashing_config(hashing.Config().set_ignored_paths(paths=[fetched / "model.sig"]))
    verifier.verify(fetched, fetched / "model.sig")


@pytest.mark.parametrize(("side", "answers", "verdict"), [("candidate", bad, "REJECT"), ("baseline", weak, "INVALID")])
def test_what_is_not_accepted_is_not_signed_off(
    side: str, answers: Callable[[int], bool], verdict: str, gated: Gated, key: SigningKey, trusted: dict[Path, Any]
) -> None:
    directory = gated(**{side: answers})
    with pytest.raises(SignoffError, match=f"the verdict is {verdict}"):
        accept(directory, key, trusted)
    assert not (directory / "attestations" / "signoff.dsse.json").exists()


def test_what_does_not_verify_is_not_signed_off(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], tmp_path: Path
) -> None:
    directory = gated(candidate=bad)
    record = json.loads((directory / "decision.json").read_text("utf-8"))
    (directory / "decision.json").write_text(json.dumps({**record, "verdict": "ACCEPT", "exit_code": 0}))
    with pytest.raises(SignoffError, match="does not verify"):
        accept(directory, key, trusted)
    good = gated("good")
    (tmp_path / "home" / "fake-good" / "config.json").write_text('{"edited": 1}')
    with pytest.raises(SignoffError, match=r"config\.json: is not the file that was measured"):
        accept(good, key, trusted)


def test_a_run_is_registered_under_the_model_of_its_evidence(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any]
) -> None:
    directory = gated()
    kept = json.loads((directory / "run.json").read_text("utf-8"))
    (directory / "run.json").write_text(json.dumps({**kept, "model": "some/other"}))
    with pytest.raises(SignoffError, match="names the model some/other, the evidence another"):
        accept(directory, key, trusted)


def test_a_note_is_no_place_for_a_secret(gated: Gated, key: SigningKey, trusted: dict[Path, Any]) -> None:
    with pytest.raises(UsageError, match="a Hugging Face token is no part of a note"):
        accept(gated(), key, trusted, "see " + "hf_" + "Pl4nted" * 6)


# --- waivers -----------------------------------------------------------------------------------


def test_a_waiver_is_recorded_as_one_and_makes_no_champion(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, directory = gated(), gated("worse", candidate=bad)
    first = accept(good, key, trusted)
    waiver = Waiver("refunds are off until May", LATER)
    released = sign_off(directory, key, trusted, by="Ada", note="agreed with support", waiver=waiver)
    assert released.aliases == {WAIVED: released.version}
    registry = Registry()
    assert registry.aliased(NAME, CHAMPION) == first.version
    tags = registry.tags(NAME, released.version)
    assert (tags["verdict"], tags["waiver"]) == ("REJECT", "waived until 2999-12-31: refunds are off until May")
    assert json.loads((directory / "decision.json").read_text("utf-8"))["verdict"] == "REJECT"
    for file in ("report.html", "summary.md", "summary.txt"):
        text = " ".join((directory / file).read_text("utf-8").split())
        assert "refunds are off until May" in text and "REJECT" in text
    found = check(directory, trusted)
    assert (found.signoff, found.verification.exit_code) == (released.signoff, 10)
    monkeypatch.setattr(checking, "today", lambda: LATER + timedelta(days=1))
    assert "The waiver expired on 2999-12-31." in check(directory, trusted).verification.notes


@pytest.mark.parametrize(
    ("answers", "waiver", "error"),
    [
        ({"candidate": bad}, Waiver("known", date(2001, 1, 1)), "has no day left"),
        ({"candidate": bad}, Waiver(" ", LATER), "must not be empty"),
        ({}, Waiver("known", LATER), "nothing to waive"),
        ({"baseline": weak}, Waiver("known", LATER), "the verdict is INVALID"),
    ],
)
def test_waivers_that_are_refused(
    answers: dict[str, Callable[[int], bool]],
    waiver: Waiver,
    error: str,
    gated: Gated,
    key: SigningKey,
    trusted: dict[Path, Any],
) -> None:
    with pytest.raises((SignoffError, UsageError), match=error):
        sign_off(gated(**answers), key, trusted, by="Ada", note="n", waiver=waiver)


# --- nothing moves the champion to a rejected version ------------------------------------------


def test_no_rollback_to_what_was_not_accepted(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    with pytest.raises(SignoffError, match="no version to go back to"):
        roll_back("some/model", trusted, by="Bo", note="n")
    good, worse = gated(), gated("worse", candidate=bad)
    first = accept(good, key, trusted)
    waived = sign_off(worse, key, trusted, by="Ada", note="n", waiver=Waiver("known", LATER))
    client = MlflowClient(mlflow_store)
    # by hand, in the registry's own pages: the alias and even the tags of a rejected version
    client.set_registered_model_alias(NAME, ROLLBACK, waived.version)
    client.set_model_version_tag(NAME, waived.version, "verdict", "ACCEPT")
    client.set_model_version_tag(NAME, waived.version, "waiver", "")
    with pytest.raises(SignoffError, match="the gate's verdict on it is REJECT"):
        roll_back("some/model", trusted, by="Bo", note="n")
    # a version that somebody registered without a sign-off
    version = client.create_model_version(NAME, f"file://{tmp_path}").version
    client.set_registered_model_alias(NAME, ROLLBACK, version)
    with pytest.raises(SignoffError, match="was not signed off"):
        roll_back("some/model", trusted, by="Bo", note="n")
    # a sign-off by a key that is not trusted
    other = public_keys([new_keys(tmp_path / "other", None)[1]])
    client.set_registered_model_alias(NAME, ROLLBACK, first.version)
    with pytest.raises(SignoffError, match="no trusted key"):
        roll_back("some/model", other, by="Bo", note="n")
    # the sign-off of an accepted version, put over a rejected one
    run_id = client.get_model_version(NAME, waived.version).run_id
    client.log_artifact(run_id, str(good / "attestations" / "signoff.dsse.json"), "signoff")
    client.set_registered_model_alias(NAME, ROLLBACK, waived.version)
    with pytest.raises(SignoffError, match="about another candidate"):
        roll_back("some/model", trusted, by="Bo", note="n")
    assert str(client.get_model_version_by_alias(NAME, CHAMPION).version) == first.version


def test_a_registry_that_cannot_be_reached_leaves_no_sign_off(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise SignoffError("the server is gone")

    directory = gated()
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "add_version", fail)
        with pytest.raises(SignoffError, match="gone"):
            accept(directory, key, trusted)
    assert check(directory, trusted).signoff is None
    first = accept(directory, key, trusted)
    monkeypatch.setattr(Registry, "add_version", fail)
    with pytest.raises(SignoffError, match="gone"):
        accept(directory, key, trusted, "once more")
    assert check(directory, trusted).signoff == first.signoff  # an earlier one stays
    assert Verdict(check(directory, trusted).verification.verdict) is Verdict.ACCEPT


# --- moves that break off, and moves at once ---------------------------------------------------


def aliases(registry: Registry) -> tuple[str | None, str | None]:
    return registry.aliased(NAME, CHAMPION), registry.aliased(NAME, ROLLBACK)


@pytest.mark.parametrize("moved", [0, 1])
def test_a_move_that_breaks_off_is_ended_by_the_same_command(
    moved: int,
    gated: Gated,
    key: SigningKey,
    trusted: dict[Path, Any],
    mlflow_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlflow import MlflowClient

    def broken_off(command: Callable[[], Any]) -> None:
        """The server is gone when ``moved`` aliases were set."""
        real, left = MlflowClient.set_registered_model_alias, [moved]

        def dies(client: MlflowClient, name: str, alias: str, version: str) -> None:
            if not left[0]:
                raise ConnectionError("the server is gone")
            left[0] -= 1
            real(client, name, alias, version)

        with monkeypatch.context() as patch:
            patch.setattr(MlflowClient, "set_registered_model_alias", dies)
            with pytest.raises(StageError, match="the server is gone"):
                command()

    one, two = gated(), gated("another")
    first = accept(one, key, trusted).version
    broken_off(lambda: accept(two, key, trusted))
    second = accept(two, key, trusted).version
    registry = Registry()
    assert aliases(registry) == (second, first) and second != first
    broken_off(lambda: roll_back("some/model", trusted, by="Bo", note="pager"))
    roll_back("some/model", trusted, by="Bo", note="pager, again")
    assert aliases(registry) == (first, second)


def test_a_run_that_mlflow_did_not_record_has_one_version_however_often_it_is_signed_off(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str
) -> None:
    from mlflow import MlflowClient

    directory = gated()
    assert json.loads((directory / "run.json").read_text("utf-8"))["mlflow_run"] is None
    first, again = accept(directory, key, trusted), accept(directory, key, trusted, "once more")
    assert (again.version, again.aliases) == (first.version, {CHAMPION: first.version})
    client = MlflowClient(mlflow_store)
    version = client.get_model_version(NAME, first.version)
    page = client.get_run(version.run_id).data.tags["mlflow.note.content"]
    for text in (page, version.description):
        assert text.startswith("**ACCEPT**, signed off by Ada") and "looks good" not in text and "once more" in text
        assert text.count("## ACCEPT") == 1 and f"/runs/{version.run_id}/artifacts/report.html)" in text
    assert "some/model" in client.get_registered_model(NAME).description


def test_a_champion_that_was_not_accepted_does_not_become_the_rollback(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str
) -> None:
    from mlflow import MlflowClient

    waived = sign_off(gated("worse", candidate=bad), key, trusted, by="Ada", note="n", waiver=Waiver("known", LATER))
    MlflowClient(mlflow_store).set_registered_model_alias(NAME, CHAMPION, waived.version)  # by hand
    released = accept(gated(), key, trusted)
    assert released.aliases == {CHAMPION: released.version}
    assert "the gate's verdict on it is REJECT" in released.note
    assert aliases(Registry()) == (released.version, None)
    other = accept(gated("another"), key, trusted)
    MlflowClient(mlflow_store).set_registered_model_alias(NAME, CHAMPION, waived.version)
    back = roll_back("some/model", trusted, by="Bo", note="pager")
    assert back.aliases == {CHAMPION: released.version, ROLLBACK: other.version}
    assert "the gate's verdict on it is REJECT" in back.note


def test_a_sign_off_in_the_middle_of_another_is_followed_by_both(
    gated: Gated,
    key: SigningKey,
    trusted: dict[Path, Any],
    mlflow_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another machine signs off between the first one's look at the history and its moves, which come too late."""
    one, two, point, released = gated(), gated("another"), Registry.point, []

    def late(registry: Registry, name: str, aliases: dict[str, str]) -> None:
        monkeypatch.setattr(Registry, "point", point)
        released.append(accept(two, key, trusted))
        point(registry, name, aliases)

    monkeypatch.setattr(Registry, "point", late)
    first = accept(one, key, trusted)
    second = released[0].version
    assert first.aliases == {CHAMPION: second, ROLLBACK: first.version}
    assert f"Version {second} became champion at the same time" in first.note
    assert aliases(Registry()) == (second, first.version)


def test_a_moment_later_by_a_clock_that_is_slow(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str
) -> None:
    accept(gated(), key, trusted)
    registry = Registry()
    registry._keep(NAME, "history.29991231T000000.000000Z.0", {**registry.history(NAME)[0], "at": "", "why": "fast"})
    second = accept(gated("another"), key, trusted)
    assert registry.history(NAME)[-1]["version"] == second.version == registry.aliased(NAME, CHAMPION)
    registry._client.set_registered_model_tag(NAME, "history.none", "by hand")
    assert len(registry.history(NAME)) == 3


def test_no_two_baselines_share_a_name() -> None:
    assert registered_name("demo") == "demo-quantized"
    names = {registered_name(model) for model in ("a/b", "a-b", "a:b", "x" * 70 + "/c", "y" * 70 + "/c")}
    assert len(names) == 5 and not any(set(name) & set("/:") for name in names)  # MLflow allows neither


def test_of_two_sign_offs_at_once_one_is_champion_the_other_the_rollback(
    gated: Gated, key: SigningKey, trusted: dict[Path, Any], mlflow_store: str
) -> None:
    runs = [gated(), gated("another")]
    with ThreadPoolExecutor() as pool:
        versions = [released.version for released in pool.map(lambda run: accept(run, key, trusted), runs)]
    registry = Registry()
    assert sorted(versions) == ["1", "2"] and set(aliases(registry)) == set(versions)
    assert {event["version"] for event in registry.history(NAME)} == set(versions)
