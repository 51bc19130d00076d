"""An OpenAI-compatible endpoint that somebody else runs: what it can be asked, and what it tells of itself.

vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp's and transformers' servers all answer ``/v1/chat/completions``, but refuse
different fields of a request. :func:`connect` finds out, with one golden turn, which of the fields that change nothing
here (:data:`OPTIONAL`) the endpoint must not be sent, and takes a fingerprint: its answers to a few fixed prompts.

An endpoint does not show its weights. The fingerprint is all that is *measured* of them; it tells a later run whether
kept replies are still those of the same model. Everything else about weights and flags can only be *declared*.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from pipeline.digests import digest_of
from pipeline.errors import ServerError, UsageError
from pipeline.secrets import find_secret
from pipeline.serving.clients import certificates, whole_answer
from pipeline.serving.replay import RETRY_STATUS, body_of, is_local, message_of

OPTIONAL = ("return_token_ids", "tool_choice", "seed")
"""Fields that may be left out, in the order in which they are: token ids only serve to compare prompts, ``auto`` is the
default of ``tool_choice`` where there are tools, and a seed does nothing at temperature 0."""
KEY = "QUANT_GATE_{side}_KEY"
"""Environment variable that holds a side's key."""
COMMON_KEY = "OPENAI_API_KEY"
TIMEOUT_S, CONNECT_S, HASTY_S = 300.0, 10.0, 5.0
"""For an answer, for a connection, and for either where nobody wants to wait."""
LATER = RETRY_STATUS | {502, 503, 504}
"""What a server or one before it answers that is busy or starting."""
TRIES, PAUSE_S = 4, 1.0
"""How often a fixed prompt is sent, and the pause before the second try; the n-th takes n times as long."""
EXAMPLE = "Give one such as http://127.0.0.1:8000/v1."
PROBES = (
    "Name the capital of France in one word.",
    "Count from one to ten in words.",
    "Write a short apology to a customer whose parcel is late.",
    "A customer paid 48.50 and gets 12.25 back. How much did they pay in the end?",
)
PROBE_TOKENS = 32
_NAMES = ("model", "system_fingerprint")
"""Fields of an answer that say what gave it."""
_TOLD = ("owned_by", "root", "max_model_len", "meta")
"""What a card in the list of models may tell of the model that does not change by itself, as ``created`` does."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint that answers.

    :ivar url: without ``/v1``.
    :ivar dropped: fields of :data:`OPTIONAL` that it refuses.
    :ivar told: what it tells of itself: card of the model, version, server header.
    :ivar fingerprint: digest of its answers to fixed prompts; another one is another model, or one that does not
        repeat itself.
    :ivar named: what its answers to them say gave them: :data:`_NAMES`.
    """

    url: str
    model: str
    dropped: tuple[str, ...]
    told: Mapping[str, Any]
    fingerprint: str
    named: Mapping[str, str | None]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Holds the key: never to be kept or shown."""

    def adapt(self, body: dict[str, Any]) -> dict[str, Any]:
        """What this endpoint is sent of a request."""
        return {**{name: value for name, value in body.items() if name not in self.dropped}, "model": self.model}

    def identity(self) -> dict[str, Any]:
        """What replies depend on, as far as it can be known, as JSON values."""
        return {
            "url": self.url,
            "model": self.model,
            "dropped": list(self.dropped),
            "told": dict(self.told),
            "fingerprint": self.fingerprint,
            "named": dict(self.named),
        }

    def demand_named(self, body: Mapping[str, Any]) -> None:
        """Demand that an answer comes from what answered the fixed prompts.

        :raises ServerError: it names another model or system.
        """
        if (found := _named(body)) != self.named:
            raise ServerError(
                f"{self.url} changed what answers: {found}, before {dict(self.named)}",
                "Have it serve one model for as long as the comparison runs.",
            )

    def demand_unchanged(self, *, patient: bool = True) -> None:
        """Ask the fixed prompts again.

        :param patient: where there is no answer, ask a few times.
        :raises ServerError: the answers are others, or there are none.
        """
        try:
            with _client(self.url, self.headers, TIMEOUT_S if patient else HASTY_S) as client:
                fingerprint, named = _fingerprint(client, self.url, self.model, TRIES if patient else 1)
        except httpx.HTTPError as error:
            raise ServerError(f"{self.url} no longer answers: {error!r}", "Is it still up?") from error
        except UsageError as error:  # a key that was good until now is no fault of the input
            raise ServerError(error.message, error.remedy) from error
        if (fingerprint, named) != (self.fingerprint, self.named):
            raise ServerError(
                f"{self.url} answers the fixed prompts otherwise than before the replay",
                "Another model, or one that does not repeat itself: have it serve one model, repeatably.",
            )


def base_url(url: str) -> str:
    """``url`` without a trailing ``/v1`` or ``/v1/chat/completions``.

    :raises UsageError: not an http(s) URL, or one that holds a name, a password, a query, a fragment or a secret. One
        that may hold a secret is not quoted.
    """
    if held := "a user, a query or a fragment" if set(url) & set("@?#") else find_secret(urllib.parse.unquote(url)):
        raise UsageError(
            f"the URL of an endpoint holds {held}, which would be kept in records",
            f"Give the bare URL; a key belongs into {KEY.format(side='BASELINE')} or {COMMON_KEY}.",
        )
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"{url!r} is no URL: {error}", EXAMPLE) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{url!r} is no http(s) URL", EXAMPLE)
    bare = str(parsed).rstrip("/").removesuffix("/chat/completions")
    return bare.rstrip("/").removesuffix("/v1").rstrip("/")


def connect(url: str, side: str, request: Mapping[str, Any], model: str | None = None) -> Endpoint:
    """Ask an endpoint what it is and which requests it takes.

    :param side: ``baseline`` or ``candidate``: whose key is taken from the environment.
    :param request: a chat-completions body such as those of the replay.
    :param model: the name of the model; None: the only one that it lists.
    :raises UsageError: the URL or the key is none, or the model is not to be told.
    :raises ServerError: it does not answer, or refuses every form of the request.
    """
    base = base_url(url)
    key = _key(side)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with _client(base, headers) as client:
            card, told = _told(client, base, model)
            name = str(card["id"])
            dropped = _dialect(client, base, {**request, "model": name, "max_tokens": 1})
            fingerprint, named = _fingerprint(client, base, name)
    except httpx.HTTPError as error:
        raise ServerError(
            f"the {side}'s endpoint {base} does not answer: {error!r}", "Is it up, and the URL right?"
        ) from error
    return Endpoint(base, name, dropped, told, fingerprint, named, headers)


def _key(side: str) -> str:
    """The key of a side; empty where there is none.

    :raises UsageError: it is none that a header may hold. It is not quoted.
    """
    for variable in (KEY.format(side=side.upper()), COMMON_KEY):
        if key := os.environ.get(variable, "").strip():
            if not all("!" <= character <= "~" for character in key):
                raise UsageError(
                    f"{variable} holds characters that no key has: blanks, line breaks or letters beyond ASCII",
                    "Copy the key again, and nothing else.",
                )
            return key
    return ""


def _refused(base: str, answer: httpx.Response) -> UsageError:
    return UsageError(
        f"{base} refuses the key (HTTP {answer.status_code})",
        f"Set {KEY.format(side='BASELINE')}, {KEY.format(side='CANDIDATE')} or {COMMON_KEY} to one that may use it.",
    )


def _patiently(ask: Callable[[], httpx.Response], tries: int = TRIES) -> httpx.Response:
    """Ask again where the answer is "later" or the connection breaks; a slow answer was waited for once."""
    for attempt in range(1, tries):
        with contextlib.suppress(httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout):
            if (answer := ask()).status_code not in LATER:
                return answer
        time.sleep(PAUSE_S * attempt)
    return ask()


def _ask(client: httpx.Client, method: str, path: str, **body: Any) -> httpx.Response:
    return whole_answer(client, method, path, client.timeout.read or TIMEOUT_S, **body)


def _client(base: str, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> httpx.Client:
    # A new connection for each request: a slow answer lets the server close one that the next would be sent on.
    limits = httpx.Limits(max_keepalive_connections=0)
    trust = not is_local(base)
    return httpx.Client(
        base_url=base,
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
        limits=limits,
        trust_env=trust,
        verify=certificates(trust_env=trust),
    )


def _fingerprint(client: httpx.Client, base: str, model: str, tries: int = TRIES) -> tuple[str, dict[str, str | None]]:
    """The digest of the answers to the fixed prompts, and what they all say gave them."""
    answers, (named, *others) = zip(*(_answer(client, base, model, prompt, tries) for prompt in PROBES), strict=True)
    if differing := [other for other in others if other != named]:
        raise ServerError(
            f"{base} lets several models answer for {model}: {named} and {differing[0]}", "Name one of them."
        )
    return digest_of(list(answers)), named


def _named(body: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: None if body.get(name) is None else str(body[name]) for name in _NAMES}


def _told(client: httpx.Client, base: str, model: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The card of the model, and what the endpoint tells of itself."""
    listing = _ask(client, "GET", "/v1/models")  # at once: a wrong address is the user's to mend
    if listing.status_code in LATER:
        listing = _patiently(lambda: _ask(client, "GET", "/v1/models"))
    if listing.status_code in (401, 403):
        raise _refused(base, listing)
    try:
        cards = {_identified(card): card for card in body_of(listing.raise_for_status())["data"]}
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
        if model is None:
            raise UsageError(
                f"{base}/v1/models gives no list of models: {error!r}", "Name the model in the --declared file."
            ) from error
        cards = {}
    if model is None and len(cards) != 1:
        raise UsageError(
            f"{base} serves {len(cards)} models: {', '.join(sorted(cards)[:10]) or 'none'}",
            "Name the one that is meant as `model` in the --declared file.",
        )
    if model is not None and cards and model not in cards and not model.startswith("/"):
        raise UsageError(  # transformers' server lists its cache, and serves any directory as well
            f"{base} does not list the declared model {model!r}, but {', '.join(sorted(cards)[:10])}",
            "Correct `model` in the --declared file: some servers answer for any name.",
        )
    card = cards.get(model, {"id": model}) if model is not None else next(iter(cards.values()))
    told: dict[str, Any] = {name: card[name] for name in _TOLD if card.get(name) is not None}
    told = {name: value for name, value in told.items() if not find_secret(json.dumps(value, ensure_ascii=False))}
    if server := listing.headers.get("server"):
        told["server"] = server
    version = _ask(client, "GET", "/version")
    if version.is_success:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a page of its own under that path
            told["version"] = str(body_of(version)["version"])
    return card, told


def _identified(card: Any) -> str:
    if not (isinstance(card, dict) and isinstance(card.get("id"), str) and card["id"]):
        raise ValueError(f"{card!r:.100} names no model")
    return str(card["id"])


def _dialect(client: httpx.Client, base: str, body: dict[str, Any]) -> tuple[str, ...]:
    """The fewest of :data:`OPTIONAL`, from the first on, without which the endpoint takes the request."""
    refusal = ""
    for count in range(len(OPTIONAL) + 1):
        dropped = OPTIONAL[:count]
        sent = {name: value for name, value in body.items() if name not in dropped}
        answer = _patiently(partial(_ask, client, "POST", "/v1/chat/completions", json=sent))
        if answer.is_success:
            return dropped
        if answer.status_code in (401, 403):
            raise _refused(base, answer)
        refusal = f"HTTP {answer.status_code}: {message_of(answer)}"
        if answer.status_code in LATER:
            raise ServerError(f"{base} takes no golden turn now; the last answer: {refusal}", "Try again later.")
    raise ServerError(
        f"{base} refuses a golden turn in every form; the last answer: {refusal}",
        "It must take chat completions with tools; see its own log.",
    )


def _answer(client: httpx.Client, base: str, model: str, prompt: str, tries: int) -> tuple[str, dict[str, str | None]]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": PROBE_TOKENS,
    }
    answer = _patiently(lambda: _ask(client, "POST", "/v1/chat/completions", json=body), tries)
    if answer.status_code in (401, 403):
        raise _refused(base, answer)
    if not answer.is_success:
        raise ServerError(
            f"{base} does not answer a plain prompt: HTTP {answer.status_code}: {message_of(answer)}",
            "See the endpoint's own log.",
        )
    try:
        said = body_of(answer)
        return str(said["choices"][0]["message"].get("content") or ""), _named(said)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ServerError(f"{base} gives an unreadable answer to a plain prompt: {error!r}") from error
