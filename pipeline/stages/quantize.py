"""Stage quantize: from a baseline checkpoint and a recipe to a candidate checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from pipeline import environments
from pipeline.digests import tree_digest
from pipeline.general.suite import demand_unseen, load_suite
from pipeline.golden import GoldenSet, contamination
from pipeline.golden.source import open_source
from pipeline.progress import Progress
from pipeline.quantizers import autoawq, calibration, candidate, llmcompressor
from pipeline.quantizers.calibration import CalibrationText
from pipeline.quantizers.checkpoint import Checkpoint, DigestCache, read_checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.quantizers.worker import source_digest
from pipeline.settings import PROJECT_ROOT, Recipe
from pipeline.store import StageOutput, Store

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
        demand_unseen(general, (), zip(text.places, said, strict=True))

    store.make("leak check", inputs, build)
