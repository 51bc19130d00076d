"""Verifying a bundle or a kept run with its signatures and, where they are at hand, the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pipeline.bundle.gathering import beside_weights
from pipeline.bundle.layout import ATTESTATIONS, CHECKPOINTS, Difference, read_json
from pipeline.bundle.verifying import Verification, opened, verify
from pipeline.digests import file_digest
from pipeline.errors import GateError, Verdict
from pipeline.signoff.attestation import (
    RESULT_TYPE,
    SIGNOFF_FILE,
    SIGNOFF_TYPE,
    VERDICT_FILE,
    Signoff,
    configuration,
    signed,
    subjects,
)
from pipeline.signoff.weights import SIGNATURE_FILE, weights_fault

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
"""What JSON of another shape than expected makes the code that reads it raise."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it.

    :ivar attested: the verdict is signed by a trusted key.
    :ivar signoff: the sign-off or waiver, where one is signed by a trusted key.
    """

    verification: Verification
    attested: bool
    signoff: Signoff | None


def today() -> date:
    """The day by which waivers expire, in UTC."""
    return datetime.now(UTC).date()


def check(
    path: Path, keys: Mapping[Path, Any], *, weights: Path | None = None, demand_signature: bool = False
) -> Checked:
    """Verify the bundle ``path``, or the kept run in the directory ``path``.

    :param keys: trusted public keys by file.
    :param weights: directory of the candidate's checkpoint; None: it is not looked at.
    :param demand_signature: that the verdict is not signed is a difference, too.
    :raises UsageError: there is no such bundle or run.
    :raises RecordError: it cannot be read at all.
    """
    with opened(path) as root:
        found = verify(root, path if path.is_dir() else None)
        differences, notes, signoff = list(found.differences), list(found.notes), None
        folder = root / ATTESTATIONS
        present = {file.name for file in folder.glob("*")}
        differences += [
            Difference(f"{ATTESTATIONS}/{name}", "is not known here")
            for name in sorted(present - {VERDICT_FILE, SIGNOFF_FILE, SIGNATURE_FILE})
        ]
        attested = VERDICT_FILE in present
        if attested:
            differences += _verdict(root, found, keys)
        elif demand_signature:
            differences.append(Difference(ATTESTATIONS, "the verdict is not signed"))
        else:
            notes.append("The verdict is not signed.")
        if SIGNOFF_FILE in present:
            try:
                signoff = _signoff(root, keys)
                differences += _signed_off(signoff, found)
            except GateError as error:
                differences.append(Difference(f"{ATTESTATIONS}/{SIGNOFF_FILE}", error.message))
            except _MALFORMED as error:
                differences.append(
                    Difference(f"{ATTESTATIONS}/{SIGNOFF_FILE}", f"speaks of what is damaged: {error!r}")
                )
        if weights is None:
            notes.append("The weights were not at hand: their digests are as recorded.")
        else:
            differences += (altered := altered_weights(root, weights))
            if SIGNATURE_FILE in present and not altered:
                fault = weights_fault(weights, folder / SIGNATURE_FILE, keys)
                differences += [Difference(f"{ATTESTATIONS}/{SIGNATURE_FILE}", fault)] if fault else []
        if signoff and signoff.waiver and signoff.waiver.expires < today():
            notes.append(f"The waiver expired on {signoff.waiver.expires.isoformat()}.")
        result = replace(found, differences=tuple(differences), notes=tuple(notes))
        return Checked(result, attested and not differences, signoff)


def _verdict(root: Path, found: Verification, keys: Mapping[Path, Any]) -> list[Difference]:
    where = f"{ATTESTATIONS}/{VERDICT_FILE}"
    try:
        statement = signed(root / ATTESTATIONS / VERDICT_FILE, keys.values())
        predicate = statement["predicate"]
        passed = predicate["result"] == "PASSED"
        differences = []
        if statement["predicateType"] != RESULT_TYPE or statement["subject"] != subjects(root):
            differences.append(Difference(where, "is not about these candidate's files"))
        if predicate["configuration"] != configuration(root, found.decision):
            differences.append(Difference(where, "is not about this evidence: a digest or the verdict differs"))
        if passed != (found.decision["verdict"] == Verdict.ACCEPT):
            differences.append(Difference(where, f"says {predicate['result']}"))
        return differences
    except GateError as error:
        return [Difference(where, error.message)]
    except _MALFORMED as error:
        return [Difference(where, f"is incomplete: {error!r}")]


def read_signoff(path: Path, keys: Mapping[Path, Any]) -> tuple[Signoff, list[dict[str, Any]]]:
    """The sign-off in an envelope and the files it is about, after the signature was checked.

    :raises RecordError: it is not signed by a trusted key, or is no sign-off.
    """
    statement = signed(path, keys.values())
    predicate = statement.get("predicate") if statement.get("predicateType") == SIGNOFF_TYPE else None
    return Signoff.of(predicate or {}), list(statement.get("subject") or ())


def _signoff(root: Path, keys: Mapping[Path, Any]) -> Signoff:
    signoff, about = read_signoff(root / ATTESTATIONS / SIGNOFF_FILE, keys)
    if about != subjects(root):
        raise GateError("is not about these candidate's files")
    return signoff


def _signed_off(signoff: Signoff, found: Verification) -> list[Difference]:
    where = f"{ATTESTATIONS}/{SIGNOFF_FILE}"
    told = (signoff.evidence, signoff.candidate, signoff.verdict)
    if told != (found.manifest_digest, found.decision["candidate"]["digest"], found.decision["verdict"]):
        return [Difference(where, "is not about this evidence")]
    if (signoff.waiver is None) != (signoff.verdict is Verdict.ACCEPT):
        return [
            Difference(where, f"a sign-off of {signoff.verdict} {'with' if signoff.waiver else 'without'} a waiver")
        ]
    return []


def altered_weights(root: Path, weights: Path) -> list[Difference]:
    """Files of the candidate that are not those that were measured, and such that were not there then."""
    name = f"{CHECKPOINTS}/candidate.json"
    try:
        measured = {file: facts["sha256"] for file, facts in read_json(root / name).items()}
    except _MALFORMED as error:
        return [Difference(name, f"does not say what was measured: {error!r}")]
    found = [
        Difference(str(file), "was not there when the candidate was measured")
        for file in [*beside_weights(weights), *sorted(weights.glob("*.safetensors"))]
        if file.name not in measured
    ]
    for name, digest in measured.items():
        file = weights / name
        if not file.is_file():
            found.append(Difference(str(file), "is missing"))
        elif file_digest(file) != digest:
            found.append(Difference(str(file), "is not the file that was measured"))
    return found
