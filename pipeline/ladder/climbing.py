"""One ladder from its request to its record."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import RecipeError, SettingsError, UsageError
from pipeline.ladder.keeping import keep_ladder, track_ladder
from pipeline.ladder.sets import gates
from pipeline.ladder.steps import Steps
from pipeline.progress import Progress
from pipeline.quantizers import embedded
from pipeline.reporting.ladder.facts import LadderRecord
from pipeline.request import Request
from pipeline.runs import slug
from pipeline.serving import variables
from pipeline.settings import CONFIGS, LadderSettings, load_recipe, load_settings
from pipeline.store import Store
from pipeline.tracking import Tracker


@dataclass(frozen=True, slots=True)
class LadderResult:
    """What a ladder came to. ``directory`` holds ``ladder.json``, the page and the Markdown table."""

    record: LadderRecord
    directory: Path
    mlflow_run: str | None
    notes: tuple[str, ...]


def default_ladder(model: str) -> Path:
    """The ladder of a model when none is named: that of the embedded models has a bad candidate for show."""
    return CONFIGS / ("ladder-demo.yaml" if model in embedded.NAMES else "ladder.yaml")


def climb(request: Request, ladder: Path, store: Store, progress: Progress, *, measure_all: bool) -> LadderResult:
    """Gate the candidates of a ladder, choose one, and keep the record.

    :param request: model, golden set, serving and policy; its recipe is not read.
    :param ladder: the file that names the candidates.
    :param measure_all: also gate candidates that could not be chosen any more.
    :raises GateError: bad input, or a baseline that cannot be measured. A candidate that cannot be is no error.
    """
    settings = load_settings(ladder, LadderSettings)
    recipes = _recipes(settings, ladder, combined=request.combined)
    request = replace(request, recipe=settings.candidates[0])
    choose_on, confirm_on = gates(request, settings.confirm, store, progress)
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug(request.model)}-ladder"
    tracker = Tracker(f"quant-gate/{request.model}", name)
    try:
        _ = choose_on.baseline  # a model that does not exist is answered at once, and leaves no run
        with contextlib.suppress(RecipeError):  # an engine too old for the first recipe is that candidate's fault alone
            _ = choose_on.plan  # how all are served: what is wrong with it is no candidate's fault
        command = _command(request, ladder, measure_all)
        facts = {"model": request.model, "candidates": ", ".join(recipes), "confirm": settings.confirm}
        tracker.start({**facts, "command": command}, {"ladder": "true"})
        steps = Steps(choose_on, confirm_on, recipes, store, progress, tracker, measure_all)
        record = steps.climb(settings, command)
        directory = keep_ladder(record, store, name)
        track_ladder(record, directory, tracker)
    except BaseException as error:
        tracker.finish(error)
        raise
    problem = tracker.finish()
    notes = (f"Not recorded in MLflow: {problem}",) if problem else ()
    return LadderResult(record, directory, tracker.run_id, notes)


def _recipes(settings: LadderSettings, ladder: Path, *, combined: bool) -> dict[str, str]:
    """Recipe names, and how the ladder's file calls them.

    :raises RecipeError: unknown or invalid.
    :raises SettingsError: one stands twice.
    :raises UsageError: one changes weights and KV cache at once, which was not allowed.
    """
    loaded = [(load_recipe(given), given) for given in settings.candidates]
    for recipe, _ in loaded:
        try:
            variables.demand_one(variables.of_recipe(recipe), combined)
        except UsageError as error:
            raise UsageError(f"{ladder}: {recipe.name}: {error.message}", error.remedy) from error
    named = {recipe.name: given for recipe, given in loaded}
    if len(named) < len(loaded):
        raise SettingsError(f"{ladder}: candidates: a recipe stands twice, or two have one name", "Keep one of them.")
    return named


def _command(request: Request, ladder: Path, measure_all: bool) -> str:
    """The shell command that repeats the ladder: the options of a run, after its model and recipe, are the same."""
    words = ["quant-gate", "ladder", request.model, *shlex.split(request.command)[6:]]
    if ladder != default_ladder(request.model):
        words += ["--ladder", str(ladder)]
    return shlex.join([*words, "--all"] if measure_all else words)
