"""``quant-gate general``: ask one side the tasks of a suite by hand."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from pipeline.gate import Gate
from pipeline.general.suite import load_suite
from pipeline.options import Calibration, Model, Policy, RecipeName, Serving
from pipeline.reporting.live import LiveProgress
from pipeline.request import Request
from pipeline.serving.server import Server
from pipeline.stages import general
from pipeline.store import Store

DEFAULT = Request()


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("general")(general_command)


def general_command(
    suite: Annotated[str, typer.Argument(help="A name in configs/lm_eval, or the path of a .yaml file.")] = "own",
    side: Annotated[Literal["baseline", "candidate"], typer.Option("--side", help="Which checkpoint.")] = "baseline",
    model: Model = DEFAULT.model,
    recipe: RecipeName = DEFAULT.recipe,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    calibration: Calibration = DEFAULT.calibration,
    task: Annotated[list[str] | None, typer.Option("--task", help="An entry of the suite; default all.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="So many items of each task, to try a suite.")
    ] = None,
) -> None:
    """Ask one side the tasks of a suite and print how it did. What was asked with --limit never feeds a verdict."""
    with LiveProgress(Console(stderr=True, emoji=False)) as progress, contextlib.ExitStack() as stack:
        wanted = load_suite(suite, task or ())
        gate = Gate(Request(model, recipe, serving=serving, policy=policy, calibration=calibration), Store(), progress)
        checkpoint = gate.baseline if side == "baseline" else gate.candidate

        def serve() -> Server:
            log = gate.store.root / f"general-{os.getpid()}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            return stack.enter_context(Server(gate.plan, checkpoint.path.resolve(), log, progress))

        output = general.run(
            gate.store,
            wanted,
            serve,
            checkpoint=checkpoint.path,
            checkpoint_digest=checkpoint.digest,
            plan=gate.plan,
            policy=gate.policy,
            max_model_len=gate.serving.max_model_len,
            progress=progress,
            side=side,
            limit=limit,
        )
    console = Console(emoji=False)
    for entry in wanted.tasks:
        facts = json.loads((output.path / f"facts-{entry}.json").read_text(encoding="utf-8"))
        figures = {name: value for task in facts["results"].values() for name, value in task.items() if "," in name}
        shown = ", ".join(f"{name} {value}" for name, value in figures.items() if "stderr" not in name)
        console.print(f"{entry:<14} {facts['items']:>6} items  {escape(shown)}", highlight=False, soft_wrap=True)
    console.print(escape(str(output.path)), highlight=False, soft_wrap=True)
