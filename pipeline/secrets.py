"""Secrets in text: credentials that must not reach a record, a log or a report.

Known are the forms that vendors give their keys so that scanners find them, passwords and signatures in URLs, and
the values of this process's environment variables whose names say that they are secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

REMOVED = "[secret removed]"
LEAST_LENGTH = 8
"""Characters of an environment variable's value from which it is taken for a secret: `true` is none."""

_NAMED = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
_FORMS = {
    "a private key": (
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:[^-]*-----END (?:[A-Z]+ )*PRIVATE KEY-----)?",
        ("private key-----",),
    ),
    "an AWS access key": (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", ("akia", "asia")),
    "a GitHub token": (
        r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_"),
    ),
    "a GitLab token": (r"\bglpat-[\w-]{20,}", ("glpat-",)),
    "a Hugging Face token": (r"\bhf_[A-Za-z0-9]{30,}", ("hf_",)),
    "an API key": (r"\bsk-[\w-]{20,}", ("sk-",)),
    "a Stripe key": (r"\b[rs]k_live_[A-Za-z0-9]{20,}", ("k_live_",)),
    "a Slack token": (r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}", ("xox",)),
    "a Google API key": (r"\bAIza[\w-]{35}", ("aiza",)),
    "a JSON web token": (r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}", ("eyj",)),
    "a bearer token": (r"(?i)\bbearer [\w.~+/-]{20,}=*", ("bearer ",)),
    "a password in a URL": (r"(?<=://)[^\s/@:'\"]*:[^\s/@'\"]+(?=@)", ("://",)),
    "a signature in a URL": (
        r"(?i)(?<=[?&])(?:x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|sig|signature|token"
        r"|access_token|api_?key)=[^&\s'\"]+",
        ("sig=", "signature=", "token=", "credential=", "key="),
    ),
}
"""Form of each kind, and what a text must hold in lower case to be worth searching, which most lack."""
_KINDS = {kind: (re.compile(form), hints) for kind, (form, hints) in _FORMS.items()}


def find_secret(text: str) -> str | None:
    """What kind of secret is in ``text``, in words that do not repeat it; None where there is none."""
    if any(value in text for value in _in_environment()):
        return "the value of a secret environment variable"
    return next((kind for kind, form in _likely(text) if form.search(text)), None)


def scrubbed(text: str) -> str:
    """``text`` with :data:`REMOVED` in the place of each secret."""
    for value in _in_environment():
        text = text.replace(value, REMOVED)
    for _, form in list(_likely(text)):
        text = form.sub(REMOVED, text)
    return text


def _likely(text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The kinds that could be in ``text``, with their forms."""
    lowered = text.lower()
    return ((kind, form) for kind, (form, hints) in _KINDS.items() if any(hint in lowered for hint in hints))


def _in_environment() -> list[str]:
    """Values of secret environment variables, the longest first."""
    values = {value for name, value in os.environ.items() if _NAMED.search(name) and len(value) >= LEAST_LENGTH}
    return sorted(values, key=len, reverse=True)
