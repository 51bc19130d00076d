"""Checks of the running servers: warnings and failed canaries on the candidate's side alone.

Prompts, requests, flags and settings in effect are compared by :mod:`pipeline.stages.comparability`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.inspection.artifact import read_json
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
LEAST_TOKENS = 8
"""A reply of fewer tokens says nothing about variety."""
MOST_REPEATED = 2
"""A reply of no more different tokens is no text: one again and again, or two in turn."""


def served_findings(baseline: Path, candidate: Path) -> list[Finding]:
    """What the outputs of two replays (``server.log``, ``engine.json``) show of the servers."""
    logs = [(side / "server.log").read_text(encoding="utf-8", errors="replace") for side in (baseline, candidate)]
    canaries = [read_json(side / "engine.json").get("canary", {}) for side in (baseline, candidate)]
    return [*canary_findings(canaries[0], canaries[1]), *log_findings(logs[0], logs[1])]


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


def canary_findings(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[Finding]:
    """Canaries (``pipeline/serving/canary.py``) that the baseline answers with text and the candidate does not."""
    found = []
    for name, reply in candidate.items():
        if (fault := _fault(reply)) and not _fault(baseline.get(name, {})):
            found.append(
                finding(
                    "server-canary",
                    f"the {name} canary",
                    f"{fault}, where the baseline goes on with {''.join(baseline[name]['tokens'])[:60]!r}",
                    "Read the server's log; serve with --dtype float32 or other kernels to tell weights from kernels.",
                )
            )
    return found


def _fault(reply: Mapping[str, Any]) -> str:
    """What is wrong with a reply, in words; empty where nothing is."""
    tokens = reply.get("tokens") or []
    if not tokens:
        return f"there is no answer ({reply.get('error', 'no token')})"
    if not reply.get("finite"):
        return "log-probabilities are not finite"
    if len(tokens) >= LEAST_TOKENS and len(set(tokens)) <= MOST_REPEATED:
        kinds = " and ".join(map(repr, dict.fromkeys(tokens)))
        return f"the answer is {kinds} alone, {len(tokens)} tokens of it"
    return ""
