"""Stage quantize: from a baseline checkpoint and a recipe to a candidate checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from pipeline import environments
from pipeline.digests import tree_digest
from pipeline.errors import GateError, RecipeError
from pipeline.general.suite import demand_unseen, load_suite
from pipeline.golden import GoldenSet, contamination
from pipeline.golden.source import open_source
from pipeline.processor import cpu_flags
from pipeline.progress import Progress
from pipeline.quantizers import autoawq, calibration, candidate, hardware, llmcompressor
from pipeline.quantizers.calibration import CalibrationText
from pipeline.quantizers.checkpoint import Checkpoint, DigestCache, read_checkpoint, tensors
from pipeline.quantizers.fit import fit_recipe, fit_tensors
from pipeline.quantizers.worker import source_digest
from pipeline.settings import PROJECT_ROOT, Recipe
from pipeline.stages.capacity import on_this_machine
from pipeline.store import StageOutput, Store, record_of

STAGE = "quantize"
FACTS = "facts.json"
BACKENDS: dict[str, ModuleType] = {"llmcompressor": llmcompressor, "autoawq": autoawq}
_GENERAL = "own"
"""The suite of general tasks that ships with the project; a policy may ask it of any build."""
_SLACK_BYTES = 64 << 20  # tokenizer, logs, calibration text


def run(
    store: Store,
    checkpoint: Checkpoint,
    recipe: Recipe,
    calibration_root: Path,
    golden: GoldenSet,
    progress: Progress,
) -> tuple[StageOutput, Checkpoint]:
    """Make the candidate, or find the one made before from the same inputs.

    Its directory holds ``checkpoint/``, ``facts.json``, ``calibration.jsonl`` (where the recipe
    calibrates), ``job.json`` and ``worker.log``.

    :param golden: the set that the candidate will be judged by; calibration text must not share its words.
    :raises RecipeError: the recipe does not fit the checkpoint; nothing was run.
    :raises GoldenSetError: the calibration text cannot be used; nothing was run.
    :raises EnvironmentMissing: the backend's environment is absent and cannot be built.
    :raises QuantizeError: the quantizer failed.
    """
    fitted = fit_recipe(recipe, checkpoint)
    wanted = recipe.calibration
    text = calibration.select(calibration_root, wanted.samples) if wanted else None
    if text is not None:
        demand_no_leak(store, text, golden, shipped_sets())
    backend = BACKENDS[recipe.backend]
    inputs = {
        "checkpoint": checkpoint.digest,
        "template": checkpoint.template_digest if text else None,
        "recipe": fitted.inputs(),
        "calibration": text.digest if text else None,
        "environment": environments.env_digest(backend.ENVIRONMENT),
        "worker": source_digest(backend.SCRIPT, *backend.PARTS),
    }

    def build(output: Path) -> None:
        python = environments.provide(backend.ENVIRONMENT, progress)
        samples = None
        if text is not None:
            calibration.write(text, samples := output / "calibration.jsonl")
        made = backend.quantize(checkpoint, fitted, samples, output, python=python, progress=progress)
        candidate.complete(checkpoint, output / "checkpoint")
        candidate.check(output / "checkpoint", fitted)
        facts = made | {
            "group_size": fitted.group_size,
            "modules": list(fitted.modules),
            "predicted_bytes": fitted.predicted_bytes,
            "calibration_digest": text.digest if text else None,
            "calibration_available": text.available if text else None,
        }
        (output / FACTS).write_text(json.dumps(facts, indent=1, sort_keys=True), encoding="utf-8")

    kept = store.make(STAGE, inputs, build, needs_bytes=fitted.predicted_bytes + _SLACK_BYTES)
    made = read_checkpoint(
        kept.path / "checkpoint",
        source=f"{checkpoint.source} + {recipe.name}",
        cache=DigestCache(store.root / "digests.json"),
        template_override=checkpoint.template,
        quantized=True,
    )
    return kept, made


def demand_servable(store: Store, model: str, recipe: Recipe, kv_cache_dtype: str) -> None:
    """Refuse a recipe whose candidate this machine could not serve, before anything is made.

    Where the model is on this machine and the recipe does not fit it either, that is said first: on a machine that
    could serve the format it would be refused again.

    :param kv_cache_dtype: what the serving settings say.
    :raises RecipeError: says why.
    """
    try:
        hardware.demand_servable(recipe, kv_cache_dtype, environments.compute_capability(), cpu_flags())
    except RecipeError as error:
        if misfit := _misfit(store, model, recipe):
            raise RecipeError(f"{misfit.message}\nBesides, {error.message}", misfit.remedy) from error
        raise


def _misfit(store: Store, model: str, recipe: Recipe) -> RecipeError | None:
    """Why the recipe does not fit a model whose headers are at hand; None: it does, or they are not."""
    try:
        if folder := on_this_machine(store, model):
            fit_tensors(recipe, list(tensors(folder)))
    except RecipeError as error:
        return error
    except (GateError, OSError):  # no model of ours, or half of one: resolving it says so
        return None
    return None


def calibration_digest(output: StageOutput) -> dict[str, str]:
    """The digest of the conversations that a candidate was calibrated on, by its name in the record; empty: none."""
    digest = record_of(output.path)["inputs"].get("calibration")
    return {"calibration": digest} if digest else {}


def shipped_sets() -> list[Path]:
    """The golden sets of this project."""
    return sorted(folder.parent for folder in (PROJECT_ROOT / "golden_sets").glob("*/transcripts"))


def demand_no_leak(store: Store, text: CalibrationText, golden: GoldenSet, others: Iterable[Path]) -> None:
    """The leak check, done once for the same texts: no golden set and no general item may stand in them.

    :raises GoldenSetError: one does; it is named with where the calibration text stands.
    """
    others, general = list(others), load_suite(_GENERAL)
    here = Path(contamination.__file__)
    inputs = {
        "calibration": text.digest,
        "golden": [golden.digest, len(golden.turns)],
        "others": [open_source(folder).digest() for folder in others],
        "general": general.digest,
        "source": tree_digest(here.parent.parent, [here, Path(calibration.__file__)]),
    }

    def build(output: Path) -> None:
        calibration.demand_disjoint(text, golden, others)
        said = ({"messages": sample["messages"]} for sample in text.samples)
        demand_unseen(general, zip(text.places, said, strict=True))

    store.make("leak check", inputs, build)
