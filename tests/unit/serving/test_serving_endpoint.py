"""Endpoints that somebody else runs: what they are asked, what they tell, and how they fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from openai_server import FakeServer

from pipeline.errors import ServerError, UsageError
from pipeline.secrets import find_secret
from pipeline.serving import clients, endpoint
from pipeline.serving.endpoint import PROBES, base_url, connect

REQUEST: dict[str, Any] = {
    "model": "gate",
    "messages": [{"role": "user", "content": "where is order A-1"}],
    "temperature": 0.0,
    "max_tokens": 64,
    "seed": 0,
    "return_token_ids": True,
    "tools": [],
    "tool_choice": "auto",
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "QUANT_GATE_BASELINE_KEY", "QUANT_GATE_CANDIDATE_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "given",
    [
        *("http://here:8000", "http://here:8000/", "http://here:8000/v1", "http://here:8000/v1/"),
        *("http://here:8000/v1/chat/completions", "http://here:8000/chat/completions/"),
    ],
)
def test_urls_with_and_without_v1(given: str) -> None:
    assert base_url(given) == "http://here:8000"


@pytest.mark.parametrize(
    "given",
    [
        *("here:8000", "ftp://here", "http://", "http://me:secret@here", "http://here?key=secret"),
        *("me:secret@here/v1", "here/v1?key=secret", "http://me:12/secret@here", "http://me:sec/ret@here"),
        *("http://here/sk-secretsecretsecretsecret/v1", "http://here/%73k-secretsecretsecretsecret/v1"),
        "http://here/of-the-secret/v1",
    ],
)
def test_urls_that_are_refused_do_not_leak(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANT_GATE_CANDIDATE_KEY", "of-the-secret")
    with pytest.raises(UsageError) as caught:
        base_url(given)
    said = (caught.value.message + caught.value.remedy).replace("a secret environment variable", "")
    assert "secret" not in said and "sec/ret" not in said


def test_an_endpoint_that_takes_everything(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    found = connect(f"{server.url}/v1", "baseline", REQUEST)
    assert (found.url, found.model, found.dropped) == (server.url, "gate", ())
    assert found.told["version"] == "9.9.9" and "server" in found.told
    sent = found.adapt(REQUEST)
    assert sent == {**REQUEST, "model": "gate"}


@pytest.mark.parametrize(
    ("refused", "dropped"),
    [
        (("return_token_ids",), ("return_token_ids",)),
        (("return_token_ids", "tool_choice"), ("return_token_ids", "tool_choice")),
        (("seed",), ("return_token_ids", "tool_choice", "seed")),
    ],
)
def test_fields_that_change_nothing_are_left_out_where_refused(
    refused: tuple[str, ...], dropped: tuple[str, ...], serve: Callable[..., FakeServer]
) -> None:
    server = serve()
    server.refuses = refused
    found = connect(server.url, "baseline", REQUEST)
    assert found.dropped == dropped
    assert found.adapt(REQUEST).keys() == REQUEST.keys() - set(dropped)


def test_a_field_that_matters_is_never_left_out(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.refuses = ("tools",)
    with pytest.raises(ServerError, match="refuses a golden turn in every form"):
        connect(server.url, "baseline", REQUEST)


def test_other_answers_give_another_fingerprint(serve: Callable[..., FakeServer]) -> None:
    one, other, third = serve(), serve(), serve()
    third.respond = lambda body: {"role": "assistant", "content": "something else"}
    prints = [connect(server.url, "baseline", REQUEST).fingerprint for server in (one, other, third)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "QUANT_GATE_CANDIDATE_KEY"])
def test_the_key_comes_from_the_environment_and_is_shown_nowhere(
    variable: str, serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    server.key = "sk-very-secret"
    with pytest.raises(UsageError, match="refuses the key"):
        connect(server.url, "candidate", REQUEST)
    monkeypatch.setenv(variable, "sk-very-secret")
    found = connect(server.url, "candidate", REQUEST)
    assert found.headers == {"authorization": "Bearer sk-very-secret"}
    assert "very-secret" not in repr(found) + repr(found.identity())


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-very secret", "sk-very-secrét"])
def test_a_key_that_no_header_may_hold(
    key: str, serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUANT_GATE_CANDIDATE_KEY", key)
    server = serve()
    with pytest.raises(UsageError, match="QUANT_GATE_CANDIDATE_KEY holds characters that no key has") as caught:
        connect(server.url, "candidate", REQUEST)
    assert "sk-very" not in caught.value.message + caught.value.remedy and server.requests == []


def test_blanks_around_a_key_are_not_sent(serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    server.key = "sk-very-secret"
    monkeypatch.setenv("OPENAI_API_KEY", " sk-very-secret\n")
    assert connect(server.url, "candidate", REQUEST).headers == {"authorization": "Bearer sk-very-secret"}
    assert find_secret("it says sk-very-secret") == "the value of a secret environment variable"


def test_a_key_that_may_list_models_and_not_use_them(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.chat_key = "sk-very-secret"
    with pytest.raises(UsageError, match=r"refuses the key \(HTTP 401\)"):
        connect(server.url, "candidate", REQUEST)


@pytest.mark.parametrize("fault", ["429", "503", "drop"])
def test_a_busy_endpoint_is_asked_again(
    fault: str, serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PAUSE_S", 0.0)
    golden = REQUEST["messages"][-1]["content"]
    server = serve({golden: [fault, "ok"], PROBES[2]: [fault, fault, "ok", fault, "ok"]})
    found = connect(server.url, "candidate", REQUEST)
    assert found.dropped == ()  # "later" is no refusal of a field
    assert [server.texts().count(text) for text in (golden, PROBES[2])] == [2, 3]
    found.demand_unchanged()
    server.script[PROBES[2]] = [fault]
    with pytest.raises(ServerError):
        found.demand_unchanged(patient=False)
    asked = server.texts().count(PROBES[2])
    with pytest.raises(ServerError):
        found.demand_unchanged()
    assert server.texts().count(PROBES[2]) - asked == 4


def test_an_endpoint_that_stays_busy_is_no_refusal_of_a_field(
    serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PAUSE_S", 0.0)
    server = serve({REQUEST["messages"][-1]["content"]: ["429"]})
    with pytest.raises(ServerError, match="takes no golden turn now; the last answer: HTTP 429"):
        connect(server.url, "candidate", REQUEST)
    assert all("return_token_ids" in body for body in server.requests)


def test_which_model_is_meant(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.models = b'{"data": [{"id": "gate"}, {"id": "another"}]}'
    found = connect(server.url, "baseline", REQUEST, model="another")
    assert found.model == "another"
    assert all(body["model"] == "another" for body in server.requests)


def test_a_model_that_the_endpoint_does_not_list(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    with pytest.raises(UsageError, match="does not list the declared model 'gaet', but gate"):
        connect(server.url, "candidate", REQUEST, model="gaet")
    assert server.requests == []
    assert connect(server.url, "candidate", REQUEST, model="/models/own").model == "/models/own"
    server.models = b'{"data": []}'
    assert connect(server.url, "candidate", REQUEST, model="gaet").model == "gaet"


def test_an_answer_that_never_ends_is_none(serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(endpoint, "_client", partial(endpoint._client, timeout_s=0.3))
    with pytest.raises(ServerError, match=r"does not answer: ReadTimeout\('not whole after 0.3 s'\)"):
        connect(serve({PROBES[0]: ["drip"]}).url, "baseline", REQUEST)


def test_nor_is_one_of_any_size(serve: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LARGEST", 100)
    monkeypatch.setattr(endpoint, "PAUSE_S", 0.0)
    server = serve()
    server.models = b'{"data": [{"id": "' + b"x" * 100 + b'"}]}'
    with pytest.raises(ServerError, match="more than 100 bytes"):
        connect(server.url, "baseline", REQUEST)


def test_secrets_in_what_it_tells_are_not_kept(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.models = json.dumps(
        {"data": [{"id": "gate", "owned_by": "hf_" + "Pl4nted" * 6, "root": "org/model"}]}
    ).encode()
    told = connect(server.url, "baseline", REQUEST).told
    assert told["root"] == "org/model"
    assert "owned_by" not in told


@pytest.mark.parametrize("card", [{"id": None}, {"id": ""}, {"id": {}}, "gate", {"id": "gate", "n": float("nan")}])
def test_cards_that_name_no_model(card: Any, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.models = json.dumps({"data": [card]}).encode()
    with pytest.raises(UsageError, match="gives no list of models"):
        connect(server.url, "baseline", REQUEST)


def test_a_connection_is_not_waited_for_as_long_as_an_answer() -> None:
    with endpoint._client("http://127.0.0.1:9", {}) as client:
        assert (client.timeout.connect, client.timeout.read) == (10, 300)


def test_nobody_there() -> None:
    with pytest.raises(ServerError, match=r"baseline's endpoint .* does not answer"):
        connect("http://127.0.0.1:9", "baseline", REQUEST)  # "discard", which nobody runs


def test_an_answer_of_another_model_ends_it(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.named = lambda text: {"model": "int4", "system_fingerprint": "fp_1"}
    found = connect(server.url, "candidate", REQUEST)
    assert found.identity()["named"] == {"model": "int4", "system_fingerprint": "fp_1"}
    found.demand_named({"model": "int4", "system_fingerprint": "fp_1"})
    found.demand_unchanged()
    for other in ({"model": "bf16", "system_fingerprint": "fp_1"}, {"model": "int4", "system_fingerprint": "fp_2"}, {}):
        with pytest.raises(ServerError, match="changed what answers") as ending:
            found.demand_named(other)
        assert ending.value.exit_code == 30
    server.named = lambda text: {"model": "bf16", "system_fingerprint": "fp_1"}
    with pytest.raises(ServerError, match="otherwise than before the replay"):
        found.demand_unchanged()


def test_other_answers_after_the_replay_end_it(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    found = connect(server.url, "candidate", REQUEST)
    server.respond = lambda body: {"role": "assistant", "content": "something else"}
    with pytest.raises(ServerError, match="otherwise than before the replay"):
        found.demand_unchanged()


def test_fixed_prompts_that_several_models_answer(serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.named = lambda text: {"model": text}
    with pytest.raises(ServerError, match="lets several models answer"):
        connect(server.url, "candidate", REQUEST)


@pytest.mark.parametrize("listing", [b"[" * 200_000, b'{"data": [{"id": "\\ud800"}]}'])
def test_a_list_of_models_that_cannot_be_read(listing: bytes, serve: Callable[..., FakeServer]) -> None:
    server = serve()
    server.models = listing
    with pytest.raises(UsageError, match="gives no list of models"):
        connect(server.url, "candidate", REQUEST)


@pytest.mark.parametrize(
    ("action", "told"),
    [("deep", "unreadable answer"), ("surrogate", "unreadable answer"), ("gzip", "does not answer")],
)
def test_a_fixed_prompt_answered_with_nonsense(action: str, told: str, serve: Callable[..., FakeServer]) -> None:
    with pytest.raises(ServerError, match=told):
        connect(serve({PROBES[1]: [action]}).url, "candidate", REQUEST)
