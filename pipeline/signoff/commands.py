"""``quant-gate bundle``, ``verify``, ``signoff``, ``rollback`` and ``keys new``."""

from __future__ import annotations

import getpass
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from pipeline.bundle.archive import pack
from pipeline.bundle.layout import ATTESTATIONS, EVIDENCE_FILE
from pipeline.bundle.verifying import opened
from pipeline.errors import VERDICT_EXIT_CODES, UsageError
from pipeline.runs import find_run, read_kept_run
from pipeline.signoff.attestation import VERDICT_FILE, Waiver
from pipeline.signoff.checking import Checked, check
from pipeline.signoff.keys import PASSWORD, PRIVATE, PUBLIC, key_directory, load_key, new_keys, public_keys
from pipeline.signoff.releasing import Released, attest, demand_told, roll_back, sign_off
from pipeline.store import Store
from pipeline.visible import visible

keys_app = typer.Typer(help="Signing keys.", no_args_is_help=True)

Run = Annotated[str, typer.Argument(metavar="[RUN]", help="Name or directory of a kept run; default: the newest.")]
Key = Annotated[Path | None, typer.Option("--key", help="Private key to sign with; default: that of `keys new`.")]
Trust = Annotated[
    list[Path] | None, typer.Option("--trust", help="Public key to trust, may be repeated; default: the own one.")
]
By = Annotated[str, typer.Option("--by", help="Who answers for it.")]
Note = Annotated[str, typer.Option("--note", help="Why, for those who read it later.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("bundle")(bundle_command)
    app.command("verify")(verify_command)
    app.command("signoff")(signoff_command)
    app.command("rollback")(rollback_command)
    app.add_typer(keys_app, name="keys")


@keys_app.command("new")
def keys_new_command(
    directory: Annotated[Path | None, typer.Option("--directory", help="Default: the user's configuration.")] = None,
    password: Annotated[
        bool, typer.Option("--password", help=f"Encrypt the private key; asks, or takes {PASSWORD}.")
    ] = False,
) -> None:
    """Make a pair of signing keys: a private one to keep, a public one for those who verify."""
    secret = None
    if password and not (secret := _given(twice=True)):
        raise UsageError("no password was given", f"Give it in {PASSWORD}, or on a terminal.")
    private, public = new_keys(directory or key_directory(), secret)
    _say(f"private key {private}\npublic key  {public}")


def bundle_command(
    run: Run = "latest",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: RUN.tar.zst here.")] = None,
    key: Key = None,
) -> None:
    """Export the evidence of a run as one file, its verdict signed where there is a key."""
    directory = _with_evidence(run)
    target = output or Path(f"{directory.name}.tar.zst")
    signing = key or key_directory() / PRIVATE
    signed = (directory / ATTESTATIONS / VERDICT_FILE).is_file()
    if not signed and (key or signing.is_file()) and read_kept_run(directory).candidate:
        attest(directory, load_key(signing, _given))
        signed = True
    with opened(directory) as root:
        pack(root, target)
    state = "signed" if signed else "not signed (`quant-gate keys new` makes a key)"
    _say(f"{target}  {target.stat().st_size / 1e6:.1f} MB, {state}")


def verify_command(
    evidence: Annotated[str, typer.Argument(metavar="BUNDLE|RUN", help="A bundle, or the name of a kept run.")],
    weights: Annotated[
        Path | None, typer.Option("--weights", help="Directory of the candidate; default for a RUN: where it was made.")
    ] = None,
    trust: Trust = None,
) -> None:
    """Score and decide again from the raw replies, offline; name what differs, and exit with the verdict's code.

    With --trust the verdict must be signed by that key.
    """
    path = Path(evidence)
    if not path.is_file():
        path = _with_evidence(evidence)
        made = read_kept_run(path).candidate
        weights = weights or (Path(made) if made and Path(made).is_dir() else None)
    if weights is not None and not weights.is_dir():
        raise UsageError(f"{weights}: no such directory", "Give the directory of the candidate's checkpoint.")
    checked = check(path, public_keys(trust or ()), weights=weights, demand_signature=bool(trust))
    Console().print(_view(checked), soft_wrap=True)
    raise typer.Exit(checked.verification.exit_code)


def signoff_command(
    by: By,
    note: Note,
    run: Run = "latest",
    waive: Annotated[
        str | None, typer.Option("--waive", help="Why a known regression is shipped; no ACCEPT, and no champion.")
    ] = None,
    expires: Annotated[
        datetime | None, typer.Option("--expires", formats=["%Y-%m-%d"], help="Last day of the waiver.")
    ] = None,
    key: Key = None,
    trust: Trust = None,
) -> None:
    """Sign an accepted run off: its candidate becomes the champion of the model registry. Or record a waiver."""
    if (waive is None) != (expires is None):
        raise UsageError("a waiver needs a reason and a last day", "Give --waive REASON and --expires YYYY-MM-DD.")
    waiver = Waiver(waive, expires.date()) if waive is not None and expires is not None else None
    demand_told(by, note, *([waive] if waive is not None else []))
    signing = load_key(key, _given)
    own = signing.path.with_suffix(Path(PUBLIC).suffix)
    trusted = public_keys([*(trust or ()), own])
    if signing.id not in {public.keyid for public in trusted.values()}:
        raise UsageError(f"{own}: not the public key of {signing.path}", "Keep both of a pair together.")
    released = sign_off(_with_evidence(run), signing, trusted, by=by, note=note, waiver=waiver)
    Console().print(_released(released), soft_wrap=True)
    if released.signoff.waiver:
        raise typer.Exit(VERDICT_EXIT_CODES[released.signoff.verdict])


def rollback_command(
    by: By,
    note: Note,
    model: Annotated[str, typer.Option("--model", "-m", help="The baseline, as in `run`.")] = "demo",
    trust: Trust = None,
) -> None:
    """Make the champion before this one champion again."""
    Console().print(_released(roll_back(model, public_keys(trust or ()), by=by, note=note)), soft_wrap=True)


def _with_evidence(run: str) -> Path:
    """The directory of a kept run.

    :raises UsageError: there is none, or it is a comparison, which keeps no evidence.
    """
    directory = find_run(Store(), run)
    if not (directory / EVIDENCE_FILE).is_file():
        raise UsageError(
            f"{directory.name} keeps no evidence, so it can be neither verified nor signed off: a comparison of sides "
            "that were there already has no candidate of a recipe, and of an endpoint no weights, to be signed for",
            _signable(),
        )
    return directory


def _signable() -> str:
    """Which runs there are instead."""
    runs = sorted(path.parent for path in (Store().root / "runs").glob(f"[!.]*/{EVIDENCE_FILE}"))
    names = [run.name for run in runs if not run.is_symlink()][:-4:-1]
    if not names:
        return "Gate the candidate with `quant-gate run`, and sign that run off."
    return f"Name a run of the gate: {', '.join(names)} (with make: RUN={names[0]})."


def _view(checked: Checked) -> Text:
    found = checked.verification
    text = Text()
    if found.differences:
        text.append("INVALID: the evidence does not verify\n", "bold red")
        for difference in found.differences:
            text.append(f"- {difference}\n")
    else:
        text.append(
            f"{found.verdict}: derived again from the replies\n", "bold green" if found.exit_code == 0 else "bold"
        )
    if checked.signoff and not found.differences:
        signoff = checked.signoff
        how = f"{signoff.waiver}, which is no ACCEPT; answered for" if signoff.waiver else "signed off"
        text.append(f"{how} by {signoff.by} on {signoff.at}: {signoff.note}\n", "bold yellow" if signoff.waiver else "")
    if checked.attested:
        text.append("The verdict is signed by a trusted key.\n")
    for note in found.notes:
        text.append(f"{visible(note)}\n", "dim")
    text.rstrip()
    return text


def _released(released: Released) -> Text:
    signoff = released.signoff
    lines = [
        f"{released.name} version {released.version}: {signoff.verdict}, {'waived' if signoff.waiver else 'signed off'}"
    ]
    lines += [f"{alias:<9} version {version}" for alias, version in released.aliases.items()]
    if signoff.waiver:
        lines.append(f"No champion: {signoff.waiver}.")
    if released.note:
        lines.append(released.note)
    return Text("\n".join(lines), "bold yellow" if signoff.waiver else "bold green")


def _given(twice: bool = False) -> str | None:
    """The key's password from the environment, else from the terminal; None where there is neither."""
    if given := os.environ.get(PASSWORD):
        return given
    if not sys.stdin.isatty():
        return None
    given = getpass.getpass("password of the key: ")
    if twice and getpass.getpass("again: ") != given:
        raise UsageError("the passwords differ", "Try again.")
    return given


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
