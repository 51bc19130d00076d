"""Signing a run off, and moving the champion: the only two ways to a release, and the rules that both keep.

* Signed off is a run that verifies, weights included. ACCEPT is signed off as it is; REJECT and INCONCLUSIVE only with
  a waiver, which leaves the verdict what it is; INVALID never, as nothing was compared.
* ``champion`` names only versions whose sign-off, as it lies in the registry, is signed by a trusted key and is one of
  an ACCEPT. A waived version is called ``waived`` instead: who serves it, says so.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.bundle.gathering import checkpoint_digest
from pipeline.bundle.layout import ATTESTATIONS, GOLDEN, REPLAYS, TURNS, read_json
from pipeline.bundle.turns import read_golden, read_turns
from pipeline.bundle.verifying import Verification, opened
from pipeline.errors import RecordError, SignoffError, UsageError, Verdict
from pipeline.evidence.record import read_decision
from pipeline.reporting import RunFacts
from pipeline.runs import KeptRun, read_kept_run, slug
from pipeline.signoff.attestation import (
    SIGNOFF_FILE,
    VERDICT_FILE,
    Signoff,
    Waiver,
    sign,
    signoff_statement,
    verdict_statement,
)
from pipeline.signoff.checking import check, read_signoff, today
from pipeline.signoff.keys import SigningKey
from pipeline.signoff.weights import SIGNATURE_FILE, sign_weights
from pipeline.stages import report
from pipeline.stages.serve_replay import REPLIES
from pipeline.store import STAGE_FILE, Store
from pipeline.tracking.facts import description
from pipeline.tracking.registry import CHAMPION, ROLLBACK, WAIVED, Registry

WAIVABLE = (Verdict.REJECT, Verdict.INCONCLUSIVE)
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Released:
    """What was signed, and where it now is. ``aliases`` are those that were moved, by name."""

    signoff: Signoff
    name: str
    version: str
    aliases: Mapping[str, str]


def registered_name(model: str) -> str:
    """What the quantized builds of a baseline are called in the registry."""
    return f"{slug(model)}-quantized"


def attest(directory: Path, key: SigningKey) -> None:
    """Sign the verdict of a kept run, and the candidate's weights where they are still at hand.

    :raises SignoffError: no candidate was made.
    """
    (directory / ATTESTATIONS).mkdir(exist_ok=True)
    decision = read_decision(directory / "decision.json")
    with opened(directory) as root:
        sign(verdict_statement(root, decision), key, directory / ATTESTATIONS / VERDICT_FILE)
    candidate = read_kept_run(directory).candidate
    if candidate and Path(candidate).is_dir():
        sign_weights(Path(candidate), key, directory / ATTESTATIONS / SIGNATURE_FILE)


def sign_off(
    directory: Path, key: SigningKey, trusted: Mapping[Path, Any], *, by: str, note: str, waiver: Waiver | None = None
) -> Released:
    """Sign a kept run off and register its candidate.

    An accepted one becomes ``champion`` and the version before it ``rollback``; a waived one is called ``waived``.

    :param trusted: public keys, that of ``key`` among them.
    :raises SignoffError: it does not verify, or its verdict does not allow it.
    :raises UsageError: a name or reason is missing, or the waiver ends before tomorrow.
    """
    if not by.strip() or not note.strip() or (waiver and not waiver.reason.strip()):
        raise UsageError("who signs off, the note and the reason of a waiver must not be empty", "Say who and why.")
    if waiver and waiver.expires <= today():
        raise UsageError(f"a waiver until {waiver.expires.isoformat()} has no day left", "Give a later day.")
    kept = read_kept_run(directory)
    weights = _weights(kept)
    verification = check(directory, trusted, weights=weights).verification
    _demand(verification, waiver)
    decision = dict(verification.decision)
    signoff = Signoff(
        run=directory.name,
        verdict=verification.verdict,
        by=by,
        note=note,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        evidence=verification.manifest_digest,
        candidate=str(decision["candidate"]["digest"]),
        waiver=waiver,
    )
    registry = Registry()
    attest(directory, key)
    file = directory / ATTESTATIONS / SIGNOFF_FILE
    try:
        with opened(directory) as root:
            sign(signoff_statement(root, signoff), key, file)
            if waiver:
                _report(root, directory, kept, signoff)
        return _registered(registry, directory, kept, weights, signoff, decision, key, trusted)
    except BaseException:
        file.unlink(missing_ok=True)  # what is not registered is not signed off
        raise


def _registered(
    registry: Registry,
    directory: Path,
    kept: KeptRun,
    weights: Path,
    signoff: Signoff,
    decision: Mapping[str, Any],
    key: SigningKey,
    trusted: Mapping[Path, Any],
) -> Released:
    """Register what was signed, and move the aliases that follow from it."""
    name, folder = registered_name(kept.model), directory / ATTESTATIONS
    version = registry.add_version(
        name,
        kept.mlflow_run,
        experiment=kept.experiment,
        run_name=directory.name,
        checkpoint=weights,
        signatures=[folder / file for file in (VERDICT_FILE, SIGNOFF_FILE, SIGNATURE_FILE)],
        reports=sorted(file for file in directory.iterdir() if file.is_file()),
        tags=_tags(signoff, decision, key),
        description="\n\n".join([_sentence(signoff), description(decision)]),
    )
    why = f"{directory.name}: {signoff.waiver or signoff.note}"
    if signoff.waiver:
        aliases = {WAIVED: version}
        registry.point(name, aliases, signoff.by, why)
    else:
        before = registry.aliased(name, CHAMPION)
        aliases = {CHAMPION: version} | ({ROLLBACK: before} if before and before != version else {})
        _crown(registry, name, aliases, trusted, signoff.by, why)
    return Released(signoff, name, version, aliases)


def roll_back(model: str, trusted: Mapping[Path, Any], *, by: str, note: str) -> Released:
    """Swap ``champion`` and ``rollback`` of the quantized builds of a baseline.

    :raises SignoffError: there is nothing to go back to, or it was not accepted and signed off by a trusted key.
    """
    registry, name = Registry(), registered_name(model)
    now, before = (registry.aliased(name, alias) for alias in (CHAMPION, ROLLBACK))
    if before is None or now is None:
        raise SignoffError(
            f"{name}: no version to go back to", "A second sign-off makes the first one's version the rollback."
        )
    aliases = {CHAMPION: before, ROLLBACK: now}
    signoff = _crown(registry, name, aliases, trusted, by, f"rollback: {note}")
    return Released(signoff, name, before, aliases)


def _crown(
    registry: Registry, name: str, aliases: Mapping[str, str], trusted: Mapping[Path, Any], by: str, why: str
) -> Signoff:
    """Move the champion, after its sign-off in the registry was read: nothing else moves it."""
    version = aliases[CHAMPION]
    where = f"version {version} of {name} cannot be champion"
    remedy = "Sign off a run that the gate accepted."
    with registry.signature(name, version, SIGNOFF_FILE) as path:
        try:
            signoff, files = read_signoff(path, trusted)
        except RecordError as error:
            raise SignoffError(f"{where}: {error.message}", error.remedy) from error
    if signoff.verdict is not Verdict.ACCEPT or signoff.waiver is not None:
        raise SignoffError(f"{where}: the gate's verdict on it is {signoff.verdict}", remedy)
    about = {
        registry.tags(name, version).get("candidate.digest"),
        checkpoint_digest({file["name"]: {"sha256": file["digest"]["sha256"]} for file in files}),
    }
    if about != {signoff.candidate}:
        raise SignoffError(f"{where}: its sign-off is about another candidate", remedy)
    registry.point(name, aliases, by, why)
    return signoff


def _weights(kept: KeptRun) -> Path:
    if kept.candidate is None or not Path(kept.candidate).is_dir():
        raise SignoffError(
            f"the candidate's checkpoint is not at hand ({kept.candidate or 'none was made'})",
            "Run the same gate again, on the machine that signs off: what is kept is reused.",
        )
    return Path(kept.candidate)


def _demand(found: Verification, waiver: Waiver | None) -> None:
    """The rules of a sign-off."""
    if found.differences:
        named = "\n".join(f"- {difference}" for difference in found.differences[:SHOWN])
        raise SignoffError(f"the run does not verify:\n{named}", "See `quant-gate verify`; run the gate again.")
    if found.verdict is Verdict.ACCEPT:
        if waiver:
            raise UsageError("the verdict is ACCEPT: there is nothing to waive", "Leave out --waive and --expires.")
    elif found.verdict not in WAIVABLE:
        raise SignoffError(f"the verdict is {found.verdict}: nothing was compared that could be signed off or waived")
    elif waiver is None:
        raise SignoffError(
            f"the verdict is {found.verdict}, not ACCEPT",
            "Only a waiver can be recorded for it: --waive REASON --expires DATE. It makes no champion.",
        )


def _sentence(signoff: Signoff) -> str:
    if signoff.waiver:
        return f"**{signoff.verdict}, {signoff.waiver}** Answered for by {signoff.by} on {signoff.at}: {signoff.note}"
    return f"**{signoff.verdict}**, signed off by {signoff.by} on {signoff.at}: {signoff.note}"


def _tags(signoff: Signoff, decision: Mapping[str, Any], key: SigningKey) -> dict[str, str]:
    return {
        "verdict": signoff.verdict.value,
        "signoff": f"{'waived' if signoff.waiver else 'signed off'} by {signoff.by} on {signoff.at}",
        "waiver": str(signoff.waiver) if signoff.waiver else "",
        "note": signoff.note,
        "run": signoff.run,
        "recipe": str(decision["candidate"]["recipe"].get("name")),
        "candidate.digest": signoff.candidate,
        "baseline.digest": decision["baseline"]["digest"],
        "golden_set.digest": decision["golden_set"]["digest"],
        "evidence.sha256": signoff.evidence,
        "key": key.id,
    }


def _report(root: Path, directory: Path, kept: KeptRun, signoff: Signoff) -> None:
    """Write the run's reports anew, with the waiver in them."""
    assert signoff.waiver is not None
    told = f"{signoff.waiver} ({signoff.by} on {signoff.at}: {signoff.note})"
    facts = RunFacts(kept.model, kept.recipe, kept.command, waivers=(f"{told[0].upper()}{told[1:]}",))
    replies = [root / REPLAYS / side / REPLIES for side in ("baseline", "candidate")]
    golden = read_golden(read_json(root / GOLDEN), read_turns(root / TURNS))
    with tempfile.TemporaryDirectory() as folder:
        made = report.run(
            Store(Path(folder)),
            decision_dir=root,
            golden=golden,
            replies_paths=[path for path in replies if path.exists()],
            run_facts=facts,
        )
        for file in made.path.iterdir():
            if file.name != STAGE_FILE:
                shutil.copyfile(file, directory / file.name)
