"""Stage ``drift``: how far the candidate's next-token distributions lie from the baseline's on golden replies.

Output directory::

    drift.json          figures over all tokens and by role, position and slice; turns that could not be compared
    drift_turns.jsonl   one line a turn: its figures, the one that drifted most first

It explains, and it can refuse a candidate that is ruined; it never speaks for one. Divergence does not rank builds that
are nearly lossless, and says nothing of what a customer would notice (docs/drift.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.turn import Turn
from pipeline.digests import file_digest, tree_digest
from pipeline.errors import RecordError, Verdict
from pipeline.golden import GoldenSet
from pipeline.serving.logprobs import TOP_K, TurnLogprobs, read_logprobs
from pipeline.settings import DriftPolicy
from pipeline.stages.logprobs import LOGPROBS
from pipeline.statistics import divergence
from pipeline.statistics.advice import listed
from pipeline.statistics.divergence import Drift, TokenDrift, summarise, token_drift
from pipeline.statistics.facts import Reason, ReasonCode
from pipeline.store import StageOutput, Store

STAGE = "drift"
DRIFT, TURNS = "drift.json", "drift_turns.jsonl"
FIRST_TOKENS = 50
"""Beginning of a reply: where it is decided whether to refuse, to call or to answer."""
LEAST_READ = 0.5
"""Share of the turns asked that must have been read on both sides: a few short ones do not speak for the rest."""
LONG_CONTEXT = 2048
"""Tokens before a token from which its context counts as long."""
_ALL = ("all", "all tokens")
_QUANTILES = {0.5: "median", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p999"}
_ORDER = ("all", "role", "position", "context", "slice")


@dataclass(frozen=True, slots=True)
class _Placed:
    """One token of a golden reply, and the groups that it belongs to."""

    scenario: str
    groups: tuple[tuple[str, str], ...]
    drift: TokenDrift


def run(store: Store, *, baseline: Path, candidate: Path, golden: GoldenSet) -> StageOutput:
    """Compare what both sides said, or reuse the kept figures.

    :param baseline: output directory of the baseline's ``logprobs`` stage; ``candidate`` likewise.
    :param golden: the turns that were asked.
    :raises RecordError: a record cannot be read.
    """
    paths = {"baseline": baseline / LOGPROBS, "candidate": candidate / LOGPROBS}
    try:
        inputs: dict[str, Any] = {side: file_digest(path) for side, path in paths.items()}
    except OSError as error:
        raise RecordError(f"cannot read log-probabilities: {error}", "Run again.") from error
    inputs |= {"golden": golden.digest, "source": source_digest()}

    def build(directory: Path) -> None:
        before, after = (read_logprobs(path) for path in paths.values())
        placed: list[_Placed] = []
        lines: list[dict[str, Any]] = []
        unread: dict[str, str] = {}
        differing: list[str] = []
        missing: list[str] = []
        for turn in golden.turns:
            one, other = (side.get(turn.id, TurnLogprobs(turn.id, error="not asked")) for side in (before, after))
            if one.error is not None or other.error is not None:
                errors = {"baseline": one.error, "candidate": other.error}
                unread[turn.id] = "; ".join(f"{side}: {error}" for side, error in errors.items() if error is not None)
                if one.error is None or other.error is None:
                    missing.append(turn.id)
            elif (one.prompt_digest, one.token_ids) != (other.prompt_digest, other.token_ids):
                unread[turn.id] = "the two sides tokenize it differently"
                differing.append(turn.id)
            else:
                tokens = list(_tokens(turn, one, other))
                placed += tokens
                lines.append(_turn_line(turn, one, tokens))
        lines.sort(key=lambda line: (-line["mean"], line["turn_id"]))
        found = {
            "turns": len(golden.turns),
            "compared": len(lines),
            "top_k": TOP_K,
            "differing": differing,
            "missing": missing,
            "unread": unread,
            "rows": [_row(*group, placed) for group in _groups(placed)],
            "turn_means": {line["turn_id"]: line["mean"] for line in lines},
        }
        text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
        (directory / DRIFT).write_text(text + "\n", encoding="utf-8")
        with (directory / TURNS).open("w", encoding="utf-8") as handle:
            handle.writelines(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)

    return store.make(STAGE, inputs, build)


def read_drift(output: Path) -> dict[str, Any]:
    """The figures in an output directory of this stage.

    :raises RecordError: they cannot be read.
    """
    try:
        found: dict[str, Any] = json.loads((output / DRIFT).read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError) as error:
        raise RecordError(f"{output / DRIFT}: cannot read: {error}", f"Remove {output} and run again.") from error


def reasons(drift: Mapping[str, Any], policy: DriftPolicy) -> list[Reason]:
    """What the drift argues for: REJECT beyond the one line, INVALID where too little is known of it, else nothing."""
    asked, compared = drift["turns"], drift["compared"]
    found = []
    if drift["differing"]:
        text = (
            f"the golden replies have other token ids on the candidate's side at {len(drift['differing'])} of {asked} "
        )
        text += f"turns: {listed(drift['differing'])}."
        figures: dict[str, float | int | str] = {"turns": asked, "differing": len(drift["differing"])}
        found.append(Reason(ReasonCode.PROMPTS_DIFFER, Verdict.INVALID, text, figures=figures))
    if drift["missing"] or not compared or compared < LEAST_READ * asked:
        first = next(iter(drift["missing"] or drift["unread"]), None)
        text = f"the drift from the baseline is not known at {asked - compared} of {asked} turns"
        text += f": {first}: {drift['unread'][first]}." if first else "."
        figures = {"turns": asked, "compared": compared}
        found.append(Reason(ReasonCode.DRIFT_UNKNOWN, Verdict.INVALID, text, figures=figures))
    if compared and (mean := drift["rows"][0]["mean"]) > policy.catastrophe:
        row = drift["rows"][0]
        text = (
            f"the candidate is another model than the baseline: its next-token distributions lie {mean:.2f} nats from "
            f"the baseline's on average (line: {policy.catastrophe:g}), and it finds the same token likeliest at "
            f"{row['same_top']:.0%} of {row['tokens']} tokens of golden replies."
        )
        figures = {"mean": mean, "line": policy.catastrophe, "same_top": row["same_top"], "tokens": row["tokens"]}
        found.append(Reason(ReasonCode.DRIFT, Verdict.REJECT, text, figures=figures))
    return found


# --- tokens and their groups -------------------------------------------------------------------


def _tokens(turn: Turn, baseline: TurnLogprobs, candidate: TurnLogprobs) -> Iterator[_Placed]:
    pairs = zip(baseline.listings, candidate.listings, baseline.token_ids, strict=True)
    for number, (before, after, token_id) in enumerate(pairs):
        groups = (
            _ALL,
            ("role", "assistant text" if number < baseline.calls_from else "tool call"),
            ("position", f"first {FIRST_TOKENS} tokens" if number < FIRST_TOKENS else "later tokens"),
            ("context", f"{'past' if baseline.prompt_tokens + number >= LONG_CONTEXT else 'within'} {LONG_CONTEXT:,}"),
            *(("slice", name) for name in turn.slices),
        )
        yield _Placed(turn.scenario, groups, token_drift(before, after, token_id))


def _groups(placed: Sequence[_Placed]) -> list[tuple[str, str]]:
    """The groups that have a token: all tokens first, then by kind and name."""
    found = {group for token in placed for group in token.groups}
    return sorted(found, key=lambda group: (_ORDER.index(group[0]), group[1]))


def _row(kind: str, name: str, placed: Sequence[_Placed]) -> dict[str, Any]:
    members = [token for token in placed if (kind, name) in token.groups]
    drift = summarise([token.drift for token in members], [token.scenario for token in members])
    return {"group": kind, "name": name, **_figures(drift)}


def _figures(drift: Drift) -> dict[str, Any]:
    return {
        "tokens": drift.tokens,
        "mean": drift.mean,
        "mean_interval": drift.mean_interval,
        **{_QUANTILES[share]: value for share, value in drift.quantiles.items()},
        "maximum": drift.maximum,
        "error": drift.error,
        "tail": drift.tail,
        "same_top": drift.same_top,
        "mean_change": drift.mean_change,
        "rms_change": drift.rms_change,
        "perplexity_baseline": drift.perplexity[0],
        "perplexity_candidate": drift.perplexity[1],
        "perplexity_ratio": drift.perplexity_ratio,
        "perplexity_ratio_interval": drift.perplexity_ratio_interval,
    }


def _turn_line(turn: Turn, said: TurnLogprobs, tokens: Sequence[_Placed]) -> dict[str, Any]:
    drift = summarise([token.drift for token in tokens], [token.scenario for token in tokens])
    worst = max(range(len(tokens)), key=lambda number: tokens[number].drift.divergence)
    return {
        "turn_id": turn.id,
        "scenario": turn.scenario,
        "slices": list(turn.slices),
        "prompt_tokens": said.prompt_tokens,
        "tokens": drift.tokens,
        "mean": drift.mean,
        "maximum": drift.maximum,
        "same_top": drift.same_top,
        "perplexity_ratio": drift.perplexity_ratio,
        "worst_token": worst,
        "worst_token_id": said.token_ids[worst],
    }


def source_digest() -> str:
    """Digest of the code that compares."""
    here = Path(__file__)
    return tree_digest(here.parent.parent, [here, Path(divergence.__file__)])
