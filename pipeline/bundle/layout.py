"""What a bundle holds, and the manifest that knows every file of it.

::

    manifest.json             what the run was, what code made it, SHA-256 and size of every other file
    lines.json                the first characters of the digest of every line of the *.jsonl files, to name an edit
    decision.json flips.jsonl the decision record as it was made
    decision.stage.json       what the decision was told beside outcomes: findings, resources, reasons of other stages
    policy.json               margins, floors, sampling: the decision policy in force
    golden.json turns.jsonl   the golden manifest, and the turns as they were asked, with what was expected
    requests.jsonl            every request body, by turn and seed; the same for both sides
    findings.json             what the inspection of the candidate found
    replays/<name>/           replies.jsonl, outcomes.jsonl, engine.json, server.log, stage.json (what it was keyed by)
    checkpoints/<side>.json   SHA-256 and size of weights, configuration, tokenizer and template
    environments/*.txt        the pins of the environments used
    attestations/             signatures made later; the manifest does not list them, they speak of it

A bundle of a run that was settled before anything was replayed has no requests and no replays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.digests import file_digest
from pipeline.errors import RecordError
from pipeline.visible import visible

SCHEMA_VERSION = 1
EVIDENCE_FILE = "evidence.tar.zst"
"""The bundle in the directory of a kept run."""
MANIFEST, LINES, DECIDED = "manifest.json", "lines.json", "decision.stage.json"
POLICY, GOLDEN, TURNS, REQUESTS, FINDINGS = (
    "policy.json",
    "golden.json",
    "turns.jsonl",
    "requests.jsonl",
    "findings.json",
)
REPLAYS, CHECKPOINTS, ENVIRONMENTS, ATTESTATIONS = "replays", "checkpoints", "environments", "attestations"
LINE_DIGITS = 8
"""Hexadecimal digits kept of a line's digest. They only say where; that nothing was edited is for the file's digest."""
SHOWN = 5
"""Lines named of one edited file."""
_REMEDY = "Give a file that `quant-gate bundle` wrote, and the version of quant-gate that wrote it."


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that does not agree: ``where`` names a file, a line or a field, ``text`` says what is wrong."""

    where: str
    text: str

    def __str__(self) -> str:
        return visible(f"{self.where}: {self.text}")


def write_manifest(root: Path, facts: Mapping[str, Any]) -> None:
    """Write ``lines.json`` and ``manifest.json`` for the files that are there.

    :param facts: what else the manifest says, as JSON values.
    """
    lines = {name: list(_line_digests(root / name)) for name in _files(root) if name.endswith(".jsonl")}
    write_json(root / LINES, lines)
    files = {name: {"sha256": file_digest(root / name), "bytes": (root / name).stat().st_size} for name in _files(root)}
    write_json(root / MANIFEST, {"schema_version": SCHEMA_VERSION, **facts, "files": files})


def read_manifest(root: Path) -> dict[str, Any]:
    """The manifest of an unpacked bundle.

    :raises RecordError: there is none, it is of another version, or it does not list files.
    """
    manifest = read_json(root / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("schema_version") != SCHEMA_VERSION:
        raise RecordError(f"{MANIFEST}: not the manifest of a bundle of version {SCHEMA_VERSION}", _REMEDY)
    if not isinstance(manifest.get("run"), dict) or not _lists_files(manifest.get("files")):
        raise RecordError(f"{MANIFEST}: does not say of which run it is, and which files with which digests", _REMEDY)
    return manifest


def _lists_files(files: Any) -> bool:
    known = files.values() if isinstance(files, dict) else [None]
    return all(isinstance(facts, dict) and isinstance(facts.get("sha256"), str) for facts in known)


def altered(root: Path, manifest: Mapping[str, Any]) -> list[Difference]:
    """Files that are not those of the manifest; in *.jsonl files the lines."""
    known, present = manifest["files"], _files(root)
    found = [Difference(name, "is in the manifest and missing") for name in sorted(known.keys() - set(present))]
    for name in present:
        if name == MANIFEST or name.startswith(f"{ATTESTATIONS}/"):
            continue
        if name not in known:
            found.append(Difference(name, "is not in the manifest"))
        elif (digest := file_digest(root / name)) != known[name]["sha256"]:
            found += _edited_lines(root, name)
            found.append(Difference(name, f"has digest {digest[:16]}, the manifest says {known[name]['sha256'][:16]}"))
    return found


def _edited_lines(root: Path, name: str) -> list[Difference]:
    """The lines of a file whose digests differ, named by turn where they belong to one."""
    try:
        expected = list(read_json(root / LINES)[name])
    except (RecordError, KeyError, TypeError):
        return []
    actual = list(_line_digests(root / name))
    edited = [n for n, pair in enumerate(zip(actual, expected, strict=False)) if pair[0] != pair[1]]
    raw = (root / name).read_bytes().splitlines() if edited else []
    found = [Difference(f"{name}:{n + 1}", f"{_subject(raw[n])}was edited") for n in edited[:SHOWN]]
    if len(edited) > SHOWN:
        found.append(Difference(name, f"{len(edited) - SHOWN} further lines were edited"))
    if len(actual) != len(expected):
        found.append(Difference(name, f"has {len(actual)} lines, had {len(expected)}"))
    return found


def _subject(line: bytes) -> str:
    """The turn that a line speaks of, for a message."""
    try:
        value = json.loads(line)
        turn = value.get("turn_id") or value.get("id")
    except (ValueError, AttributeError, RecursionError):
        return ""
    metric = value.get("metric")
    return f"{turn}{f', {metric},' if metric else ''} " if turn else ""


def _line_digests(path: Path) -> Iterator[str]:
    with path.open("rb") as lines:
        for line in lines:
            yield hashlib.sha256(line).hexdigest()[:LINE_DIGITS]


def _files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people. In the order given: that of a policy's metrics is that of the record."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file of a bundle or of a kept run.

    :raises RecordError: it is missing or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path.name}: cannot be read: {error}", "The evidence is incomplete or damaged.") from error
