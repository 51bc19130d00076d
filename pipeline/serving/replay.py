"""Send turns to a server, keep every reply as it arrives, and go on where an earlier try stopped.

Whose fault a missing answer is decides what happens:

* The server refuses this one request (HTTP 400, 413, 422, mostly a prompt longer than the context): the turn is
  recorded with its error and is not sent again. Evaluators call it unscorable.
* The server refuses whoever asks (HTTP 401, 402, 403, 407): raised at once.
* No answer (time-out, any other status, broken connection, an answer of another form) while the server lives: tried
  again, up to
  ``ReplaySettings.attempts`` times; then recorded with its error. More such turns than a few
  (:func:`_tolerated`), or not one answered turn, is a fault of the set-up: :class:`ReplayError`.
* The server is dead: raised at once. What was answered is kept.

A record with an error is sent again by the next try; one with a reply only when its request has changed. A replay that
is whole but for turns without an answer (:func:`lacks_answers`) is gone on with by the next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import httpx

from evaluators.turn import Reply, ToolCall, Turn
from pipeline.digests import digest_of
from pipeline.errors import GateError, ReplayError, ServerError
from pipeline.progress import Progress, Silent
from pipeline.serving.clients import certificates, without_key
from pipeline.serving.plan import SERVED_NAME
from pipeline.serving.records import Record, open_for_append, read_records
from pipeline.settings import ReplaySettings, Sampling

RETRY_STATUS = frozenset({408, 425, 429})
"""Client errors that say "later", not "no"."""
OF_THE_REQUEST, OF_WHO_ASKS = frozenset({400, 413, 422}), frozenset({401, 402, 403, 407})
"""Client errors that the same request will meet again, and those that any request meets."""
PAUSE_S = 1.0
"""Seconds before a failed request is sent again, times the number of tries so far."""
REFUSED = "refused: "
"""Begins the error of a request that the server will refuse again."""
NESTED = 64
"""Levels of an answer's JSON: deeper than any, and far from what Python can walk through."""
WATCH_S = 0.5
"""Seconds between looks at the server's process."""


# --- requests ----------------------------------------------------------------------------------


def build_request(turn: Turn, sampling: Sampling) -> dict[str, Any]:
    """The chat-completions body for a turn. Unconstrained on purpose: no ``strict``, ``tool_choice`` auto."""
    body: dict[str, Any] = {
        "model": SERVED_NAME,
        "messages": [dict(message) for message in turn.messages],
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "return_token_ids": True,
    }
    if turn.tools:
        body["tools"] = [dict(tool) for tool in turn.tools]
        body["tool_choice"] = "auto"
    return body


def request_digest(body: Mapping[str, Any]) -> str:
    """Identity of a request: SHA-256 over its canonical JSON."""
    return digest_of(body)


# --- replaying ---------------------------------------------------------------------------------


def replay(
    *,
    url: str,
    turns: Sequence[Turn],
    sampling: Sampling,
    settings: ReplaySettings,
    path: Path,
    order_seed: int = 0,
    check: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
    label: str = "replay",
    adapt: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    headers: Mapping[str, str] | None = None,
    examine: Callable[[Mapping[str, Any]], None] = lambda body: None,
) -> dict[str, Record]:
    """Get a record for every turn, appending to ``path`` what is not there yet.

    :param url: base URL of the server, without ``/v1``.
    :param order_seed: 0 sends in the given order (turns of one transcript share a prefix); any other
        value is the seed of a shuffle, for measuring noise.
    :param check: raises when the server's process is dead; called every half second.
    :param adapt: makes of a request what this server is sent; its digest is that of the request before.
    :param headers: sent with every request, and kept nowhere.
    :param examine: sees every answer before it is kept; raises when another answers than was asked.
    :returns: one record per turn, in the order of ``turns``.
    :raises ServerError: the server died.
    :raises ReplayError: too many turns without an answer, or all refused.
    """
    kept = read_records(path)
    bodies = {turn.id: build_request(turn, sampling) for turn in turns}
    digests = {turn_id: request_digest(body) for turn_id, body in bodies.items()}
    answered = {
        t for t, record in kept.items() if record.reply.error is None and record.request_digest == digests.get(t)
    }
    missing = [turn_id for turn_id in bodies if turn_id not in answered]
    if order_seed:
        random.Random(order_seed).shuffle(missing)
    with open_for_append(path) as output:
        run = _Run(
            url=url,
            settings=settings,
            bodies={turn_id: adapt(body) for turn_id, body in bodies.items()},
            headers=headers or {},
            digests=digests,
            output=output,
            check=check,
            examine=examine,
            progress=progress or Silent(),
            label=label,
            done=len(bodies) - len(missing),
        )
        try:
            asyncio.run(run.all(missing))
        except ExceptionGroup as group:
            raise _first(group) from group
    records = read_records(path)
    complete = {turn.id: records[turn.id] for turn in turns}
    errors = [f"{turn_id}: {record.reply.error}" for turn_id, record in complete.items() if record.reply.error]
    if errors and len(errors) == len(complete):
        raise ReplayError(
            f"not one of {len(errors)} turns was answered; the first: {errors[0]}",
            "See the server's log beside the replies; check chat template, tool parser and max_model_len.",
        )
    return complete


def lacks_answers(path: Path) -> bool:
    """Whether another try might get an answer to some turn of these records: one that was not refused.

    :raises RecordError: a line is not a record.
    """
    errors = (record.reply.error for record in read_records(path).values())
    return any(error is not None and not error.startswith(REFUSED) for error in errors)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The most telling exception of a task group: one of ours before any other."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(error.exceptions)
        else:
            leaves.append(error)
    ours = [error for error in leaves if isinstance(error, GateError)]
    return (ours or leaves)[0]


def _tolerated(turns: int) -> int:
    """Turns that may stay without an answer from a living server before the replay is given up."""
    return max(3, turns // 20)


class _Refused(Exception):
    """The server said no to this request."""


class _NoAnswer(Exception):
    """There was no usable answer this time."""


class _Run:
    """The state of one replay."""

    def __init__(
        self,
        *,
        url: str,
        settings: ReplaySettings,
        bodies: Mapping[str, dict[str, Any]],
        headers: Mapping[str, str],
        digests: Mapping[str, str],
        output: IO[bytes],
        check: Callable[[], None],
        examine: Callable[[Mapping[str, Any]], None],
        progress: Progress,
        label: str,
        done: int,
    ) -> None:
        self._url = url
        self._settings = settings
        self._bodies = bodies
        self._headers = headers
        self._digests = digests
        self._output = output
        self._check = check
        self._examine = examine
        self._progress = progress
        self._label = label
        self._done = done
        self._unanswered: list[str] = []

    async def all(self, turn_ids: Sequence[str]) -> None:
        """Send every turn, ``concurrency`` at a time, for as long as the server lives."""
        waiting = iter(turn_ids)
        self._progress.advance(self._label, self._done, len(self._bodies))
        workers = min(self._settings.concurrency, len(turn_ids))
        limits = httpx.Limits(max_connections=workers, max_keepalive_connections=workers)
        local = is_local(self._url)  # a proxy in the environment must not stand between us and 127.0.0.1
        async with (
            httpx.AsyncClient(
                base_url=self._url,
                timeout=self._settings.timeout_s,
                limits=limits,
                headers=self._headers,
                trust_env=not local,
                verify=certificates(trust_env=not local),
            ) as client,
            asyncio.TaskGroup() as group,
        ):
            watch = group.create_task(self._watch())
            sending = [group.create_task(self._work(client, waiting)) for _ in range(workers)]
            if sending:
                await asyncio.wait(sending)
            watch.cancel()

    async def _watch(self) -> None:
        while True:
            self._check()
            await asyncio.sleep(WATCH_S)

    async def _work(self, client: httpx.AsyncClient, waiting: Iterable[str]) -> None:
        for turn_id in waiting:
            record = await self._answer(client, turn_id)
            self._output.write(record.line().encode() + b"\n")
            self._output.flush()
            self._done += 1
            self._progress.advance(self._label, self._done, len(self._bodies))

    async def _answer(self, client: httpx.AsyncClient, turn_id: str) -> Record:
        content = json.dumps(self._bodies[turn_id], ensure_ascii=False, allow_nan=False).encode()
        began = time.monotonic()
        error = ""
        for attempt in range(1, self._settings.attempts + 1):
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    reply, prompt = await self._send(client, turn_id, content)
                return self._record(turn_id, reply, prompt, began, attempt)
            except _Refused as refusal:
                return self._record(turn_id, Reply(turn_id, error=str(refusal)), {}, began, attempt)
            except (_NoAnswer, TimeoutError, httpx.RequestError) as failure:
                timed_out = isinstance(failure, (TimeoutError, httpx.TimeoutException))
                seconds = f"no answer within {self._settings.timeout_s:g} s"
                error = seconds if timed_out else str(failure) or type(failure).__name__
                self._check()
                await asyncio.sleep(PAUSE_S * attempt)  # a dying server needs a moment to be seen dead
                await self._check_health(client, error)
        self._unanswered.append(turn_id)
        if len(self._unanswered) > _tolerated(len(self._bodies)):
            raise ReplayError(
                f"{len(self._unanswered)} of {len(self._bodies)} turns got no answer after "
                f"{self._settings.attempts} tries; the last, {turn_id}: {error}",
                "See the server's log; raise timeout_s or lower concurrency under replay in configs/gate.yaml. "
                "The next run sends only what is missing.",
            )
        return self._record(turn_id, Reply(turn_id, error=error), {}, began, self._settings.attempts)

    async def _check_health(self, client: httpx.AsyncClient, error: str) -> None:
        """After a failure: a server whose engine is dead says so, or says nothing at all."""
        try:
            health = await client.get("/health", timeout=10)
        except httpx.TimeoutException:
            return  # busy, not dead
        except httpx.RequestError as failure:
            self._check()
            raise ServerError(
                f"the server at {self._url} no longer answers ({failure!r}), after: {error}",
                "See the server's log; the next run sends only what is missing.",
            ) from failure
        if health.status_code >= 500:
            self._check()
            raise ServerError(
                f"the server at {self._url} reports a dead engine (HTTP {health.status_code}), after: {error}",
                "See the server's log; the next run sends only what is missing.",
            )

    async def _send(self, client: httpx.AsyncClient, turn_id: str, content: bytes) -> tuple[Reply, dict[str, Any]]:
        response = await client.post(
            "/v1/chat/completions", content=content, headers={"content-type": "application/json"}
        )
        response = without_key(response, self._headers)
        if response.status_code in OF_THE_REQUEST:
            raise _Refused(f"{REFUSED}HTTP {response.status_code}: {message_of(response)}")
        if response.status_code in OF_WHO_ASKS:
            raise ServerError(
                f"the server at {self._url} refuses to answer: HTTP {response.status_code}: {message_of(response)}",
                "Give a key that may use it (docs/load.md); the next run sends only what is missing.",
            )
        if response.status_code != 200:
            raise _NoAnswer(f"HTTP {response.status_code}: {response.text[:500]}")
        try:
            body = body_of(response)
            read = _read_body(turn_id, body)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise _NoAnswer(f"unreadable answer: {error!a}"[:500]) from error
        self._examine(body)
        return read

    def _record(self, turn_id: str, reply: Reply, prompt: dict[str, Any], began: float, attempt: int) -> Record:
        return Record(
            turn_id=turn_id,
            request_digest=self._digests[turn_id],
            reply=reply,
            prompt_token_ids_digest=prompt.get("digest"),
            prompt_tokens=prompt.get("tokens"),
            latency_s=round(time.monotonic() - began, 3),
            attempt=attempt,
        )


def is_local(url: str) -> bool:
    """Whether ``url`` names this machine."""
    return httpx.URL(url).host in ("localhost", "127.0.0.1", "::1")


def body_of(response: httpx.Response) -> Any:
    """The JSON of an answer, which may be anybody's.

    :raises ValueError: no JSON, nested deeper than any answer, or text that no file can hold.
    """
    try:
        body = response.json()
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    _demand_shallow(body, NESTED)
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()  # no file of ours can hold a lone surrogate or NaN
    return body


def _demand_shallow(value: Any, levels: int) -> None:
    if levels == 0:
        raise ValueError("nested too deeply")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(part, (dict, list)):
            _demand_shallow(part, levels - 1)


def message_of(response: httpx.Response) -> str:
    """The server's own message, from OpenAI's error object where there is one."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(body_of(response)["error"]["message"])[:500]
    return response.text[:500]


def _text(arguments: Any) -> str:
    """Arguments as JSON text; some servers give the object itself."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _read_body(turn_id: str, body: Mapping[str, Any]) -> tuple[Reply, dict[str, Any]]:
    """The reply in an answer.

    :raises TypeError: a field is of another type than OpenAI's; missing ones raise KeyError.
    """
    choice = body["choices"][0]
    message, usage, token_ids = choice["message"], body["usage"], body.get("prompt_token_ids")
    calls = tuple(
        ToolCall(_typed(call["function"]["name"], str), _text(call["function"]["arguments"]))
        for call in _typed(message.get("tool_calls") or [], list)
    )
    reply = Reply(
        turn_id=turn_id,
        content=_typed("" if message.get("content") is None else message["content"], str),
        tool_calls=calls,
        finish_reason=_typed(choice["finish_reason"], str, type(None)),
        completion_tokens=_typed(usage["completion_tokens"], int, type(None)),
    )
    digest = digest_of(_typed(token_ids, list)) if token_ids else None
    return reply, {"digest": digest, "tokens": _typed(usage["prompt_tokens"], int, type(None))}


def _typed(value: Any, *types: type) -> Any:
    if not isinstance(value, types) or isinstance(value, bool):
        raise TypeError(f"{value!r:.100} where {' or '.join(each.__name__ for each in types)} is due")
    return value
