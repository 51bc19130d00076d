"""HTTP clients for our own servers, and certificates that are read once.

httpx reads them anew for each client, 40 ms even where all is plain HTTP.
"""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates(*, trust_env: bool = False) -> ssl.SSLContext:
    """For ``verify`` of a client.

    :param trust_env: those that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name, where they are set.
    """
    return httpx.create_ssl_context(trust_env=trust_env)


def local_client(timeout_s: float, base_url: str = "") -> httpx.Client:
    """A client for a server on this machine: no proxy of the environment may stand between us and 127.0.0.1."""
    return httpx.Client(base_url=base_url, timeout=timeout_s, trust_env=False, verify=certificates())
