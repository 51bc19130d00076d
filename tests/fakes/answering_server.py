"""A FAKE OpenAI-compatible server that answers by a function: no model, standard library only.

Chat requests get ``chat(text of the last message)``: a text, None (``content: null``) or an HTTP status. Completion
requests with ``echo`` get a log-probability for every token of the prompt: ``likely(token ids)`` for each of them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class AnsweringServer:
    """Listens on any free port of 127.0.0.1 inside a ``with`` block."""

    def __init__(
        self,
        chat: Callable[[str], str | int | None] = lambda text: "yes",
        likely: Callable[[list[int]], float] = lambda ids: -1.0,
    ) -> None:
        self.chat = chat
        self.likely = likely
        self.requests: list[dict[str, Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> AnsweringServer:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    # What `pipeline.serving.server.Server` offers beside its address.

    def check(self) -> None:
        """It lives."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.requests.append(body)
        if path == "/v1/chat/completions":
            said = self.chat(body["messages"][-1]["content"])
            if isinstance(said, int):
                return said, {"error": {"message": f"scripted {said}"}}
            return 200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": said}}]}
        assert path == "/v1/completions" and body["echo"] and body["max_tokens"] == 1
        choices = []
        for index, ids in enumerate(body["prompt"]):
            each = [None, *[self.likely(ids)] * (len(ids) - 1), -9.0]
            top = [None, *[{"x": value} for value in each[1:]]]
            choices.append({"index": index, "logprobs": {"token_logprobs": each, "top_logprobs": top}})
        return 200, {"choices": choices}


def _handler(server: AnsweringServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = server.answer(self.path, body)
            payload = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

    return Handler
