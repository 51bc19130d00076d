"""What a self-test came to: the matrix of faults, the measured rates, and whether all of it is as it must be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.errors import GateError, Verdict
from pipeline.selftest.catalogue import Result, Sound
from pipeline.selftest.rates import Rate

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a self-test found."""

    sound: tuple[Sound, ...]
    results: tuple[Result, ...]
    rates: tuple[Rate, ...]
    seconds: float

    @property
    def problems(self) -> list[str]:
        """What is not as it must be, a line each."""
        found = [f"{s.name} was not accepted: {s.verdict}, {s.text}" for s in self.sound if not s.ok]
        for result in self.results:
            if result.verdict == Verdict.ACCEPT:
                found.append(f"{result.fault.name} was accepted: {result.fault.title}")
            elif not result.ok:
                found.append(f"{result.fault.name} was not caught by {result.fault.caught_by}: {_caught(result)}")
        found += [f"{r.name}: {r.share:.1%} of {r.runs}, the aim is {_aim(r)}" for r in self.rates if not r.ok]
        return found

    @property
    def exit_code(self) -> int:
        """0 when everything is as it must be, else that of a gate that cannot be trusted."""
        return GateError.exit_code if self.problems else 0

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "sound": [{"name": s.name, "verdict": s.verdict, "text": s.text, "ok": s.ok} for s in self.sound],
            "faults": [
                {
                    "name": r.fault.name,
                    "level": r.fault.level,
                    "title": r.fault.title,
                    "must_be_caught_by": r.fault.caught_by,
                    "caught_by": list(r.caught_by),
                    "verdict": r.verdict,
                    "ok": r.ok,
                }
                for r in self.results
            ],
            "rates": [
                {
                    "name": r.name,
                    "verdict": r.verdict.value,
                    "count": r.count,
                    "runs": r.runs,
                    "rate": round(r.share, 4),
                    "aim": r.aim,
                    "at_least": r.least,
                    "ok": r.ok,
                }
                for r in self.rates
            ],
            "seconds": round(self.seconds, 1),
        }

    def write(self, path: Path) -> None:
        """Write :meth:`as_json` to ``path``, replacing what is there at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(path)


def view(report: Report) -> RenderableType:
    """The report for a terminal: matrix, rates, and in the end what is wrong."""
    caught, accepted = sum(r.ok for r in report.results), sum(r.verdict == Verdict.ACCEPT for r in report.results)
    summary = f"{caught} of {len(report.results)} faults caught by their checks, {accepted} accepted"
    parts: list[RenderableType] = [_matrix(report), Text(), _rates(report.rates), Text()]
    if report.problems:
        parts += [Text(f"The gate cannot be trusted: {summary}.", style="bold red")]
        parts += [Text(f"  - {problem}") for problem in report.problems]
    else:
        parts += [Text(f"The gate is as good as it must be: {summary}, all rates within their aims.", "bold green")]
    return Group(*parts)


def _matrix(report: Report) -> Table:
    """One line a fault; 80 columns hold it where the named check caught it."""
    table = _table("fault", "must be caught by", "caught by", "verdict", "")
    for sound in report.sound:
        table.add_row(sound.name, "nothing", "nothing" if sound.ok else sound.text, sound.verdict, _mark(sound.ok))
    for level in dict.fromkeys(r.fault.level for r in report.results):
        table.add_section()
        for r in report.results:
            if r.fault.level == level:
                table.add_row(r.fault.name, r.fault.caught_by, _found(r), r.verdict, _mark(r.ok))
    return table


def _found(result: Result) -> str:
    if not result.ok:
        return _caught(result)
    return f"it and {len(result.others)} more" if result.others else "it"


def _rates(rates: Sequence[Rate]) -> Table:
    table = _table("simulated gates", "runs", "verdict", "rate", "aim", "")
    for r in rates:
        rate = f"{r.share:.1%} +- {r.error:.1%}"
        table.add_row(r.name, str(r.runs), r.verdict.value, rate, _aim(r), _mark(r.ok))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _caught(result: Result) -> str:
    return "; ".join(name[:_SHOWN] for name in result.caught_by[:3])


def _aim(rate: Rate) -> str:
    return f"at {'least' if rate.least else 'most'} {rate.aim:.0%}"


def _mark(ok: bool) -> Text:
    return Text("ok", "green") if ok else Text("MISSED", "bold red")
