"""``quant-gate plan``: what a golden set can decide, and what a card holds, before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from pipeline.capacity.view import memory_view
from pipeline.errors import VERDICT_EXIT_CODES, Verdict
from pipeline.gate import Gate
from pipeline.general.suite import general_metrics, load_suite
from pipeline.options import Golden, Model, Policy, Serving
from pipeline.reporting.live import LiveProgress
from pipeline.reporting.power import power_view
from pipeline.request import Request
from pipeline.runs import measured_noise
from pipeline.settings import GateSettings
from pipeline.stages import capacity
from pipeline.statistics.planning import MetricPlan, plan_items, plan_power
from pipeline.store import Store

DEFAULT = Request()


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("plan")(plan_command)


def plan_command(
    model: Model = DEFAULT.model,
    golden: Golden = DEFAULT.golden,
    serving: Serving = DEFAULT.serving,
    policy: Policy = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", "-r", help="Build to plan, may be repeated; default: one a kind."),
    ] = None,
    card: Annotated[
        list[str] | None,
        typer.Option("--card", help="Card of configs/hardware.yaml, may be repeated, or all; default: the targets."),
    ] = None,
    cards_per_model: Annotated[
        int | None, typer.Option("--tensor-parallel", min=1, help="Cards that share the model; default: hardware.yaml.")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=1, help="Tokens of a sequence; default: max_model_len.")
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, max=10**9, help="Users who chat at the same time.")
    ] = None,
    think_s: Annotated[
        float, typer.Option("--think-s", min=0, max=86_400, help="Seconds that a user pauses after an answer.")
    ] = 30.0,
    answer_s: Annotated[
        float | None,
        typer.Option("--answer-s", min=0.001, max=86_400, help="Seconds that an answer takes, queueing included."),
    ] = None,
) -> None:
    """Say what the golden set can decide and what cards hold, before anything is spent.

    Ends with 20 where `run` would stop at once, or where general tasks have too few items. The flip rate is the one
    that the policy assumes; the noise of the model's last run replaces it where higher. Memory is planned from config
    and headers alone; docs/capacity.md says how.
    """
    console = Console(emoji=False)
    traffic = capacity.traffic_of(users, think_s, answer_s)
    with LiveProgress(Console(stderr=True, emoji=False)) as progress:
        gate = Gate(Request(model=model, golden=golden, serving=serving, policy=policy), Store(), progress)
        noise = measured_noise(gate.store, model, gate.golden.digest)
        plan = plan_power(gate.golden.turns, gate.policy, noise)
    items, uncounted = _general_tasks(gate.policy)
    console.print(power_view(plan, gate.golden.name, items))
    if uncounted:
        names = ", ".join(uncounted)
        console.print(
            Text(f"Not planned, as their items are a hub's and not counted before they are asked: {names}.", "dim")
        )
    console.print()
    memory = capacity.run(
        gate.store,
        model,
        gate.serving,
        cards=card or (),
        recipes=recipe or (),
        context=context,
        cards_per_model=cards_per_model,
        traffic=traffic,
    )
    if memory is None:
        console.print(
            Text(
                f"Memory is not planned: neither {model} nor its config.json is on this machine. Give a directory that "
                "holds config.json, or have `quant-gate resolve` fetch or build the model.",
                "dim",
            )
        )
    else:
        console.print(memory_view(memory), crop=False)
    if gate.power.underpowered or any(row.gating and not row.adequate for row in items):
        raise typer.Exit(VERDICT_EXIT_CODES[Verdict.INCONCLUSIVE])


def _general_tasks(policy: GateSettings) -> tuple[tuple[MetricPlan, ...], list[str]]:
    """What the items of the policy's general tasks can decide, and the tasks whose items are not on this machine."""
    rules = general_metrics(policy)
    if rules is None or policy.general is None:
        return (), []
    counts = load_suite(policy.general.suite, policy.general.tasks).counts()
    return plan_items(counts, rules), [metric for metric in rules.metrics if metric not in counts]
