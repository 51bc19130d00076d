"""Secrets in text: credentials that must not reach a record, a log or a report.

Known are the forms that vendors give their keys so that scanners find them, passwords and signatures in URLs, and
the values of this process's environment variables whose names say that they are secret, with the passwords in those
that hold a URL. A value is also known as JSON, HTML and URLs write it.
"""

from __future__ import annotations

import html
import json
import os
import re
import urllib.parse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REMOVED = "[secret removed]"
LEAST_LENGTH = 8
"""Characters of an environment variable's value from which it is taken for a secret: `true` is none."""

_NAMED = re.compile(
    r"TOKEN(?!S|IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|(?:^|_)(?:KEY|PASS|AUTH)$|_PWD$",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"://(?:[^\s/@:]*:([^\s/]+)|([^\s/@:]{20,}))@")
_ADDRESSED = re.compile(r"UR[IL]|DSN|PROXY|INDEX|FIND_LINKS|CONNECTION", re.IGNORECASE)
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
    "a key in a header": (
        r"(?i)\bauthorization\W{1,4}basic [\w+/-]+=*|\b(?:x-)?api-key\W{1,4}(?=[\w.-]*\d)[\w.-]{8,}",
        ("authorization", "api-key"),
    ),
    "a password in a URL": (r"(?<=://)[^\s/@:'\"]*:[^\s/'\"]+(?=@)|(?<=://)[\w.~+%-]{20,}(?=@)", ("://",)),
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


def scrub_log(log: Path) -> None:
    """Take secrets out of the log of something that failed, where there is one.

    A full disk leaves it as it is, and raises nothing: what went wrong before is what must be told.
    """
    draft = log.with_suffix(".scrubbed")
    try:
        draft.write_text(scrubbed(log.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")
        draft.replace(log)
    except OSError:
        draft.unlink(missing_ok=True)


def _likely(text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The kinds that could be in ``text``, with their forms."""
    lowered = text.lower()
    return ((kind, form) for kind, (form, hints) in _KINDS.items() if any(hint in lowered for hint in hints))


def names_a_secret(variable: str) -> bool:
    """Whether the name of an environment variable says that its value is secret."""
    return _NAMED.search(variable) is not None


def _in_environment() -> list[str]:
    """Secrets of the environment in every way that they are written, the longest first."""
    found: set[str] = set()
    for name in os.environ:
        if (secret := _may_hold(name)) is not None:
            value = os.environ.get(name, "")
            for each in [value] if secret else _passwords(value):
                found |= _written(each.strip())  # as it is sent
    return sorted(found, key=len, reverse=True)


@cache
def _may_hold(variable: str) -> bool | None:
    """True: its value is a secret; False: it may be a URL with one in it; None: neither."""
    return True if names_a_secret(variable) else False if _ADDRESSED.search(variable) else None


def _passwords(urls: str) -> list[str]:
    return [word for pair in _IN_URL.findall(urls) for word in pair if word]


@cache
def _written(value: str) -> frozenset[str]:
    """How texts may write a secret: as it is, unquoted, in JSON, in HTML; nothing for what is too short to be one."""
    plain = {value, urllib.parse.unquote(value), urllib.parse.quote(value, safe="")}
    escaped = [json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in plain for ascii_only in (True, False)]
    forms = {*plain, *escaped, *map(html.escape, plain)}
    return frozenset(form for form in forms if len(value) >= LEAST_LENGTH)
