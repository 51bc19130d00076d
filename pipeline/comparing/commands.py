"""``quant-gate compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipeline.comparing.comparing import CompareRequest, compare
from pipeline.reporting import summary
from pipeline.reporting.live import LiveProgress
from pipeline.store import Store

DEFAULT = CompareRequest()


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("compare")(compare_command)


def compare_command(
    baseline: Annotated[
        str, typer.Option("--baseline", "-b", help="As --model of `run`; a directory may be quantized.")
    ] = DEFAULT.baseline,
    baseline_url: Annotated[
        str | None, typer.Option("--baseline-url", help="An OpenAI-compatible endpoint instead.")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", "-c", help="As --baseline; default: the same checkpoint.")
    ] = None,
    candidate_url: Annotated[
        str | None, typer.Option("--candidate-url", help="An OpenAI-compatible endpoint instead.")
    ] = None,
    serving: Annotated[
        str, typer.Option("--serving", "-s", help="A name in configs/serving, or the path of a .yaml file.")
    ] = DEFAULT.serving,
    candidate_serving: Annotated[
        str | None, typer.Option("--candidate-serving", help="Serve the candidate otherwise: a serving variant.")
    ] = None,
    declared: Annotated[
        Path | None, typer.Option("--declared", help="What endpoints serve, which they do not tell: see docs/load.md.")
    ] = None,
    combined: Annotated[
        bool, typer.Option("--combined", help="Allow more than one difference between the sides; the record says so.")
    ] = False,
    golden: Annotated[
        str, typer.Option("--golden", "-g", help="Golden set: a directory, a file, a URL or a hub id (owner/name).")
    ] = DEFAULT.golden,
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="Decision policy, as for `run`.")] = None,
    explore: Annotated[
        bool, typer.Option("--explore", help="Go on although the golden set is too small to decide; never ACCEPT.")
    ] = False,
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
    )
    with LiveProgress(Console(stderr=True, emoji=False)) as progress:
        result = compare(request, Store(), progress)
    Console(emoji=False).print(summary(result.decision, result.facts), crop=False)
    raise typer.Exit(result.exit_code)
