"""The gate runs of a ladder: which candidates are gated, which are skipped or failed, and which one is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.errors import VERDICT_EXIT_CODES, GateError, InputError, Interrupted, Verdict
from pipeline.gate import Gate
from pipeline.progress import Progress
from pipeline.quantizers.fit import fit_recipe
from pipeline.reporting.ladder.facts import (
    Candidate,
    Confirmation,
    ErrorBound,
    LadderRecord,
    State,
    cheapest,
    is_cheaper,
    judgement_of,
)
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.settings import GateSettings, LadderSettings, load_recipe
from pipeline.statistics.facts import ReasonCode
from pipeline.statistics.selection import selection_error
from pipeline.store import Store
from pipeline.tracking import Tracker

_OF_THE_BASELINE = frozenset(
    {ReasonCode.UNDERPOWERED, ReasonCode.BASELINE_BELOW_FLOOR, ReasonCode.NOISE, ReasonCode.NOISE_ABOVE_MARGIN}
)
"""Reasons that lie in the golden set or the baseline: the next candidate would meet them too."""
_OF_MISSING_RECORDS = frozenset({ReasonCode.UNSCORABLE, ReasonCode.PAIRS_DIFFER, ReasonCode.BAD_RECORDS})
"""Reasons for which the baseline is judged on the turns that this candidate left."""


class Steps:
    """The gate runs of one ladder.

    :param choose_on: the gate on the set that candidates are chosen on; its recipe is not read.
    :param confirm_on: the same on the set that confirms; None where none does.
    :param recipes: how the ladder's file calls each recipe, by the recipe's name.
    """

    def __init__(
        self,
        choose_on: Gate,
        confirm_on: Gate | None,
        recipes: Mapping[str, str],
        store: Store,
        progress: Progress,
        tracker: Tracker,
        measure_all: bool,
    ) -> None:
        self._gate, self._confirm = choose_on, confirm_on
        self._recipes = recipes
        self._store, self._progress, self._tracker = store, progress, tracker
        self._all = measure_all

    def climb(self, settings: LadderSettings, command: str) -> LadderRecord:
        """Gate the candidates in their order, confirm where that is asked for, and choose."""
        candidates: dict[str, Candidate] = {}
        over = ""
        for recipe in self._recipes:
            predicted = self._predicted(recipe)
            if isinstance(predicted, str):
                candidate = Candidate(recipe=recipe, state=State.FAILED, note=predicted)
            elif needless := over or self._needless(predicted, candidates):
                candidate = Candidate(recipe=recipe, state=State.SKIPPED, predicted_bytes=predicted, note=needless)
            else:
                self._progress.say("ladder", f"candidate {len(candidates) + 1} of {len(self._recipes)}: {recipe}")
                candidate, over = self._judge(recipe, predicted)
            said = candidate.verdict if candidate.judgement else candidate.state
            self._progress.say("ladder", f"{recipe}: {said} {candidate.note}".strip())
            candidates[recipe] = candidate
        chosen = self._choose(candidates)
        verdict = Verdict.ACCEPT if chosen else _best(candidates)
        return LadderRecord(
            model=self._gate.request.model,
            command=command,
            verdict=verdict,
            exit_code=VERDICT_EXIT_CODES[verdict],
            chosen=chosen,
            all=self._all,
            confirm=settings.confirm,
            alpha=self._gate.policy.alpha,
            error=error_bound(self._gate.policy, candidates, chosen),
            candidates=tuple(candidates.values()),
        )

    def _predicted(self, recipe: str) -> int | str:
        """Bytes of the candidate's weights, or why the recipe does not fit: known before anything is spent."""
        try:
            return fit_recipe(load_recipe(self._recipes[recipe]), self._gate.baseline).predicted_bytes
        except GateError as error:
            return _told(error)

    def _needless(self, predicted: int, before: Mapping[str, Candidate]) -> str:
        """Why there is no point in gating a candidate of that size, or an empty text."""
        best = cheapest(_accepted(before))
        if self._all or best is None or is_cheaper(predicted, best):
            return ""
        return f"not smaller than {best.recipe}, which passes; --all measures it as well"

    def _judge(self, recipe: str, predicted: int) -> tuple[Candidate, str]:
        """Gate a candidate. The second value says why the ladder is over, where the others would end alike."""
        request = replace(self._gate.request, recipe=self._recipes[recipe])
        result = self._run(request)
        if isinstance(result, Exception):
            if not isinstance(result, InputError):
                # If the baseline is what broke, no candidate can be judged: then this raises again.
                Gate(request, self._store, self._progress).replays("baseline")
            note = _told(result)
            return Candidate(recipe=recipe, state=State.FAILED, predicted_bytes=predicted, note=note), ""
        judged = judgement_of(result.decision, result.directory.name, result.facts.mlflow_run)
        candidate = Candidate(recipe=recipe, state=State.JUDGED, predicted_bytes=predicted, judgement=judged)
        return candidate, self._over(result.decision, recipe)

    def _over(self, decision: Mapping[str, Any], recipe: str) -> str:
        """Why no candidate can be accepted, or an empty text."""
        codes = {reason["code"] for reason in decision["reasons"]}
        if not codes & _OF_THE_BASELINE or codes & _OF_MISSING_RECORDS:
            return ""
        if self._all and decision["accounting"]["turns"]:
            return ""
        return f"no candidate can pass: {recipe} is {decision['verdict']} by golden set and baseline, which all share"

    def _choose(self, candidates: dict[str, Candidate]) -> str | None:
        """The smallest accepted candidate that is confirmed, where that is asked for."""
        if self._confirm is None:
            best = cheapest(_accepted(candidates))
            return best.recipe if best else None
        while best := cheapest(_accepted(candidates, unconfirmed=True)):
            candidates[best.recipe] = best.model_copy(update={"confirmation": self._confirmed(best.recipe)})
            if candidates[best.recipe].verdict is Verdict.ACCEPT:
                return best.recipe
        return None

    def _confirmed(self, recipe: str) -> Confirmation:
        assert self._confirm is not None
        self._progress.say("ladder", f"confirm {recipe} on {self._confirm.golden.name}")
        result = self._run(replace(self._confirm.request, recipe=self._recipes[recipe]))
        if isinstance(result, Exception):
            return Confirmation(verdict=Verdict.INVALID, note=_told(result))
        return Confirmation(
            verdict=result.verdict, note=result.decision["reasons"][0]["text"], run=result.directory.name
        )

    def _run(self, request: Request) -> RunResult | Exception:
        """One gate run, or what broke it."""
        try:
            result = run(request, self._store, self._progress)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - a fault in one backend must not cost the other candidates
            return error
        if result.facts.mlflow_run:
            self._tracker.adopt(result.facts.mlflow_run)
        return result


def _told(error: Exception) -> str:
    return (
        f"{error.message} {error.remedy}".strip()
        if isinstance(error, GateError)
        else f"{type(error).__name__}: {error}"
    )


def _accepted(candidates: Mapping[str, Candidate], *, unconfirmed: bool = False) -> list[Candidate]:
    found = [candidate for candidate in candidates.values() if candidate.verdict is Verdict.ACCEPT]
    return [candidate for candidate in found if not (unconfirmed and candidate.confirmation)]


def _best(candidates: Mapping[str, Candidate]) -> Verdict:
    """What a ladder without a choice comes to: the verdict of its candidates that is nearest to ACCEPT.

    INCONCLUSIVE before REJECT: more turns may yet accept one. REJECT before INVALID: those that could be judged are
    judged.
    """
    reached = {candidate.verdict for candidate in candidates.values()}
    return next((v for v in (Verdict.INCONCLUSIVE, Verdict.REJECT) if v in reached), Verdict.INVALID)


def error_bound(policy: GateSettings, candidates: Mapping[str, Candidate], chosen: str | None) -> ErrorBound | None:
    """Chance that the chosen candidate is bad; None where none was chosen.

    A confirmation counts only where it rests on other answers throughout: general tasks are the same whatever the set.
    """
    if chosen is None:
        return None
    judged = [candidate for candidate in candidates.values() if candidate.judgement]
    before = judged[: [candidate.recipe for candidate in judged].index(chosen)]
    unbroken = all(candidate.verdict is Verdict.ACCEPT for candidate in before)
    tasks = policy.general.tasks.values() if policy.general else ()
    confirmed = candidates[chosen].confirmation is not None and not any(task.gating for task in tasks)
    found = selection_error(policy.alpha, len(candidates), unbroken=unbroken, confirmed=confirmed)
    return ErrorBound(candidates=found.candidates, alpha=found.alpha, basis=found.basis.value, bound=found.bound)
