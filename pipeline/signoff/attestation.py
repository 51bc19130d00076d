"""What is signed: in-toto Statements about the candidate's files, in DSSE envelopes.

Two statements have the same subjects, the SHA-256 of each file of the candidate that changes what it answers:

* the verdict: predicate `test-result v0.1 <https://in-toto.io/attestation/test-result/v0.1>`_. ``result`` is PASSED for
  ACCEPT alone; ``configuration`` names manifest and decision record of the evidence by digest, with the verdict.
* the sign-off or waiver: a predicate of our own, :data:`SIGNOFF_TYPE`, which names the same manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.bundle.layout import CHECKPOINTS, GOLDEN, MANIFEST, POLICY, read_json
from pipeline.digests import file_digest
from pipeline.errors import RecordError, SignoffError, Verdict
from pipeline.evidence.record import DECISION_FILE
from pipeline.signoff.keys import SigningKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
RESULT_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
SIGNOFF_TYPE = "urn:quant-gate:signoff:v1"
VERDICT_FILE, SIGNOFF_FILE = "verdict.dsse.json", "signoff.dsse.json"
_REMEDY = "It was altered, or is none: have the run attested again."


@dataclass(frozen=True, slots=True)
class Waiver:
    """A known regression that someone answers for, until the end of a day."""

    reason: str
    expires: date

    def __str__(self) -> str:
        return f"waived until {self.expires.isoformat()}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Signoff:
    """Who signed off what. With a ``waiver`` it is none of an ACCEPT: the verdict stays as it is.

    :ivar evidence: SHA-256 of the manifest of the evidence.
    :ivar candidate: digest of the candidate's checkpoint.
    """

    run: str
    verdict: Verdict
    by: str
    note: str
    at: str
    evidence: str
    candidate: str
    waiver: Waiver | None = None

    def predicate(self) -> dict[str, Any]:
        """As JSON values."""
        waiver = self.waiver and {"reason": self.waiver.reason, "expires": self.waiver.expires.isoformat()}
        return {**asdict(self), "verdict": self.verdict.value, "waiver": waiver}

    @staticmethod
    def of(predicate: Mapping[str, Any]) -> Signoff:
        """From JSON values.

        :raises RecordError: they are not a sign-off.
        """
        try:
            waiver = predicate["waiver"] and Waiver(
                str(predicate["waiver"]["reason"]), date.fromisoformat(predicate["waiver"]["expires"])
            )
            texts = {name: str(predicate[name]) for name in ("run", "by", "note", "at", "evidence", "candidate")}
            return Signoff(**texts, verdict=Verdict(predicate["verdict"]), waiver=waiver or None)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{SIGNOFF_FILE}: not a sign-off: {error!r}", _REMEDY) from error


def verdict_statement(root: Path, decision: Mapping[str, Any]) -> bytes:
    """The statement on the verdict of an unpacked bundle.

    :raises SignoffError: no candidate was made.
    """
    from google.protobuf.json_format import MessageToDict
    from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult

    result = TestResult(result="PASSED" if decision["verdict"] == Verdict.ACCEPT else "FAILED")
    result.configuration.extend(_configuration(root, decision))
    for row in decision["metrics"]:
        if row["gating"]:
            tests = result.passed_tests if row["verdict"] == Verdict.ACCEPT else result.failed_tests
            tests.append(row["metric"])
    return _statement(root, RESULT_TYPE, MessageToDict(result))


def signoff_statement(root: Path, signoff: Signoff) -> bytes:
    """The statement of a person on an unpacked bundle.

    :raises SignoffError: no candidate was made.
    """
    return _statement(root, SIGNOFF_TYPE, signoff.predicate())


def sign(statement: bytes, key: SigningKey, target: Path) -> None:
    """Write a statement in an envelope with the key's signature."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(statement, PAYLOAD_TYPE, {})
    envelope.sign(key.signer)
    target.write_text(json.dumps(envelope.to_dict(), indent=1) + "\n", encoding="utf-8")


def signed(path: Path, keys: Iterable[Any]) -> dict[str, Any]:
    """The statement in an envelope, after its signature was checked.

    :param keys: trusted public keys.
    :raises RecordError: none of them signed it as it is, or it is no envelope.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    try:
        envelope = Envelope.from_dict(json.loads(path.read_text(encoding="utf-8")))
        statement = json.loads(envelope.payload)
    except Exception as error:  # the library lets whatever a malformed envelope causes through
        raise RecordError(f"{path.name}: not a signed statement: {error!r}", _REMEDY) from error
    trusted = list(keys)
    if not trusted:
        signers = ", ".join(str(keyid)[:16] for keyid in envelope.signatures)
        raise RecordError(f"{path.name}: signed by key {signers}, and no key is trusted", "Give the public one: --key.")
    try:
        envelope.verify(trusted, 1)
    except (VerificationError, ValueError) as error:
        raise RecordError(f"{path.name}: no trusted key has signed this", _REMEDY) from error
    if envelope.payload_type != PAYLOAD_TYPE or not isinstance(statement, dict):
        raise RecordError(f"{path.name}: not an in-toto statement", _REMEDY)
    return statement


def subjects(root: Path) -> list[dict[str, Any]]:
    """Names and digests of the candidate's files, as an in-toto statement has them.

    :raises SignoffError: no candidate was made.
    """
    path = root / CHECKPOINTS / "candidate.json"
    if not path.is_file():
        raise SignoffError("no candidate was made, so there is nothing to sign", "Sign off a run that measured one.")
    return [{"name": name, "digest": {"sha256": facts["sha256"]}} for name, facts in sorted(read_json(path).items())]


def configuration(root: Path, decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the verdict rests on, as a test result has it."""
    from google.protobuf.json_format import MessageToDict

    return [MessageToDict(resource) for resource in _configuration(root, decision)]


def _configuration(root: Path, decision: Mapping[str, Any]) -> list[Any]:
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor

    told = {"verdict": decision["verdict"], "exit_code": decision["exit_code"]}
    resources = []
    for name in (MANIFEST, DECISION_FILE, POLICY, GOLDEN):
        notes = told if name == DECISION_FILE else None
        resource = ResourceDescriptor(name=name, digest={"sha256": file_digest(root / name)}, annotations=notes)
        resource.validate()
        resources.append(resource.pb)
    return resources


def _statement(root: Path, predicate_type: str, predicate: Mapping[str, Any]) -> bytes:
    from google.protobuf.json_format import MessageToJson
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
    from in_toto_attestation.v1.statement import Statement

    files = [ResourceDescriptor(name=s["name"], digest=s["digest"]).pb for s in subjects(root)]
    statement = Statement(files, predicate_type, dict(predicate))
    statement.validate()
    return str(MessageToJson(statement.pb, indent=None, sort_keys=True)).encode()
