"""Stage inspect: the candidate beside its baseline, before anything is served.

Output directory: ``findings.json``, a list of findings (:class:`pipeline.inspection.Finding`), the gravest first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import inspection
from pipeline.digests import tree_digest
from pipeline.errors import RecordError
from pipeline.inspection import Finding, Severity, inspect_artifact, load_hardware
from pipeline.inspection.schemes import Scheme, scheme_named
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.quantizers.fit import FittedRecipe, fit_recipe
from pipeline.settings import Recipe
from pipeline.statistics.facts import Reason, ReasonCode
from pipeline.store import StageOutput, Store

if TYPE_CHECKING:
    from pipeline.golden import GoldenSet

STAGE = "inspect"
FINDINGS = "findings.json"
_CODES = {Severity.FATAL: ReasonCode.ARTIFACT_BROKEN, Severity.PARITY: ReasonCode.ARTIFACT_DIFFERS}


def run(
    store: Store,
    *,
    candidate: Checkpoint,
    baseline: Checkpoint,
    golden: GoldenSet,
    recipe: Recipe,
    template_override: str | None,
    progress: Progress,
) -> StageOutput:
    """Inspect, or reuse what was found before on the same checkpoints.

    :param recipe: what the candidate was made by.
    :param template_override: text of the chat template that the serving settings name.
    """
    inputs = {
        "candidate": candidate.digest,
        "baseline": baseline.digest,
        "golden_set": golden.digest,
        "recipe": recipe.model_dump(mode="json"),
        "hardware": load_hardware().model_dump(mode="json"),
        "template": template_override,
        "source": source_digest(),
    }

    def build(directory: Path) -> None:
        found = look(
            candidate.path,
            baseline,
            golden=golden,
            recipe=recipe,
            template_override=template_override,
            progress=progress,
        )
        text = json.dumps([finding.as_json() for finding in found], indent=1, ensure_ascii=False, allow_nan=False)
        (directory / FINDINGS).write_text(text + "\n", encoding="utf-8")

    return store.make(STAGE, inputs, build)


def look(
    candidate: Path,
    baseline: Checkpoint,
    *,
    golden: GoldenSet,
    recipe: Recipe | None,
    template_override: str | None,
    progress: Progress,
    weights: bool = True,
) -> tuple[Finding, ...]:
    """What is wrong with a candidate, whoever made it. Nothing is kept.

    :param recipe: hold it against what a recipe would quantize.
    :param weights: hold its weights against the baseline's, see :func:`pipeline.inspection.inspect_artifact`.
    :raises ModelError: there is no such candidate.
    """
    fitted = fit_recipe(recipe, baseline) if recipe else None
    return inspect_artifact(
        candidate,
        baseline.path,
        hardware_targets=load_hardware(),
        turns=golden.turns,
        intended=fitted.modules if fitted else None,
        intended_schemes=_schemes(fitted) if fitted else None,
        intended_kv_cache=recipe.kv_cache if recipe else None,
        rounded=recipe is not None and recipe.method == "rtn" and recipe.smoothquant is None,
        template_override=template_override,
        progress=progress,
        weights=weights,
    )


def _schemes(fitted: FittedRecipe) -> set[Scheme]:
    names = set(fitted.schemes().values())
    return {scheme_named(name, fitted.group_size, fitted.recipe.backend) for name in names}


def read_findings(path: Path) -> tuple[Finding, ...]:
    """Read ``findings.json``.

    :raises RecordError: it cannot be read.
    """
    try:
        values: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Finding(**{**value, "severity": Severity(value["severity"])}) for value in values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(f"{path}: cannot read findings: {error!r}", f"Remove {path.parent} and run again.") from error


def reasons(findings: Iterable[Finding]) -> list[Reason]:
    """What the findings argue for: REJECT, else INVALID, else nothing.

    A broken artifact needs no comparison to be refused, so fatal findings are not outweighed by those that only
    make a comparison unfair.
    """
    deciding = [finding for finding in findings if finding.severity.verdict is not None]
    fatal = [finding for finding in deciding if finding.severity is Severity.FATAL]
    made = []
    for finding in fatal or deciding:
        verdict = finding.severity.verdict
        assert verdict is not None
        text = f"{finding.check}: {finding.where}: {finding.text}. {finding.remedy}"
        made.append(Reason(_CODES[finding.severity], verdict, text, figures=finding.figures))
    return made


def source_digest() -> str:
    """Digest of the code that inspects."""
    package = Path(inspection.__file__).parent
    return tree_digest(package.parent, [*package.glob("*.py"), Path(__file__)])
