"""Signing a run off, and moving the champion: the only two ways to a release, and the rules that both keep.

* Signed off is a run that verifies, weights included. ACCEPT is signed off as it is; REJECT and INCONCLUSIVE only with
  a waiver, which leaves the verdict what it is; INVALID never, as nothing was compared. An ACCEPT by a policy for a
  tour, or of a ladder that did not confirm it, is not (:mod:`pipeline.signoff.eligible`).
* ``champion`` names only versions whose sign-off, as it lies in the registry, is signed by a trusted key and is one of
  an ACCEPT; so does ``rollback``. A waived version is called ``waived`` instead: who serves it, says so.

Every step may break off, by a crash or a server that is gone: the same command again goes on from there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.bundle.gathering import checkpoint_digest
from pipeline.bundle.layout import ATTESTATIONS, GOLDEN, REPLAYS, TURNS, Difference, read_json
from pipeline.bundle.turns import read_golden, read_turns
from pipeline.bundle.verifying import Verification, opened, verify
from pipeline.digests import digest_of
from pipeline.errors import RecordError, SignoffError, UsageError, Verdict
from pipeline.evidence.record import DECISION_FILE, read_decision
from pipeline.reporting import RunFacts
from pipeline.reporting.markdown import escape
from pipeline.runs import RUN_FILE, KeptRun, read_kept_run, slug
from pipeline.secrets import find_secret
from pipeline.signoff.attestation import (
    SIGNOFF_FILE,
    VERDICT_FILE,
    Signoff,
    Waiver,
    sign,
    signoff_statement,
    verdict_statement,
)
from pipeline.signoff.checking import altered_weights, check, read_signoff, today
from pipeline.signoff.eligible import demand_eligible
from pipeline.signoff.keys import SigningKey
from pipeline.signoff.weights import SIGNATURE_FILE, sign_weights
from pipeline.stages import report
from pipeline.stages.serve_replay import REPLIES
from pipeline.store import STAGE_FILE, Store
from pipeline.tracking.facts import description
from pipeline.tracking.registry import CHAMPION, ROLLBACK, WAIVED, Registry

_AGAIN = "See `quant-gate verify`; run the gate again."
WAIVABLE = (Verdict.REJECT, Verdict.INCONCLUSIVE)
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Released:
    """What was signed, and where it now is. ``aliases`` are those that were moved, by name; ``note``: what was not."""

    signoff: Signoff
    name: str
    version: str
    aliases: Mapping[str, str]
    note: str = ""


def registered_name(model: str) -> str:
    """What the quantized builds of a baseline are called in the registry: no two baselines share a name there."""
    readable = slug(model)
    own = "" if readable == model else f"-{digest_of(model)[:8]}"
    return f"{readable}{own}-quantized"


def attest(directory: Path, key: SigningKey) -> None:
    """Sign the verdict of a kept run that verifies, and the candidate's weights where they are still at hand.

    :raises SignoffError: it does not verify, or no candidate was made.
    """
    made = read_kept_run(directory).candidate
    weights = Path(made) if made and Path(made).is_dir() else None
    with opened(directory) as root:
        altered = altered_weights(root, weights) if weights else []
        _demand_verified([*verify(root, directory).differences, *altered])
    _attest(directory, key, weights)


def _attest(directory: Path, key: SigningKey, weights: Path | None) -> None:
    (directory / ATTESTATIONS).mkdir(exist_ok=True)
    with opened(directory) as root:
        sign(verdict_statement(root, read_decision(root / DECISION_FILE)), key, directory / ATTESTATIONS / VERDICT_FILE)
    if weights is not None:
        sign_weights(weights, key, directory / ATTESTATIONS / SIGNATURE_FILE)


def sign_off(
    directory: Path, key: SigningKey, trusted: Mapping[Path, Any], *, by: str, note: str, waiver: Waiver | None = None
) -> Released:
    """Sign a kept run off and register its candidate.

    An accepted one becomes ``champion`` and the version before it ``rollback``; a waived one is called ``waived``.

    :param trusted: public keys, that of ``key`` among them.
    :raises SignoffError: it does not verify, or its verdict does not allow it.
    :raises UsageError: a name or reason is missing, or the waiver ends before tomorrow.
    """
    demand_told(by, note, *([waiver.reason] if waiver else []))
    if waiver and waiver.expires <= today():
        raise UsageError(f"a waiver until {waiver.expires.isoformat()} has no day left", "Give a later day.")
    kept = read_kept_run(directory)
    weights = _weights(kept)
    verification = check(directory, trusted, weights=weights).verification
    _demand(verification, waiver)
    if kept.model != verification.run.get("model"):
        raise SignoffError(f"{directory / RUN_FILE} names the model {kept.model}, the evidence another", _AGAIN)
    decision = dict(verification.decision)
    if waiver is None:
        demand_eligible(directory.parent, verification.run, decision)
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
    _attest(directory, key, weights)
    file = directory / ATTESTATIONS / SIGNOFF_FILE
    before = file.read_bytes() if file.is_file() else None
    try:
        with opened(directory) as root, tempfile.TemporaryDirectory() as folder:
            sign(signoff_statement(root, signoff), key, file)
            made = _report(root, Path(folder), kept, signoff) if waiver else {}
            released = _registered(registry, directory, kept, weights, signoff, decision, key, trusted, made)
            for name, page in made.items():
                shutil.copyfile(page, directory / name)
        return released
    except BaseException:  # what is not registered is not signed off
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_bytes(before)
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
    reports: Mapping[str, Path],
) -> Released:
    """Register what was signed, and move the aliases that follow from it.

    :param reports: files of the run that were written anew, by name.
    """
    name, folder = registered_name(kept.model), directory / ATTESTATIONS
    files = {file.name: file for file in sorted(directory.iterdir()) if file.is_file()}
    version = registry.add_version(
        name,
        kept.mlflow_run,
        experiment=kept.experiment,
        run_name=directory.name,
        checkpoint=weights,
        signatures=[folder / file for file in (VERDICT_FILE, SIGNOFF_FILE, SIGNATURE_FILE)],
        reports=list({**files, **reports}.values()),
        tags=_tags(signoff, decision, key),
        model=escape(kept.model),
        signed=_sentence(signoff),
        describe=lambda page: description(decision, page, signed=_sentence(signoff)),
    )
    why = f"{directory.name}: {signoff.waiver or signoff.note}"
    if signoff.waiver:
        aliases = {WAIVED: version}
        move = registry.begin(name, WAIVED, version, signoff.by, why)
        registry.point(name, aliases)
        registry.end(name, move)
        return Released(signoff, name, version, aliases)
    _demand_crowned(registry, name, version, trusted)
    return _crowned(registry, name, version, trusted, signoff, signoff.by, why)


def roll_back(model: str, trusted: Mapping[Path, Any], *, by: str, note: str) -> Released:
    """Swap ``champion`` and ``rollback`` of the quantized builds of a baseline.

    :raises SignoffError: there is nothing to go back to, or it was not accepted and signed off by a trusted key.
    :raises UsageError: who or why is not said.
    """
    demand_told(by, note)
    registry, name = Registry(), registered_name(model)
    nothing = SignoffError(
        f"{name}: no version to go back to", "A second sign-off makes the first one's version the rollback."
    )
    if (version := registry.aliased(name, ROLLBACK)) is None:
        raise nothing
    signoff = _demand_crowned(registry, name, version, trusted)
    if _followed(registry, name, trusted).get(CHAMPION) == version:
        raise nothing
    return _crowned(registry, name, version, trusted, signoff, by, f"rollback: {note}")


def _crowned(
    registry: Registry, name: str, version: str, trusted: Mapping[Path, Any], signoff: Signoff, by: str, why: str
) -> Released:
    """Make a version champion whose ``signoff`` was looked at, and the champion before it the rollback.

    The registry has no locks. So the aliases follow from the history of the moves that were made, this one among them,
    and are set anew where another was made meanwhile: whoever ends last, leaves them as the history has them.
    """
    found, aliases = registry.aliased(name, CHAMPION), dict[str, str]()
    move = registry.begin(name, CHAMPION, version, by, why)
    while (wanted := _followed(registry, name, trusted, move)) != aliases:
        registry.point(name, wanted)
        registry.end(name, move)
        aliases = wanted
    notes = []
    if aliases[CHAMPION] != version:
        notes.append(f"Version {aliases[CHAMPION]} became champion at the same time, after this one.")
    if found is not None and found not in aliases.values():
        fault = _fault(registry, name, found, trusted) or f"no move made version {found} champion"
        notes.append(f"Not made the rollback: {fault}.")
    return Released(signoff, name, version, aliases, " ".join(notes))


def _followed(registry: Registry, name: str, trusted: Mapping[Path, Any], move: str | None = None) -> dict[str, str]:
    """What champion and rollback are by the moves that were made, and by ``move``, which is about to be.

    A move counts where its version may be champion; one that broke off does not.
    """
    champions: list[str] = []  # the last one first
    for event in reversed(registry.history(name)):
        moved = event["version"]
        if event["alias"] != CHAMPION or moved in champions[-1:]:
            continue
        if event["key"] == move or (event["ended"] and _fault(registry, name, moved, trusted) is None):
            champions.append(moved)
        if len(champions) == 2:
            break
    return dict(zip((CHAMPION, ROLLBACK), champions, strict=False))


def _fault(registry: Registry, name: str, version: str, trusted: Mapping[Path, Any]) -> str | None:
    """Why a version cannot be champion; None where it can."""
    try:
        _demand_crowned(registry, name, version, trusted)
    except SignoffError as error:
        return error.message
    return None


def _demand_crowned(registry: Registry, name: str, version: str, trusted: Mapping[Path, Any]) -> Signoff:
    """The sign-off of a version, as it lies in the registry.

    :raises SignoffError: it makes no champion.
    """
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
    return signoff


def _weights(kept: KeptRun) -> Path:
    if kept.candidate is None or not Path(kept.candidate).is_dir():
        raise SignoffError(
            f"the candidate's checkpoint is not at hand ({kept.candidate or 'none was made'})",
            "Run the same gate again, on the machine that signs off: what is kept is reused.",
        )
    return Path(kept.candidate)


def demand_told(*texts: str) -> None:
    """Refuse a move that nobody answers for, and one whose words hold a secret.

    :raises UsageError: a text is empty, or looks like it holds a secret.
    """
    if not all(text.strip() for text in texts):
        raise UsageError(
            "who answers for it, the note and the reason must not be empty",
            "Say who and why: --by NAME --note TEXT (with make: BY=NAME NOTE=TEXT).",
        )
    if kind := find_secret("\n".join(texts)):
        raise UsageError(f"{kind} is no part of a note, which many will read", "Leave it out.")


def _demand_verified(differences: Sequence[Difference]) -> None:
    if differences:
        named = "\n".join(f"- {difference}" for difference in differences[:SHOWN])
        raise SignoffError(f"the run does not verify:\n{named}", _AGAIN)


def _demand(found: Verification, waiver: Waiver | None) -> None:
    """The rules of a sign-off."""
    _demand_verified(found.differences)
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
        **({"waiver": str(signoff.waiver)} if signoff.waiver else {}),
        "note": signoff.note,
        "run": signoff.run,
        "recipe": str(decision["candidate"]["recipe"].get("name")),
        "candidate.digest": signoff.candidate,
        "baseline.digest": decision["baseline"]["digest"],
        "golden_set.digest": decision["golden_set"]["digest"],
        "evidence.sha256": signoff.evidence,
        "key": key.id,
    }


def _report(root: Path, folder: Path, kept: KeptRun, signoff: Signoff) -> dict[str, Path]:
    """Write the run's reports anew below ``folder``, with the waiver in them; by name."""
    assert signoff.waiver is not None
    told = f"{signoff.waiver} ({signoff.by} on {signoff.at}: {signoff.note})"
    facts = RunFacts(kept.model, kept.recipe, kept.command, waivers=(f"{told[0].upper()}{told[1:]}",))
    replies = [root / REPLAYS / side / REPLIES for side in ("baseline", "candidate")]
    golden = read_golden(read_json(root / GOLDEN), read_turns(root / TURNS))
    made = report.run(
        Store(folder),
        decision_dir=root,
        golden=golden,
        replies_paths=[path for path in replies if path.exists()],
        run_facts=facts,
    )
    return {file.name: file for file in made.path.iterdir() if file.name != STAGE_FILE}
