"""``quant-gate compare`` and ``quant-gate load``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from pipeline.comparing.comparing import CompareRequest, compare
from pipeline.comparing.loading import measure_load
from pipeline.options import Explore, Golden, Serving
from pipeline.reporting import summary
from pipeline.reporting.live import LiveProgress
from pipeline.reporting.load import load_view
from pipeline.store import Store

DEFAULT = CompareRequest()
Baseline = Annotated[str | None, typer.Option("--baseline", "-b", help="As --model of `run`; it may be quantized.")]
Candidate = Annotated[
    str | None, typer.Option("--candidate", "-c", help="As --baseline; default: the same checkpoint.")
]
CandidateServing = Annotated[
    str | None, typer.Option("--candidate-serving", help="Serve the candidate otherwise: a serving variant.")
]
Slo = Annotated[Path | None, typer.Option("--slo", help="Service level and sweep; default configs/slo.yaml.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("compare")(compare_command)
    app.command("load")(load_command)


def compare_command(
    baseline: Baseline = DEFAULT.baseline,
    baseline_url: Annotated[
        str | None, typer.Option("--baseline-url", help="An OpenAI-compatible endpoint instead.")
    ] = None,
    candidate: Candidate = None,
    candidate_url: Annotated[
        str | None, typer.Option("--candidate-url", help="An OpenAI-compatible endpoint instead.")
    ] = None,
    serving: Serving = DEFAULT.serving,
    candidate_serving: CandidateServing = None,
    declared: Annotated[
        Path | None, typer.Option("--declared", help="What endpoints serve, which they do not tell: see docs/load.md.")
    ] = None,
    combined: Annotated[
        bool, typer.Option("--combined", help="Allow more than one difference between the sides; the record says so.")
    ] = False,
    golden: Golden = DEFAULT.golden,
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="Decision policy, as for `run`.")] = None,
    explore: Explore = False,
    load: Annotated[
        bool, typer.Option("--load", help="Put load on both sides as well: what is gained at the service level?")
    ] = False,
    slo: Slo = None,
) -> None:
    """Compare two sides that are there already: checkpoints, serving variants of one, or endpoints by their URLs.

    Keys of endpoints come from QUANT_GATE_BASELINE_KEY and QUANT_GATE_CANDIDATE_KEY, else OPENAI_API_KEY.
    """
    request = CompareRequest(
        baseline,
        baseline_url,
        candidate,
        candidate_url,
        serving,
        candidate_serving,
        declared,
        combined,
        golden,
        policy,
        explore,
        load,
        slo,
    )
    with LiveProgress(Console(stderr=True, emoji=False)) as progress:
        result = compare(request, Store(), progress)
    Console(emoji=False).print(summary(result.decision, result.facts), crop=False)
    raise typer.Exit(result.exit_code)


def load_command(
    baseline: Baseline = DEFAULT.baseline,
    candidate: Candidate = None,
    serving: Serving = DEFAULT.serving,
    candidate_serving: CandidateServing = None,
    combined: Annotated[bool, typer.Option("--combined", help="Allow more than one difference.")] = False,
    golden: Annotated[
        str, typer.Option("--golden", "-g", help="Golden set that prompts and lengths are taken from.")
    ] = DEFAULT.golden,
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="Decision policy, for its `benefit`.")] = None,
    slo: Slo = None,
) -> None:
    """Put the same load on two checkpoints or serving variants, in pairs, and show what each bears; no verdict."""
    request = CompareRequest(
        baseline=baseline,
        candidate=candidate,
        serving=serving,
        candidate_serving=candidate_serving,
        combined=combined,
        golden=golden,
        policy=policy,
        load=True,
        slo=slo,
    )
    with LiveProgress(Console(stderr=True, emoji=False)) as progress:
        loaded = measure_load(request, Store(), progress)
    console = Console(emoji=False)
    console.print(load_view(loaded.told, loaded.gains), crop=False)
    console.print(escape(str(loaded.page)), highlight=False, soft_wrap=True)
    if loaded.problem:
        console.print(escape(f"Not recorded in MLflow: {loaded.problem}"), highlight=False, soft_wrap=True)
