"""Checks of the running servers' logs: what the engine warns of on the candidate's side alone.

Prompts, requests, flags and settings in effect are compared by :mod:`pipeline.stages.comparability`.
"""

from __future__ import annotations

import re

from pipeline.inspection.findings import Finding, finding

_LINE = re.compile(r"^(?:\(\S+ pid=\d+\) )?(?:WARNING|ERROR) \S+ \S+ \[\S+\] (.*)$", re.MULTILINE)
"""A warning as vLLM's logger writes it, behind the name of its process."""
_TOPICS = {
    "a missing or unusual scale": re.compile(r"scal(e|ing)[ -]?(factor)?s?\b|uncalibrated|calibrat", re.IGNORECASE),
    "another kernel or way to compute than the scheme's own": re.compile(
        r"fall(s|ing)? back|fallback|unoptimized|sub-optimal|emulation|simulated|weight-only|native support|"
        r"padding for some weight|not supported by",
        re.IGNORECASE,
    ),
    "a setting that is not followed": re.compile(
        r"\bignor(ed|ing)\b|overrid(den|ing)|will be disabled|has no effect|used instead of", re.IGNORECASE
    ),
}
"""What a warning is about, by its words; the first that fits."""
_VARYING = re.compile(r"/\S+|\d+(\.\d+)?")
"""Parts of a message that differ between sides for other reasons: paths and numbers."""
SHOWN = 300


def log_findings(baseline: str, candidate: str) -> list[Finding]:
    """Warnings of the candidate's server that the baseline's does not have, on a topic that matters.

    :param baseline: text of the baseline's server log.
    :param candidate: text of the candidate's.
    """
    known = {_VARYING.sub("#", message) for message in _LINE.findall(baseline)}
    new: dict[str, str] = {}
    for message in _LINE.findall(candidate):
        if (plain := _VARYING.sub("#", message)) not in known:
            new.setdefault(plain, message)
    found = []
    for message in new.values():
        topic = next((name for name, words in _TOPICS.items() if words.search(message)), None)
        if topic is not None:
            found.append(
                finding(
                    "server-log",
                    "server.log",
                    f"the engine warns of {topic}, on the candidate's side alone: {message[:SHOWN]}",
                    "Read it in the server's log: the candidate may not be computed as its scheme says.",
                )
            )
    return found
