"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="demo, demo-raw, a directory, a hub id (revision with @) or models:/name@alias."
    ),
]
RecipeName = Annotated[
    str, typer.Option("--recipe", "-r", help="A name in configs/recipes, or the path of a .yaml file.")
]
Golden = Annotated[
    str, typer.Option("--golden", "-g", help="Golden set: a directory, a file, a URL or a hub id (owner/name).")
]
Serving = Annotated[
    str, typer.Option("--serving", "-s", help="A name in configs/serving, or the path of a .yaml file.")
]
Policy = Annotated[
    Path | None,
    typer.Option("--policy", "-p", help="Decision policy; default configs/gate.yaml, for demo models gate-demo.yaml."),
]
Explore = Annotated[
    bool,
    typer.Option("--explore", help="Go on although the golden set is too small to decide; never ACCEPT."),
]
Combined = Annotated[bool, typer.Option("--combined", help="Allow a recipe that changes weights and KV cache at once.")]
Load = Annotated[
    bool, typer.Option("--load", help="Put load on candidate and baseline as well (configs/slo.yaml): docs/load.md.")
]
Calibration = Annotated[
    str, typer.Option("--calibration", "-c", help="Directory of *.jsonl conversations to calibrate with.")
]
