"""Secrets in text: credentials that must not reach a record, a log or a report.

Known are the forms that vendors give their keys so that scanners find them, passwords and signatures in URLs, and
the values of this process's environment variables whose names say that they are secret.
"""

from __future__ import annotations

import os
import re

REMOVED = "[secret removed]"
LEAST_LENGTH = 8
"""Characters of an environment variable's value from which it is taken for a secret: `true` is none."""

_NAMED = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
_FORMS = {
    "a private key": re.compile(
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:[^-]*-----END (?:[A-Z]+ )*PRIVATE KEY-----)?"
    ),
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "a GitHub token": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}"),
    "a GitLab token": re.compile(r"\bglpat-[\w-]{20,}"),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
    "an API key": re.compile(r"\bsk-[\w-]{20,}"),
    "a Stripe key": re.compile(r"\b[rs]k_live_[A-Za-z0-9]{20,}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "a Google API key": re.compile(r"\bAIza[\w-]{35}"),
    "a JSON web token": re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    "a bearer token": re.compile(r"\bbearer [\w.~+/-]{20,}=*", re.IGNORECASE),
    "a password in a URL": re.compile(r"(?<=://)[^\s/@:'\"]*:[^\s/@'\"]+(?=@)"),
    "a signature in a URL": re.compile(
        r"(?<=[?&])(?:x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|sig|signature|token"
        r"|access_token|api_?key)=[^&\s'\"]+",
        re.IGNORECASE,
    ),
}


def find_secret(text: str) -> str | None:
    """What kind of secret is in ``text``, in words that do not repeat it; None where there is none."""
    if any(value in text for value in _in_environment()):
        return "the value of a secret environment variable"
    return next((kind for kind, form in _FORMS.items() if form.search(text)), None)


def scrubbed(text: str) -> str:
    """``text`` with :data:`REMOVED` in the place of each secret."""
    for value in _in_environment():
        text = text.replace(value, REMOVED)
    for form in _FORMS.values():
        text = form.sub(REMOVED, text)
    return text


def _in_environment() -> list[str]:
    """Values of secret environment variables, the longest first."""
    values = {value for name, value in os.environ.items() if _NAMED.search(name) and len(value) >= LEAST_LENGTH}
    return sorted(values, key=len, reverse=True)
