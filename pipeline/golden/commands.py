"""``quant-gate golden``: check, stats, show, manifest, import."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from pipeline.errors import GoldenSetError, InputError, UsageError
from pipeline.golden.check import calibration_files, survey
from pipeline.golden.complaints import Severity
from pipeline.golden.importers import FORMATS, Dropped, Options, import_transcripts
from pipeline.golden.importers.common import read_json
from pipeline.golden.load import load
from pipeline.golden.manifest import MANIFEST, check_manifest, write_manifest
from pipeline.golden.show import show
from pipeline.golden.source import open_local
from pipeline.golden.stats import stats, stats_view
from pipeline.progress import Silent
from pipeline.settings import PROJECT_ROOT, load_gate

golden_app = typer.Typer(help="Golden transcripts: check, count, show and import them.", no_args_is_help=True)

DEFAULT_SET = str(PROJECT_ROOT / "golden_sets" / "support")

SetArgument = Annotated[
    str, typer.Argument(metavar="[SET]", help="A directory, a file, a URL (s3://...) or a hub id (owner/name).")
]


@golden_app.command("check")
def check_command(
    golden_set: SetArgument = DEFAULT_SET,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="JSON-lines file of training data that no golden transcript may stand in."),
    ] = None,
) -> None:
    """Check a set; exit code 2 when it has errors."""
    with Console(stderr=True).status("checking") as status:
        found = survey(golden_set, [*calibration_files(), *(against or ())], _Shown(status))
    console = Console()
    for complaint in found.complaints:
        style = "red" if complaint.severity is Severity.ERROR else "yellow"
        console.print(Text.assemble((f"{complaint.severity}: ", style), str(complaint)), soft_wrap=True)
    count = Counter(complaint.severity for complaint in found.complaints)
    errors, warnings = count[Severity.ERROR], count[Severity.WARNING]
    summary = (
        f"{golden_set}: {found.transcripts:,} transcripts, {found.scenarios:,} scenarios, {found.turns:,} turns; "
        f"{errors} errors, {warnings} warnings"
    )
    console.print(Text(summary, "bold red" if errors else "bold green"), soft_wrap=True)
    if errors:
        raise typer.Exit(GoldenSetError.exit_code)
    for name, turns in found.slice_counts.items():
        console.print(f"  {name:24} {turns:7,} turns", markup=False, highlight=False)


class _Shown(Silent):
    """Shows how far a check is, where there is a terminal."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def say(self, stage: str, text: str) -> None:
        """Replace the line that is shown."""
        self._status.update(f"{stage}: {text}")


@golden_app.command("stats")
def stats_command(golden_set: SetArgument = DEFAULT_SET) -> None:
    """Count a set by slice, and say what it can decide for the margins in configs/gate.yaml."""
    Console().print(stats_view(stats(load(golden_set), load_gate())))


@golden_app.command("show")
def show_command(
    transcript: Annotated[str, typer.Argument(help="Id of a transcript, or of one of its turns.")],
    golden_set: SetArgument = DEFAULT_SET,
) -> None:
    """Show one conversation with what each turn expects."""
    Console().print(show(load(golden_set), transcript))


@golden_app.command("manifest")
def manifest_command(
    golden_set: SetArgument = DEFAULT_SET,
    write: Annotated[bool, typer.Option("--write", help="Record the files as they now are.")] = False,
) -> None:
    """Compare a set with its MANIFEST.json, or write it."""
    console = Console()
    if write:
        console.print(f"wrote {write_manifest(Path(golden_set))}", markup=False)
        return
    source = open_local(Path(golden_set))
    complaints = list(check_manifest(source))
    for complaint in complaints:
        console.print(Text(str(complaint)), soft_wrap=True)
    if not (source.home / MANIFEST).is_file():
        console.print(f"{source.shown} has no {MANIFEST}", markup=False)
    elif not complaints:
        console.print(f"{source.shown} is as its {MANIFEST} says", markup=False)
    if complaints:
        raise typer.Exit(GoldenSetError.exit_code)


@golden_app.command("import")
def import_command(
    files: Annotated[list[Path], typer.Argument(help="Files to import.", exists=True, dir_okay=False)],
    form: Annotated[str, typer.Option("--from", metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}.")],
    output: Annotated[Path, typer.Option("--to", help="File of transcripts to write (.jsonl).")],
    source: Annotated[str, typer.Option(help="Recorded on every transcript; else what the file says.")] = "",
    licence: Annotated[str, typer.Option(help="Recorded on every transcript; else what the file says.")] = "",
    slices: Annotated[list[str] | None, typer.Option("--slice", help="Added to every transcript.")] = None,
    system: Annotated[Path | None, typer.Option(help="Text file: the system message where there is none.")] = None,
    tools: Annotated[Path | None, typer.Option(help="JSON list of OpenAI tools where there are none.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Replace e-mails, cards, phones and ids.")] = False,
    region: Annotated[str, typer.Option(help="Country of phone numbers without a country code.")] = "US",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
) -> None:
    """Import transcripts; what is dropped, and why, goes to a .dropped.txt file beside the output."""
    if form not in FORMATS:
        raise InputError(f"unknown format {form!r}", f"Known: {', '.join(FORMATS)}.")
    if output.exists() and not force:
        raise InputError(f"{output} exists", "Give another --to, or --force to overwrite it.")
    options = Options(
        source=source,
        licence=licence,
        slices=tuple(slices or ()),
        system=_text(system) if system else "",
        tools=tuple(read_json(tools)) if tools else (),
    )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"--to {output}: {error.filename} is no directory", "Give another --to.") from error
    taken, reasons = 0, Counter[str]()
    left = output.with_suffix(".dropped.txt")
    part = output.with_name(output.name + ".part")
    with part.open("w", encoding="utf-8") as kept, left.open("w", encoding="utf-8") as dropped:
        for result in import_transcripts(form, files, options, redacted=redact, region=region):
            if isinstance(result, Dropped):
                dropped.write(f"{result.file}:{result.line}: {result.id or '-'}: {result.reason}\n")
                reasons[result.reason] += 1
            else:
                kept.write(json.dumps(result.data, ensure_ascii=False) + "\n")
                taken += 1
    part.rename(output)
    console = Console()
    console.print(f"imported {taken:,}, dropped {reasons.total():,}", markup=False)
    for reason, count in reasons.most_common(10):
        console.print(Text(f"  {count:,} x {reason[:300]}"), soft_wrap=True)
    if not reasons:
        left.unlink()
    else:
        console.print(Text(f"all that was dropped, with reasons: {left}"), soft_wrap=True)
    console.print(Text(f"wrote {output}"), soft_wrap=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--system {path}: cannot be read as UTF-8 text: {error}", "Check the file.") from error
