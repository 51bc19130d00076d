"""``quant-gate``: the command line. Options become a :class:`pipeline.request.Request`; the runner does the rest."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from pipeline.asking import register as register_general
from pipeline.comparing.commands import register as register_compare
from pipeline.diagnosis import PAGE_FILE as DIAGNOSIS_PAGE
from pipeline.diagnosis import Wanted, diagnose
from pipeline.environments import environments, has_gpu, python_of
from pipeline.errors import (
    VERDICT_EXIT_CODES,
    EnvironmentMissing,
    GateError,
    Interrupted,
    ServerError,
    StageError,
    UsageError,
)
from pipeline.evidence.record import read_decision
from pipeline.gate import Gate, Side
from pipeline.golden.commands import golden_app
from pipeline.ladder import PAGE_FILE, climb, default_ladder
from pipeline.options import Calibration, Combined, Explore, Golden, Load, Model, Policy, RecipeName, Serving
from pipeline.planning import register as register_plan
from pipeline.processes import Group
from pipeline.program import complain, guard, interrupt, no_exit, open_standard_streams
from pipeline.reporting import summary
from pipeline.reporting.delivery import add_step_summary, failure_line, failure_markdown, result_line
from pipeline.reporting.diagnosis.table import diagnosis_view
from pipeline.reporting.findings import findings_view
from pipeline.reporting.ladder.table import ladder_table, ladder_view
from pipeline.reporting.live import LiveProgress
from pipeline.request import Request
from pipeline.runner import run
from pipeline.secrets import scrubbed
from pipeline.selftest.report import view as selftest_view
from pipeline.selftest.run import selftest
from pipeline.serving.server import Server
from pipeline.signoff.commands import register as register_signoff
from pipeline.stages import inspect
from pipeline.store import Store
from pipeline.tracking import tracking_uri, ui_address, ui_server, without_password
from pipeline.visible import visible

app = typer.Typer(
    help="Release gate for quantized chat models: quantize, serve, replay golden transcripts, accept or reject.\n\n"
    "Exit codes: 0 ACCEPT, 10 REJECT, 20 INCONCLUSIVE, 30 INVALID or a broken run, 2 usage, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(golden_app, name="golden")
register_compare(app)
register_general(app)
register_plan(app)
register_signoff(app)

WhichSide = Annotated[Side, typer.Option("--side", help="Which of the two checkpoints.")]
DEFAULT, WANTED = Request(), Wanted()


def _console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, emoji=False)


@contextlib.contextmanager
def _gate(request: Request) -> Iterator[tuple[Gate, Console]]:
    """The stages of one request; progress goes to stderr, so that stdout holds the result alone."""
    console = _console()
    with LiveProgress(_console(stderr=True)) as progress:
        yield Gate(request, Store(), progress), console


@app.command("run")
def run_command(
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    explore: Explore = False,
    calibration: Calibration = DEFAULT.calibration,
    combined: Combined = False,
    load: Load = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new directory to copy the record and the reports to.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON to stdout; the summary goes to stderr.")
    ] = False,
) -> None:
    """Do the whole job: quantize, serve and replay both sides, evaluate, decide, report."""
    request = Request(model, recipe, golden, serving, policy, explore, calibration, combined, load)
    try:
        if output is not None and output.exists():
            raise UsageError(f"{output}: exists already", "Name a new directory: an old record must not pass for this.")
        with no_exit(), LiveProgress(_console(stderr=True)) as progress:  # told as JSON, too
            result = run(request, Store(), progress)
    except GateError as error:
        add_step_summary(failure_markdown(error))
        if as_json:
            print(failure_line(error), flush=True)
        raise
    if output is not None:
        shutil.copytree(result.directory, output)
    facts = result.facts
    if problem := add_step_summary((result.directory / "summary.md").read_text(encoding="utf-8")):
        facts = replace(facts, notes=(*facts.notes, problem))
    _console(stderr=as_json).print(summary(result.decision, facts), crop=False)
    if as_json:
        print(result_line(result.decision, facts), flush=True)
    raise typer.Exit(result.exit_code)


@app.command("ladder")
def ladder_command(
    model: Annotated[str, typer.Argument(help="As --model of `run`.")] = DEFAULT.model,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    calibration: Calibration = DEFAULT.calibration,
    ladder: Annotated[
        Path | None,
        typer.Option("--ladder", help="The candidates; default configs/ladder.yaml, for demo models ladder-demo.yaml."),
    ] = None,
    measure_all: Annotated[
        bool, typer.Option("--all", help="Measure candidates as well that could not be chosen any more.")
    ] = False,
    combined: Combined = False,
    load: Load = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table alone, as Markdown.")] = False,
) -> None:
    """Gate several recipes against one baseline and choose the smallest that passes; docs/ladder.md has the rules."""
    request = Request(
        model,
        golden=golden,
        serving=serving,
        policy=policy,
        calibration=calibration,
        combined=combined,
        load=load,
    )
    with LiveProgress(_console(stderr=True)) as progress:
        result = climb(request, ladder or default_ladder(model), Store(), progress, measure_all=measure_all)
    if markdown:
        print("\n".join(ladder_table(result.record)))
    else:
        view = ladder_view(result.record, result.directory / PAGE_FILE, result.mlflow_run, result.notes)
        _console().print(view, crop=False)
    raise typer.Exit(result.record.exit_code)


@app.command("resolve")
def resolve_command(model: Model = DEFAULT.model) -> None:
    """Find or fetch the baseline checkpoint and print where it is."""
    with _gate(Request(model=model)) as (gate, console):
        checkpoint = gate.baseline
    console.print(f"{escape(str(checkpoint.path))}\ndigest {checkpoint.digest}", highlight=False, soft_wrap=True)


@app.command("quantize")
def quantize_command(
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    calibration: Calibration = DEFAULT.calibration,
) -> None:
    """Make the candidate checkpoint and print where it is."""
    with _gate(Request(model=model, recipe=recipe, golden=golden, calibration=calibration)) as (gate, console):
        checkpoint = gate.candidate
    console.print(f"{escape(str(checkpoint.path))}\ndigest {checkpoint.digest}", highlight=False, soft_wrap=True)


@app.command("serve")
def serve_command(
    side: WhichSide = "baseline",
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    serving: Serving = DEFAULT.serving,
    calibration: Calibration = DEFAULT.calibration,
) -> None:
    """Serve one side as the gate does, for trying it by hand, until Ctrl-C."""
    with _gate(Request(model=model, recipe=recipe, serving=serving, calibration=calibration)) as (gate, console):
        checkpoint = gate.baseline if side == "baseline" else gate.candidate
        log = gate.store.root / f"serve-{os.getpid()}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with Server(gate.plan, checkpoint.path, log, gate.progress) as server:
            console.print(
                f"{side} is served at {server.url}/v1 as model 'gate'; log {escape(str(log))}; Ctrl-C stops it."
            )
            with contextlib.suppress(KeyboardInterrupt):
                while server.alive():
                    signal.sigtimedwait([], 1)
            if not server.alive():
                raise ServerError("the engine ended by itself", f"See {log}.")


@app.command("replay")
def replay_command(
    side: WhichSide = "baseline",
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    calibration: Calibration = DEFAULT.calibration,
) -> None:
    """Serve one side, replay the golden set through it and print where the replies are."""
    with _gate(Request(model, recipe, golden, serving, policy, calibration=calibration)) as (gate, console):
        output = gate.replays(side)[0]
    console.print(escape(str(output.path / "replies.jsonl")), highlight=False, soft_wrap=True)


@app.command("evaluate")
def evaluate_command(
    side: WhichSide = "baseline",
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    calibration: Calibration = DEFAULT.calibration,
) -> None:
    """Score one side's replies (replayed first where missing) and print where the outcomes are."""
    with _gate(Request(model, recipe, golden, serving, policy, calibration=calibration)) as (gate, console):
        output = gate.outcomes(side)[0]
    console.print((output.path / "outcomes_summary.json").read_text(encoding="utf-8"), markup=False, highlight=False)
    console.print(escape(str(output.path / "outcomes.jsonl")), highlight=False, soft_wrap=True)


@app.command("decide")
def decide_command(
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    explore: Explore = False,
    calibration: Calibration = DEFAULT.calibration,
    combined: Combined = False,
) -> None:
    """Decide (after what is missing was made), print where the record is; exit with the verdict's code."""
    with _gate(Request(model, recipe, golden, serving, policy, explore, calibration, combined)) as (gate, console):
        gate.measure()
        record = gate.decision.path / "decision.json"
    console.print(escape(str(record)), highlight=False, soft_wrap=True)
    raise typer.Exit(read_decision(record)["exit_code"])


@app.command("report")
def report_command(
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    explore: Explore = False,
    calibration: Calibration = DEFAULT.calibration,
    combined: Combined = False,
) -> None:
    """Write the HTML report (after what is missing was made); exit with the verdict's code."""
    with _gate(Request(model, recipe, golden, serving, policy, explore, calibration, combined)) as (gate, console):
        gate.measure()
        record, page = gate.decision.path / "decision.json", gate.report.path / "report.html"
    console.print(escape(str(page)), highlight=False, soft_wrap=True)
    raise typer.Exit(read_decision(record)["exit_code"])


@app.command("diagnose")
def diagnose_command(
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    explore: Explore = False,
    calibration: Calibration = DEFAULT.calibration,
    combined: Combined = False,
    load: Load = False,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Lost turns to judge by, at most.")] = WANTED.turns,
    restore: Annotated[
        float, typer.Option("--restore", min=0.01, max=0.99, help="Share of the drift that is to be taken away.")
    ] = WANTED.restore,
    gate_it: Annotated[bool, typer.Option("--run", help="Gate the proposed recipe as well.")] = False,
) -> None:
    """After a REJECT: which parts hurt, on which turns, and the recipe to try next; docs/diagnose.md has the method.

    Exits with the code of the run that is diagnosed, with --run that of the proposal.
    """
    request = Request(model, recipe, golden, serving, policy, explore, calibration, combined, load)
    with LiveProgress(_console(stderr=True)) as progress:
        result = diagnose(request, Wanted(turns, restore, gate_it), Store(), progress)
    page = result.directory / DIAGNOSIS_PAGE
    view = diagnosis_view(result.record, result.directory, page, result.mlflow_run, result.notes)
    _console().print(view, crop=False)
    raise typer.Exit(result.exit_code)


@app.command("inspect")
def inspect_command(
    candidate: Annotated[Path, typer.Argument(help="The quantized checkpoint's directory, whoever made it.")],
    baseline: Annotated[
        str, typer.Option("--baseline", "-b", help="What it was made from: as --model of the other commands.")
    ],
    recipe: Annotated[
        str | None, typer.Option("--recipe", "-r", help="Hold it against what a recipe intended; default: not.")
    ] = None,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
) -> None:
    """Look for what is broken in a quantized checkpoint, without serving it; exit with 10 (fatal), 30 (parity) or 0."""
    with _gate(Request(baseline, recipe or DEFAULT.recipe, golden, serving)) as (gate, console):
        found = inspect.look(
            candidate,
            gate.baseline,
            golden=gate.golden,
            recipe=gate.recipe if recipe else None,
            template_override=gate.template_override,
            progress=gate.progress,
        )
    console.print(findings_view([finding.as_json() for finding in found], str(candidate)), crop=False)
    verdict = found[0].severity.verdict if found else None
    raise typer.Exit(VERDICT_EXIT_CODES[verdict] if verdict else 0)


@app.command("selftest")
def selftest_command(
    full: Annotated[
        bool, typer.Option("--full", help="Spoil real candidates as well; needs all environments and half an hour.")
    ] = False,
) -> None:
    """Inject known faults and measure the gate's own error rates; exit with 30 where it cannot be trusted."""
    with LiveProgress(_console(stderr=True)) as progress:
        report = selftest(Store(), progress, full)
    _console().print(selftest_view(report), highlight=False)
    raise typer.Exit(report.exit_code)


@app.command("doctor")
def doctor_command() -> None:
    """Say what this machine has: device, environments, where work and records are kept.

    Ends with 30 where an environment is missing that every gate needs.
    """
    console = _console()
    console.print(f"device        {'NVIDIA GPU' if has_gpu() else 'CPU (speed figures are not representative)'}")
    complete = True
    for name, environment in environments().items():
        try:
            state = f"ready ({python_of(name)})"
        except EnvironmentMissing as error:
            complete &= environment.optional
            state = f"{error.message}. {error.remedy}"
        console.print(f"{name:<13} {escape(state)}", highlight=False, soft_wrap=True)
    console.print(f"stage outputs {escape(str(Store().root))}", highlight=False, soft_wrap=True)
    console.print(f"tracking      {escape(without_password(tracking_uri()))}", highlight=False, soft_wrap=True)
    if not complete:
        raise typer.Exit(EnvironmentMissing.exit_code)


@app.command("ui")
def ui_command(port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 5000) -> None:
    """Show MLflow's pages on 127.0.0.1 until Ctrl-C."""
    command, settings = ui_server(port)
    _console().print(
        f"Starting MLflow, which takes up to a minute; then open {ui_address(port)}", highlight=False, soft_wrap=True
    )
    with contextlib.suppress(KeyboardInterrupt), Group(command, env=os.environ | settings, stdout=None) as server:
        raise typer.Exit(server.wait())  # Ctrl-C is the way to end it, not an accident


def main() -> None:
    """Entry point: run the command line and exit with the code of the verdict or of the error."""
    open_standard_streams()
    atexit.register(gc.freeze)  # nothing is to be collected of a program that ends: the best part of a second
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        _command()(prog_name="quant-gate")
    except GateError as error:
        sys.exit(complain(error))
    except SystemExit as ending:
        if ending.code == Interrupted.exit_code:
            complain(Interrupted("interrupted", "Run the same command again: what is complete is reused."))
        if isinstance(ending.__context__, BrokenPipeError):  # typer ends with 1, which is no code of ours
            sys.exit(complain(StageError("nobody reads the output any longer, so the result was not delivered")))
        raise
    except OSError as error:  # a full disk, a folder that cannot be written: nothing that a traceback explains
        sys.exit(complain(StageError(f"the system refused: {error}", "Check disk space and access rights.")))
    except Exception as error:  # noqa: BLE001 - a fault of the program is a broken run, never exit code 0 or 1
        _console(stderr=True).print(Text(visible(scrubbed("".join(traceback.format_exception(error))))), soft_wrap=True)
        sys.exit(GateError.exit_code)


@functools.cache
def _command() -> Any:
    """The commands, put together once; ``app()`` does so at every call."""
    command = typer.main.get_command(app)
    guard(command)
    return command
