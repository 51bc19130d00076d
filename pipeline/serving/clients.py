"""HTTP clients for our own servers, answers of others' within bounds, and certificates that are read once.

httpx reads them anew for each client, 40 ms even where all is plain HTTP.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx

LARGEST = 16 << 20
"""Bytes of an answer: far more than any has."""


@cache
def certificates(*, trust_env: bool = False) -> ssl.SSLContext:
    """For ``verify`` of a client.

    :param trust_env: those that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name, where they are set.
    """
    return httpx.create_ssl_context(trust_env=trust_env)


def local_client(timeout_s: float, base_url: str = "") -> httpx.Client:
    """A client for a server on this machine: no proxy of the environment may stand between us and 127.0.0.1."""
    return httpx.Client(base_url=base_url, timeout=timeout_s, trust_env=False, verify=certificates())


def whole_answer(client: httpx.Client, method: str, path: str, seconds: float, **body: Any) -> httpx.Response:
    """The answer to a request, where all of it comes in time: httpx's time-outs are those of a single read.

    :param seconds: from sending to the last byte, give or take one read.
    :raises httpx.HTTPError: there is none, or none within ``seconds`` and :data:`LARGEST` bytes.
    """
    ends, said = time.monotonic() + seconds, bytearray()
    with client.stream(method, path, **body) as answer:
        for part in answer.iter_bytes():
            said += part
            if len(said) > LARGEST:
                raise httpx.ReadError(f"more than {LARGEST} bytes", request=answer.request)
            if time.monotonic() > ends:
                raise httpx.ReadTimeout(f"not whole after {seconds:g} s", request=answer.request)
    return without_key(_again(answer, bytes(said)), client.headers)


def without_key(answer: httpx.Response, headers: Mapping[str, str]) -> httpx.Response:
    """``answer``, with the key of the request's ``headers`` taken out where a server repeats it: answers are kept."""
    key = headers.get("authorization", "").removeprefix("Bearer ").encode()
    if not key or key not in answer.content:
        return answer
    return _again(answer, answer.content.replace(key, b"[key]"))


def _again(answer: httpx.Response, content: bytes) -> httpx.Response:
    headers = {
        name: value for name, value in answer.headers.items() if name not in ("content-encoding", "content-length")
    }
    return httpx.Response(answer.status_code, headers=headers, content=content, request=answer.request)
