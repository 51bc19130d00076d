"""A FAKE engine for teacher forcing: words are tokens, and each position lists the word that is there first.

It answers ``/tokenize`` and ``/v1/completions`` as vLLM 0.32 does, as far as :mod:`pipeline.serving.logprobs` reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import httpx

END = "<end>"


class FakeLogprobEngine:
    """``share``: probability of the word that is there, at every position. ``fail`` maps a path to a response."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share
        self.words: list[str] = [END]
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.fail: Callable[[str, dict[str, Any]], httpx.Response | None] = lambda path, body: None

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def ids(self, text: str) -> list[int]:
        for word in text.split():
            if word not in self.words:
                self.words.append(word)
        return [self.words.index(word) for word in text.split()]

    def text(self, ids: list[int] | tuple[int, ...]) -> str:
        return " ".join(self.words[token] for token in ids)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body, path = json.loads(request.content), request.url.path
        self.requests.append((path, body))
        if (response := self.fail(path, body)) is not None:
            return response
        if path == "/tokenize":
            return httpx.Response(200, json={"tokens": self.ids(self._render(body))})
        positions = [None, *map(self._position, body["prompt"][1:])]
        return httpx.Response(200, json={"choices": [{"prompt_logprobs": positions}]})

    def _render(self, body: dict[str, Any]) -> str:
        parts = [f"<tool> {tool['function']['name']}" for tool in body.get("tools", [])]
        for message in body["messages"]:
            calls = " ".join(
                f"<call> {call['function']['name']} {call['function']['arguments']} </call>"
                for call in message.get("tool_calls", [])
            )
            parts.append(f"<{message['role']}> {message.get('content') or ''} {calls} {END} <newline>")
        return " ".join([*parts, "<assistant>"] if body["add_generation_prompt"] else parts)

    def _position(self, token: int) -> dict[str, Any]:
        share = {token: self.share, token + 1000: (1 - self.share) / 2}
        return {
            str(t): {"logprob": math.log(p), "rank": n, "decoded_token": "?"} for n, (t, p) in enumerate(share.items())
        }
