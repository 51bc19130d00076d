"""A FAKE OpenAI-compatible server for unit tests: no model, scripted answers, standard library only.

What it answers to a chat request is decided by the last message's text: ``script[text]`` is a list of actions,
one per time this text is sent (the last one repeats); a text without a script gets ``ok``. Actions::

    ok            a plain reply, "reply to <text>"
    call          a reply with one tool call
    400 / 500     that HTTP status, with OpenAI's error object
    garbage       HTTP 200 with a body that is not JSON
    deep          HTTP 200 with JSON nested deeper than Python's parser goes
    gzip          HTTP 200 that says it is compressed and is not
    surrogate     a reply that holds half a character
    hang          no answer until the server is closed
    drip          an answer that never ends, a blank at a time
    drop          close the connection without an answer
    die           close every connection and stop listening, as a killed server does
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NONSENSE = {"garbage": b"<html>not JSON</html>", "deep": b"[" * 200_000, "gzip": b"not gzip"}


class FakeServer:
    """Listens on ``port`` (0: any free one) of 127.0.0.1 from construction until :meth:`close`."""

    def __init__(self, script: dict[str, list[str]] | None = None, port: int = 0, model: str = "") -> None:
        self.script = script or {}
        self.model = model
        self.requests: list[dict[str, Any]] = []
        """Bodies of the chat requests in the order of their arrival."""
        self.health = 200
        self.models: bytes | None = None
        """Answered to who asks for the models, in place of the one that there is."""
        self.respond: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        """Makes the message of an ``ok`` from the request."""
        self.refuses: tuple[str, ...] = ()
        """Fields for which a chat request gets HTTP 422, as a strict server gives it."""
        self.key = ""
        """Demanded of every request for facts, if set."""
        self.chat_key = ""
        """Demanded of every chat request, if set."""
        self.tells_tokens = True
        self.named: Callable[[str], dict[str, Any]] = lambda text: {}
        """Further fields of the answer to a text: what says it gave it."""
        self.token_ids = [1, 2, 3]
        self.prompt_tokens = 3
        self.most_in_flight = 0
        self._in_flight = 0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.closed = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def texts(self) -> list[str]:
        """The last message of each chat request, in the order of their arrival."""
        return [body["messages"][-1]["content"] for body in self.requests]

    def close(self) -> None:
        """Stop listening and break every connection."""
        if self.closed.is_set():
            return
        self.closed.set()
        self._http.shutdown()
        self._http.server_close()
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def wait(self) -> None:
        self.closed.wait()

    def action_for(self, body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        with self._lock:
            self.requests.append(body)
            actions = self.script.get(text, ["ok"])
            return actions[min(self.texts().count(text), len(actions)) - 1]

    @contextlib.contextmanager
    def counted(self) -> Any:
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            server._sockets.append(self.request)
            super().setup()

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

        def send(self, status: int, body: Any, encoding: str = "identity") -> None:
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Encoding", encoding)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def do_GET(self) -> None:
            if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                self.send(401, {"error": {"message": "no key"}})
            elif self.path == "/health":
                self.send(server.health, b"")
            elif self.path == "/version":
                self.send(200, {"version": "9.9.9"})
            elif self.path == "/v1/models":
                self.send(200, server.models or {"data": [{"id": "gate", "root": server.model}]})
            else:
                self.send(404, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.chat_key and self.headers.get("Authorization") != f"Bearer {server.chat_key}":
                self.send(401, {"error": {"message": "no key"}})
                return
            if unknown := [name for name in body if name in server.refuses]:
                self.send(422, {"detail": f"Unexpected fields in the request: {unknown}"})
                return
            with server.counted():
                self.answer(body, server.action_for(body))

        def answer(self, body: dict[str, Any], action: str) -> None:
            text = body["messages"][-1]["content"]
            if action == "hang":
                server.closed.wait()
            elif action == "drop":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            elif action == "die":
                threading.Thread(target=server.close).start()
                server.closed.wait()
            elif action == "drip":
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                while not server.closed.wait(0.02):
                    self.wfile.write(b" ")
            elif action in NONSENSE:
                self.send(200, NONSENSE[action], encoding="gzip" if action == "gzip" else "identity")
            elif action.isdigit():
                self.send(int(action), {"error": {"message": f"scripted {action} for {text}"}})
            else:
                message: dict[str, Any] = {"role": "assistant", "content": f"reply to {text}", "tool_calls": []}
                if server.respond is not None:
                    message = server.respond(body)
                if action == "surrogate":
                    message = {"content": "half \ud800"}
                if action == "call":
                    function = {"name": "look_up", "arguments": '{"order":  "A1"}'}
                    message = {"content": None, "tool_calls": [{"id": "x", "type": "function", "function": function}]}
                self.send(
                    200,
                    {
                        "choices": [
                            {"message": message, "finish_reason": "tool_calls" if action == "call" else "stop"}
                        ],
                        "usage": {"prompt_tokens": server.prompt_tokens, "completion_tokens": 7},
                        **server.named(text),
                        **({"prompt_token_ids": server.token_ids} if server.tells_tokens else {}),
                    },
                )

    return Handler
