"""The canary's questions, against a fake of the engine's completions route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from pipeline.serving.canary import PROMPTS, ask


@contextmanager
def engine(status: int, body: bytes) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that gives every request one answer, and the bodies it was sent."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append({"path": self.path, **json.loads(self.rfile.read(int(self.headers["Content-Length"])))})
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def told(tokens: list[str], values: list[Any]) -> bytes:
    return json.dumps({"choices": [{"logprobs": {"tokens": tokens, "token_logprobs": values}}]}).encode()


def test_both_prompts_are_asked_greedily_with_probabilities() -> None:
    with engine(200, told([" Paris", "."], [-0.1, -0.2])) as (url, asked):
        assert ask(url) == {name: {"tokens": [" Paris", "."], "finite": True} for name in PROMPTS}
    assert [body["prompt"] for body in asked] == list(PROMPTS.values())
    assert all((b["path"], b["temperature"], b["logprobs"]) == ("/v1/completions", 0, 1) for b in asked)
    assert len(PROMPTS["short"].split()) < 50
    assert len(PROMPTS["long"].split()) > 250


@pytest.mark.parametrize("value", [None, float("nan"), float("-inf")])
def test_values_that_are_no_numbers(value: float | None) -> None:
    with engine(200, told(["!"], [value])) as (url, _):
        assert ask(url)["short"] == {"tokens": ["!"], "finite": False}


@pytest.mark.parametrize(("status", "body"), [(500, b"{}"), (200, b"<html>"), (200, b'{"choices": []}'), (404, b"")])
def test_an_engine_that_cannot_answer_is_told_and_does_not_raise(status: int, body: bytes) -> None:
    with engine(status, body) as (url, _):
        found = ask(url)["long"]
    assert (found["tokens"], found["finite"]) == ([], False) and found["error"]


def test_no_engine_at_all() -> None:
    assert ask("http://127.0.0.1:9")["short"]["error"].startswith("Connect")
