"""Certificates for HTTPS, read once: httpx reads them anew for each client, 40 ms even where all is plain HTTP."""

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
