"""Teacher forcing: what a served model thinks of each token of the golden replies.

The server itself tokenizes each conversation with the golden reply at its end (``/tokenize``: its own tokenizer and
chat template), and gets the same token ids back as a prompt with ``prompt_logprobs``. It then lists, at every position,
its likeliest tokens and the one that is there. Of these the golden reply's are kept, its end-of-turn token with them.

Such requests read no prefix cache (vLLM switches it off for them), so each costs a whole prefill. They are sent one at
a time: prefill leaves nothing for a second one to use, and the listings of a long prompt are megabytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from evaluators.turn import Turn
from pipeline.digests import digest_of
from pipeline.errors import RecordError, ReplayError
from pipeline.progress import Progress
from pipeline.serving.clients import local_client
from pipeline.serving.plan import SERVED_NAME
from pipeline.serving.records import open_for_append
from pipeline.serving.replay import PAUSE_S, RETRY_STATUS
from pipeline.settings import ReplaySettings

TOP_K = 20
"""Tokens listed at each position: the engine's limit unless its ``--max-logprobs`` raises it."""
DIGITS = 6
"""Decimals of a log-probability; float32 has fewer below -10."""

Listing = dict[int, float]
"""Natural log-probabilities by token id."""


@dataclass(frozen=True, slots=True)
class TurnLogprobs:
    """What one side says of one golden reply.

    :ivar prompt_digest: SHA-256 of the token ids before the reply, of which there are ``prompt_tokens``.
    :ivar token_ids: of the golden reply, up to and with the token that ends the turn.
    :ivar calls_from: number of tokens before the tool calls (all of them where there are none).
    :ivar listings: at each token of the reply the likeliest tokens, and the one that is there.
    :ivar error: why there is nothing; then everything else is empty.
    """

    turn_id: str
    prompt_digest: str = ""
    prompt_tokens: int = 0
    token_ids: tuple[int, ...] = ()
    calls_from: int = 0
    listings: tuple[Listing, ...] = ()
    error: str | None = None

    def line(self) -> str:
        """The record as JSON, without a line end."""
        return json.dumps(asdict(self) | {"listings": [list(listing.items()) for listing in self.listings]})


def read_logprobs(path: Path) -> dict[str, TurnLogprobs]:
    """Records by turn id, the last one of each turn. A torn last line is left out.

    :raises RecordError: the file cannot be read, or another line is not a record.
    """
    try:
        text = path.read_bytes() if path.exists() else b""
        records = (_parse(json.loads(line)) for line in text[: text.rfind(b"\n") + 1].splitlines())
        return {record.turn_id: record for record in records}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path}: cannot read log-probabilities: {error!r}", f"Remove {path.parent} and run again."
        ) from error


def _parse(line: Mapping[str, Any]) -> TurnLogprobs:
    listings = tuple({int(token): float(value) for token, value in listing} for listing in line["listings"])
    return TurnLogprobs(**{**line, "token_ids": tuple(line["token_ids"]), "listings": listings})


def collect(
    *,
    url: str,
    turns: Sequence[Turn],
    ends: Collection[int],
    settings: ReplaySettings,
    path: Path,
    check: Callable[[], None],
    progress: Progress,
    label: str,
) -> dict[str, TurnLogprobs]:
    """Get a record for every turn, appending to ``path`` what is not there yet.

    A turn that the server refuses, or cannot answer although it lives, is a record with an error; the next try sends
    it again.

    :param url: base URL of the server, without ``/v1``.
    :param ends: token ids that end a reply; what a template writes after them is not the model's to say.
    :param check: raises when the server's process is dead.
    :returns: one record per turn, in the order of ``turns``.
    :raises ServerError: the server died.
    :raises ReplayError: a request got no answer in time, ``settings.attempts`` times.
    """
    kept = {turn_id: record for turn_id, record in read_logprobs(path).items() if record.error is None}
    with (
        open_for_append(path) as output,
        local_client(settings.timeout_s, url) as client,
    ):
        asking = _Asking(client, settings, check)
        for done, turn in enumerate(turns):
            progress.advance(label, done, len(turns))
            if turn.id not in kept:
                kept[turn.id] = asking.turn(turn, ends)
                output.write(kept[turn.id].line().encode() + b"\n")
                output.flush()
    progress.advance(label, len(turns), len(turns))
    return {turn.id: kept[turn.id] for turn in turns}


class _Refused(Exception):
    """The server answered that there is no answer."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """A connection to a server."""

    client: httpx.Client
    settings: ReplaySettings
    check: Callable[[], None]

    def turn(self, turn: Turn, ends: Collection[int]) -> TurnLogprobs:
        try:
            prompt = self._tokens(turn, turn.messages, add_generation_prompt=True)
            whole = self._tokens(turn, (*turn.messages, turn.gold))
            start = _shared(prompt, whole)
            stop = next((n for n, token in enumerate(whole) if n >= start and token in ends), len(whole) - 1) + 1
            if stop == start:
                raise _Refused("the chat template leaves the golden reply out")
            calls_from = stop
            if turn.gold.get("tool_calls"):
                said = {**turn.gold, "content": turn.gold.get("content") or ""}
                del said["tool_calls"]
                calls_from = max(start, _shared(whole[:stop], self._tokens(turn, (*turn.messages, said))))
            listings = self._listings(whole[:stop], start)
        except _Refused as refusal:
            return TurnLogprobs(turn.id, error=str(refusal))
        return TurnLogprobs(
            turn.id, digest_of(whole[:start]), start, tuple(whole[start:stop]), calls_from - start, listings
        )

    def _tokens(
        self, turn: Turn, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = False
    ) -> list[int]:
        body: dict[str, Any] = {
            "model": SERVED_NAME,
            "messages": list(messages),
            "add_generation_prompt": add_generation_prompt,
        }
        if turn.tools:
            body["tools"] = list(turn.tools)
        return [int(token) for token in self._post("/tokenize", body, lambda answer: answer["tokens"])]

    def _listings(self, token_ids: Sequence[int], start: int) -> tuple[Listing, ...]:
        body = {
            "model": SERVED_NAME,
            "prompt": list(token_ids),
            "prompt_logprobs": TOP_K,
            "max_tokens": 1,  # the engine cannot do without
            "temperature": 0,
        }

        def read(answer: Any) -> tuple[Listing, ...]:
            positions = answer["choices"][0]["prompt_logprobs"]
            if len(positions) != len(token_ids):
                raise ValueError(f"{len(positions)} positions for {len(token_ids)} tokens")
            return tuple(map(_listing, positions[start:], token_ids[start:]))

        listings: tuple[Listing, ...] = self._post("/v1/completions", body, read)
        return listings

    def _post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
        error, answered = "", False
        for attempt in range(1, self.settings.attempts + 1):
            self.check()
            try:
                response = self.client.post(path, json=body)
                if response.status_code < 500 and response.status_code not in RETRY_STATUS:
                    return _answer(response, read)
                error, answered = _message(response), True
            except httpx.TransportError as failure:
                error, answered = str(failure) or type(failure).__name__, False
            time.sleep(PAUSE_S * attempt)  # a dying server needs a moment to be seen dead
        self.check()
        if answered:  # by a server that lives: log-probabilities that are not numbers end so
            raise _Refused(error)
        raise ReplayError(
            f"no answer to {path} after {self.settings.attempts} tries: {error}",
            "See the server's log; raise timeout_s under replay in configs/gate.yaml. "
            "The next run sends only what is missing.",
        )


def _message(response: httpx.Response) -> str:
    text = response.text
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(response.json()["error"]["message"])
    return f"HTTP {response.status_code}: {text[:500]}"


def _answer(response: httpx.Response, read: Callable[[Any], Any]) -> Any:
    if response.status_code != 200:
        raise _Refused(_message(response))
    try:
        return read(response.json())
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _Refused(f"unreadable answer: {error!r}") from error


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Number of tokens that both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(first), len(second)))


def _listing(position: Mapping[str, Mapping[str, Any]], token_id: int) -> Listing:
    listing = {int(token): round(float(entry["logprob"]), DIGITS) for token, entry in position.items()}
    if not math.isfinite(listing[token_id]) or not all(map(math.isfinite, listing.values())):
        raise ValueError(f"log-probabilities that are not finite: {listing}")
    return listing
