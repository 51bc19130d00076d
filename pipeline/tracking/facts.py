"""A decision record in the terms of an experiment tracker: parameters, figures, tags, prose, a table.

Pure functions over ``decision.json``. Names are the same in every run, so that runs compare in one table.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_SHARES = {
    "baseline": "baseline_rate",
    "candidate": "candidate_rate",
    "difference": "difference",
    "lower_limit": "lower",
    "upper_limit": "upper",
    "margin": "margin",
}
"""Figure as tracked -> field of the decision record, where it is a share: MLflow gets percent and percentage points, as
its charts write two digits after the point."""
_COUNTS = {"turns_lost": "b", "turns_gained": "c", "turns": "n"}


_HEAD = (
    *("metric", "verdict", "baseline", "candidate", "change, pp", "limits, pp", "margin, pp", "worse / better"),
    "turns",
)
HEADING = "## "
"""What the verdict begins with in a description, after what was said of a sign-off."""


def clipped(text: str, most: int) -> str:
    """``text``, its end replaced by an ellipsis where it is longer than ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def params_of(decision: Mapping[str, Any]) -> dict[str, Any]:
    """What the run was done with."""
    baseline, candidate, golden = decision["baseline"], decision["candidate"], decision["golden_set"]
    engine, recipe, policy = decision["engine"], candidate.get("recipe") or {}, decision["policy"]
    params = {
        "model": baseline.get("source"),
        "model.revision": baseline.get("revision"),
        "recipe": recipe.get("name"),
        "baseline.digest": baseline.get("digest"),
        "candidate.digest": candidate.get("digest"),
        "golden_set": golden.get("name"),
        "golden_set.digest": golden.get("digest"),
        "golden_set.turns": golden.get("turns"),
        "engine": engine.get("name"),
        "engine.version": engine.get("version"),
        "engine.device": engine.get("device"),
        "engine.flags": " ".join(map(str, engine.get("flags") or ())),
        "engine.speed_representative": engine.get("speed_representative"),
        "alpha": policy.get("alpha"),
    }
    params |= {f"recipe.{key}": recipe[key] for key in ("backend", "method", "scheme", "group_size") if key in recipe}
    params |= {f"sampling.{key}": value for key, value in (policy.get("sampling") or {}).items()}
    return params


def recipe_of(decision: Mapping[str, Any]) -> str:
    """Name of the candidate's recipe."""
    return str((decision["candidate"].get("recipe") or {}).get("name") or "candidate")


_LOAD_FIGURES = (
    *("ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "itl_p95_ms", "tpot_p95_ms", "e2el_p95_ms"),
    *("request_throughput", "output_throughput", "goodput"),
)


def figures_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Every figure of some metrics, as a decision record has them."""
    figures: dict[str, float | None] = {}
    for row in rows:
        metric = _name(row["metric"])
        figures |= {f"{figure}/{metric}": in_percent(row.get(field)) for figure, field in _SHARES.items()}
        figures |= {f"{figure}/{metric}": row.get(field) for figure, field in _COUNTS.items()}
        if noise := row.get("noise"):
            figures[f"noise_flip_rate/{metric}"] = in_percent(noise["flip_rate"])
            figures[f"excess_flips/{metric}"] = noise["excess_flips"]
    return figures


def metrics_of(decision: Mapping[str, Any]) -> dict[str, float | None]:
    """Every figure of the decision: ``<figure>/<metric>``, and ``slice.<slice>.<figure>/<metric>``.

    The MLflow UI puts what shares the part before the slash into one section of charts, and cuts long
    names at the end: with the figure first, the differences of all metrics stand side by side.
    """
    metrics = figures_of([*decision["metrics"], *(decision.get("general") or {}).get("metrics", ())])
    for row in decision["slices"]:
        where, metric = f"slice.{_name(row['slice'])}", _name(row["metric"])
        metrics[f"{where}.difference/{metric}"] = in_percent(row.get("difference"))
        metrics |= {f"{where}.{figure}/{metric}": row.get(field) for figure, field in _COUNTS.items()}
    critical, flips = decision["critical"], decision["flips"]
    metrics |= {
        "gate/critical_turns_failed": len(critical["failed"]),
        "gate/critical_turns_failed.upper_limit_percent": in_percent(critical.get("upper_limit")),
        "gate/flips.pass_to_fail": flips.get("pass_to_fail"),
        "gate/flips.fail_to_pass": flips.get("fail_to_pass"),
    }
    sizes = [decision[side].get("weight_bytes") for side in ("baseline", "candidate")]
    for side, size in zip(("baseline", "candidate"), sizes, strict=True):
        metrics[f"gate/weight_megabytes.{side}"] = None if size is None else size / 1e6
    severities = [finding["severity"] for finding in decision.get("findings", ())]
    for severity in ("fatal", "parity", "warning"):
        metrics[f"gate/findings.{severity}"] = severities.count(severity)
    for row in decision.get("resources", ()):
        name, figures = _name(row["name"]), ("change", "lower", "upper")
        metrics |= {f"resource.{figure}/{name}": in_percent(row[figure]) for figure in figures}
    if all(sizes):
        metrics["gate/weight_ratio"] = sizes[1] / sizes[0]
    return metrics


def load_series(load: Mapping[str, Any]) -> list[tuple[str, float, int]]:
    """The curves of a load test as metrics with steps: ``load.<figure>/<side>``, a step for each number of users.

    With the service level beside them. The UI draws them over users (steps), or one metric over another.
    """
    series = []
    for point in load["curves"]:
        where = point["side"] if point["phase"] == "cold" else f"{point['side']}.{point['phase']}"
        series += [(f"load.{figure}/{where}", float(point[figure]), int(point["users"])) for figure in _LOAD_FIGURES]
    for kind, limit in load["slo"].items():
        figure = f"load.{kind.removesuffix('_ms')}_p95_ms/service_level"
        series += [(figure, float(limit), users) for users in sorted({int(p["users"]) for p in load["curves"]})]
    return series


def load_params(load: Mapping[str, Any]) -> dict[str, Any]:
    """How load was put on, so that runs of different kinds are not taken for each other."""
    if (rates := load.get("requests_per_s")) is None:
        return {}
    arrivals = load["arrivals"]
    if arrivals["think_time_s"] is None:
        return {"load.arrivals": "each user asks again at once"}
    return {
        "load.arrivals": "at random",
        "load.think_time_s": arrivals["think_time_s"],
        "load.burstiness": arrivals["burstiness"],
        "load.requests_per_s": ", ".join(f"{rate:.3g} at {users} users" for users, rate in rates.items()),
    }


def tags_of(decision: Mapping[str, Any]) -> dict[str, Any]:
    """What runs are searched and coloured by."""
    return {
        "verdict": decision["verdict"],
        "exit_code": decision["exit_code"],
        "reasons": ", ".join(dict.fromkeys(reason["code"] for reason in decision["reasons"])),
        "candidate.digest": decision["candidate"].get("digest"),
    }


def description(
    decision: Mapping[str, Any], page: str, *, signed: str = "", links: Mapping[str, str] | None = None
) -> str:
    """The verdict for people, as Markdown: reasons, decision table, next step, lost turns.

    :param page: address of the run's page.
    :param signed: who signed it off or waived it, in a sentence; the next step is taken then.
    :param links: where a flipped turn is shown, by its id.
    """
    lines = [signed, ""] if signed else []
    lines += [
        f"{HEADING}{decision['verdict']}: {recipe_of(decision)} of {_cell(decision['baseline'].get('source'))}",
        "",
    ]
    lines += [f"- {_cell(reason['text'])}" for reason in decision["reasons"]]
    lines += ["", _row(_HEAD), "|---|---|---:|---:|---:|---|---:|---:|---:|"]
    for row in decision["metrics"]:
        limits = f"{_points(row['lower'])}…{_points(row['upper'])}"  # no space: the page has little room for a table
        cells = (
            row["metric"],
            row["verdict"] if row["gating"] else "not gating",
            _percent(row["baseline_rate"]),
            _percent(row["candidate_rate"]),
            _points(row["difference"]),
            limits,
            _points(row["margin"], sign=False),
            f"{row['b']} / {row['c']}",
            row["n"],
        )
        lines.append(_row(map(_cell, cells)))
    critical = decision["critical"]
    lines += ["", f"Critical turns failed: {len(critical['failed'])} of {critical['passed_by_baseline']}."]
    lines += [*([] if signed else [f"Next step: {_cell(decision['next_step'])}"]), ""]
    worst = [flip for flip in decision["worst_flips"] if flip["turn_id"] in (links or {})]
    if worst and links:
        lines += ["Lost turns to read first (tab *Traces* has all that flipped):", ""]
        lines += [f"- [{_cell(f['turn_id'])}]({links[f['turn_id']]}): {', '.join(f['metrics'])}" for f in worst]
        lines += [""]
    lines += [
        f"[The full report]({page}/artifacts/report.html), "
        f"[the decision record of the review]({page}/artifacts/review.md)."
    ]
    return clipped("\n".join(lines), 7500)


def flip_table(path: Path, traces: Mapping[str, str] | None = None) -> dict[str, list[Any]]:
    """Columns of the flips in a ``flips.jsonl``; empty when there are none.

    :param traces: id of the trace that shows a flipped turn, by turn.
    """
    flips = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not flips:
        return {}
    table: dict[str, list[Any]] = {}
    for name in ("turn_id", "metric", "direction", "critical"):
        table[name] = [flip[name] for flip in flips]
    for part in ("label", "evidence"):
        for side in ("baseline", "candidate"):
            table[f"{side}_{part}"] = [_plain(flip[side][part]) for flip in flips]
    for name in ("scenario", "slices"):
        table[name] = [_plain(flip[name]) for flip in flips]
    table["trace"] = [(traces or {}).get(flip["turn_id"], "") for flip in flips]
    return table


def drift_metrics(drift: Mapping[str, Any]) -> dict[str, float | None]:
    """Figures of a ``drift.json``: ``<figure>/<group of tokens>``; divergences in nats, shares in percent."""
    fields = ("mean", "median", "p99", "maximum", "perplexity_ratio", "tokens")
    shares = ("same_top", "mean_change", "rms_change")
    rows = {("slice." if row["group"] == "slice" else "") + _name(row["name"]): row for row in drift["rows"]}
    figures = {f"drift.{field}/{name}": row[field] for field in fields for name, row in rows.items()}
    return figures | {f"drift.{field}/{name}": in_percent(row[field]) for field in shares for name, row in rows.items()}


def drift_table(path: Path) -> dict[str, list[Any]]:
    """Columns of a ``drift_turns.jsonl``; empty when no turn was compared."""
    turns = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {name: [_plain(turn[name]) for turn in turns] for name in (turns[0] if turns else ())}


def _name(text: str) -> str:
    """``text`` with only the characters that MLflow allows in a name, and no slash of its own."""
    return re.sub(r"[^\w.\- ]", "_", text)


def _plain(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def in_percent(share: float | None) -> float | None:
    """A share as MLflow gets it."""
    return None if share is None else round(100 * share, 4)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _points(share: float | None, sign: bool = True) -> str:
    """A difference of shares in percentage points."""
    return "-" if share is None else f"{share * 100:{'+' if sign else ''}.1f}"


def _row(cells: Iterable[str]) -> str:
    """A line of a table. The registry's page leaves no room between columns by itself."""
    return f"| {' &nbsp;| '.join(cells)} |"


def _cell(value: Any) -> str:
    """Text that cannot break out of its Markdown table cell or list item, or become markup."""
    text = " ".join(str("-" if value is None else value).split())
    return re.sub(r"([\\`|\[\]*])", r"\\\1", html.escape(text, quote=False))
