"""An OpenAI-compatible endpoint that somebody else runs: what it can be asked, and what it tells of itself.

vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp's and transformers' servers all answer ``/v1/chat/completions``, but refuse
different fields of a request. :func:`connect` finds out, with one golden turn, which of the fields that change nothing
here (:data:`OPTIONAL`) the endpoint must not be sent, and takes a fingerprint: its answers to a few fixed prompts.

An endpoint does not show its weights. The fingerprint is all that is *measured* of them; it tells a later run whether
kept replies are still those of the same model. Everything else about weights and flags can only be *declared*.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from pipeline.digests import digest_of
from pipeline.errors import ServerError, UsageError
from pipeline.serving.clients import certificates
from pipeline.serving.replay import body_of, is_local, message_of

OPTIONAL = ("return_token_ids", "tool_choice", "seed")
"""Fields that may be left out, in the order in which they are: token ids only serve to compare prompts, ``auto`` is the
default of ``tool_choice`` where there are tools, and a seed does nothing at temperature 0."""
KEY = "QUANT_GATE_{side}_KEY"
"""Environment variable that holds a side's key."""
COMMON_KEY = "OPENAI_API_KEY"
TIMEOUT_S = 300.0
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

    def demand_unchanged(self) -> None:
        """Ask the fixed prompts again.

        :raises ServerError: the answers are others, or there are none.
        """
        try:
            with _client(self.url, self.headers) as client:
                fingerprint, named = _fingerprint(client, self.url, self.model)
        except httpx.HTTPError as error:
            raise ServerError(f"{self.url} no longer answers: {error!r}", "Is it still up?") from error
        if (fingerprint, named) != (self.fingerprint, self.named):
            raise ServerError(
                f"{self.url} answers the fixed prompts otherwise than before the replay",
                "Another model, or one that does not repeat itself: have it serve one model, repeatably.",
            )


def base_url(url: str) -> str:
    """``url`` without a trailing ``/v1``.

    :raises UsageError: not an http(s) URL, or one that holds a name, a password, a query or a fragment.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"{url!r} is no URL: {error}", "Give one such as http://127.0.0.1:8000/v1.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{url!r} is no http(s) URL", "Give one such as http://127.0.0.1:8000/v1.")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise UsageError(
            f"the URL of {parsed.host} holds a user, a query or a fragment, which would be kept in records",
            f"Give the bare URL; a key belongs into {KEY.format(side='BASELINE')} or {COMMON_KEY}.",
        )
    return str(parsed).rstrip("/").removesuffix("/v1").rstrip("/")


def connect(url: str, side: str, request: Mapping[str, Any], model: str | None = None) -> Endpoint:
    """Ask an endpoint what it is and which requests it takes.

    :param side: ``baseline`` or ``candidate``: whose key is taken from the environment.
    :param request: a chat-completions body such as those of the replay.
    :param model: the name of the model; None: the only one that it lists.
    :raises UsageError: the URL is none, or the model is not to be told.
    :raises ServerError: it does not answer, or refuses every form of the request.
    """
    base = base_url(url)
    key = os.environ.get(KEY.format(side=side.upper())) or os.environ.get(COMMON_KEY)
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


def _client(base: str, headers: Mapping[str, str]) -> httpx.Client:
    # A new connection for each request: a slow answer lets the server close one that the next would be sent on.
    limits = httpx.Limits(max_keepalive_connections=0)
    trust = not is_local(base)
    return httpx.Client(
        base_url=base,
        headers=headers,
        timeout=TIMEOUT_S,
        limits=limits,
        trust_env=trust,
        verify=certificates(trust_env=trust),
    )


def _fingerprint(client: httpx.Client, base: str, model: str) -> tuple[str, dict[str, str | None]]:
    """The digest of the answers to the fixed prompts, and what they all say gave them."""
    answers, (named, *others) = zip(*(_answer(client, base, model, prompt) for prompt in PROBES), strict=True)
    if differing := [other for other in others if other != named]:
        raise ServerError(
            f"{base} lets several models answer for {model}: {named} and {differing[0]}", "Name one of them."
        )
    return digest_of(list(answers)), named


def _named(body: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: None if body.get(name) is None else str(body[name]) for name in _NAMES}


def _told(client: httpx.Client, base: str, model: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The card of the model, and what the endpoint tells of itself."""
    listing = client.get("/v1/models")
    if listing.status_code in (401, 403):
        raise UsageError(
            f"{base} refuses the key (HTTP {listing.status_code})",
            f"Set {KEY.format(side='BASELINE')}, {KEY.format(side='CANDIDATE')} or {COMMON_KEY}.",
        )
    try:
        cards = {str(card["id"]): dict(card) for card in body_of(listing.raise_for_status())["data"]}
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
    card = cards.get(model, {"id": model}) if model is not None else next(iter(cards.values()))
    told: dict[str, Any] = {name: card[name] for name in _TOLD if card.get(name) is not None}
    if server := listing.headers.get("server"):
        told["server"] = server
    version = client.get("/version")
    if version.is_success:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a page of its own under that path
            told["version"] = str(body_of(version)["version"])
    return card, told


def _dialect(client: httpx.Client, base: str, body: dict[str, Any]) -> tuple[str, ...]:
    """The fewest of :data:`OPTIONAL`, from the first on, without which the endpoint takes the request."""
    refusal = ""
    for count in range(len(OPTIONAL) + 1):
        dropped = OPTIONAL[:count]
        answer = client.post(
            "/v1/chat/completions", json={name: value for name, value in body.items() if name not in dropped}
        )
        if answer.is_success:
            return dropped
        refusal = f"HTTP {answer.status_code}: {message_of(answer)}"
        if answer.status_code >= 500 and count == len(OPTIONAL):
            break
    raise ServerError(
        f"{base} refuses a golden turn in every form; the last answer: {refusal}",
        "It must take chat completions with tools; see its own log.",
    )


def _answer(client: httpx.Client, base: str, model: str, prompt: str) -> tuple[str, dict[str, str | None]]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": PROBE_TOKENS,
    }
    answer = client.post("/v1/chat/completions", json=body)
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
