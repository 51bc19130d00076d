"""The Pareto view of a ladder as SVG: bytes of weights, or speed, against room to the margin.

Up is better, and so is left for bytes, right for speed. A candidate above the line has no loss beyond any margin left
open; the dotted steps join those that no other candidate beats on both axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from markupsafe import Markup

from pipeline.reporting.forest import marker, number
from pipeline.reporting.ladder.facts import Against, Candidate, front, plotted
from pipeline.reporting.words import points, size

LINE = 15
"""Pixels from one label to the next below it."""
END = 0.04
"""Share of the axis, from below, at which deeper values are drawn."""
DEEPEST = 3.0
"""The axis goes down to so many times the largest margin at least reached; what lies deeper is drawn at its end."""
_COLUMNS, _ROWS = 60, 12
_TITLES = {Against.BYTES: "Bytes of weights", Against.SPEED: "Speed"}
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Pixels and ranges of the plot area."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    baseline: float
    most: float
    low: float
    high: float

    def x(self, figure: float) -> float:
        """Horizontal position of bytes or speed; the axis begins at 0."""
        return self.left + figure / self.most * (self.right - self.left)

    def y(self, headroom: float) -> float:
        """Vertical position of a headroom; what lies below the axis is drawn near its end."""
        share = max(END, (headroom - self.low) / (self.high - self.low))
        return self.bottom - share * (self.bottom - self.top)


def pareto(
    candidates: Sequence[Candidate], against: Against = Against.BYTES, *, ident: str, narrow: bool
) -> Markup | None:
    """Draw the measured candidates; None where there is none. ``ident`` is unique in the page."""
    drawn = plotted(candidates, against)
    if not drawn:
        return None
    frame = _frame(drawn, against, narrow)
    described = "; ".join(
        f"{c.recipe}: {_figure(value, against)}, headroom {points(room, 1)} points" for value, room, c in drawn
    )
    parts = [
        Markup(
            '<svg class="forest pareto {}" viewBox="0 0 {} {}" role="img" aria-labelledby="{} {}" '
            'xmlns="http://www.w3.org/2000/svg"><title id="{}">{} against headroom to the margin</title>'
            '<desc id="{}">{}</desc>'
        ).format(
            "narrow" if narrow else "wide",
            frame.width,
            frame.height,
            *(f"{ident}-t", f"{ident}-d", f"{ident}-t"),
            _TITLES[against],
            f"{ident}-d",
            described,
        ),
        *_axes(frame, against),
        _steps(frame, candidates, against),
        *_pins(frame, drawn),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def text_plot(candidates: Sequence[Candidate], against: Against = Against.BYTES) -> list[str]:
    """The same for a terminal: lines of at most 80 characters, a letter for each measured candidate; empty without one.

    Letters that would fall on one another stand side by side.
    """
    drawn = plotted(candidates, against)
    if not drawn:
        return []
    frame = replace(_frame(drawn, against, narrow=True), left=0, right=_COLUMNS - 1, top=0, bottom=_ROWS - 1)
    zero = round(frame.y(0))
    grid = [["-" if row == zero else " "] * _COLUMNS for row in range(_ROWS)]
    named = list(zip(ascii_uppercase, drawn, strict=False))
    for letter, (value, room, _) in named:
        row, column = round(frame.y(room)), round(frame.x(value))
        while column < _COLUMNS - 1 and grid[row][column] not in " -":
            column += 1
        grid[row][column] = letter
    most = 100 * frame.most / frame.baseline
    scale = {0: f"{100 * frame.high:+.1f}", zero: "0", _ROWS - 1: f"{100 * frame.low:+.1f}"}
    of = "bytes" if against is Against.BYTES else "requests a second within the service level"
    return [
        "headroom to the margin, percentage points",
        *(f"{scale.get(row, ''):>6} |{''.join(cells)}".rstrip() for row, cells in enumerate(grid)),
        f"       +{'-' * _COLUMNS}",
        f"        {'0':<{_COLUMNS - 4}}{most:>4.0f}",
        f"{f'% of the baseline: {of}':>{_COLUMNS + 8}}",
        *(f"{letter} {candidate.recipe}" for letter, (_, _, candidate) in named),
    ]


def _figure(value: float, against: Against) -> str:
    return size(int(value)) if against is Against.BYTES else f"{value:.2f} times the baseline's speed"


def _frame(drawn: Sequence[tuple[float, float, Candidate]], against: Against, narrow: bool) -> _Frame:
    rooms = [0.0, *(room for _, room, _ in drawn)]
    judged = [candidate.judgement for _, _, candidate in drawn if candidate.judgement]
    margin = max(each.worst.margin for each in judged if each.worst)
    low, high = max(min(rooms), -DEEPEST * margin), max(rooms)
    air = 0.1 * (high - low or 0.01)
    width, height, left, right = (350, 380, 42, 340) if narrow else (1040, 440, 64, 1024)
    baseline = float(max(each.baseline_weight_bytes for each in judged)) if against is Against.BYTES else 1.0
    largest = baseline if against is Against.BYTES else max(baseline, *(value for value, _, _ in drawn))
    return _Frame(
        width=width,
        height=height,
        left=left,
        right=right,
        top=24,
        bottom=height - 52,
        baseline=baseline,
        most=1.04 * largest,
        low=low - air,
        high=high + air,
    )


def _axes(frame: _Frame, against: Against) -> list[Markup]:
    zero = frame.y(0)
    parts = [
        Markup('<rect class="beyond" x="{}" y="{}" width="{}" height="{}"/>').format(
            frame.left, number(zero), frame.right - frame.left, number(frame.bottom - zero)
        )
    ]
    step = next((s for s in _STEPS if (frame.high - frame.low) / s <= 8), _STEPS[-1])
    for index in range(int(frame.low / step) - 1, int(frame.high / step) + 1):
        if frame.low <= index * step <= frame.high:
            y = number(frame.y(index * step))
            parts.append(
                Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(frame.left, frame.right, y, y)
            )
            text = f"{100 * index * step:+.3g}".replace("-", "−") if index else "0"
            parts.append(
                Markup('<text class="tick end" x="{}" y="{}">{}</text>').format(
                    frame.left - 6, number(frame.y(index * step) + 4), text
                )
            )
    parts.append(
        Markup('<line class="margin" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            frame.left, frame.right, number(zero), number(zero)
        )
    )
    most = frame.most / frame.baseline
    step = next(s for s in (0.25, 0.5, 1.0, 2.0, 5.0, most) if most / s <= 8)
    for share in (index * step for index in range(int(most / step) + 1)):
        x = number(frame.x(share * frame.baseline))
        kind = "zero" if share == 1 else "grid"
        parts.append(
            Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(kind, x, x, frame.top, frame.bottom)
        )
        text = f"{100 * share:g}"
        parts.append(Markup('<text class="tick" x="{}" y="{}">{}</text>').format(x, frame.bottom + 17, text))
    middle = number((frame.left + frame.right) / 2)
    caption = f"weights, % of {size(int(frame.baseline))} (the baseline)"
    if against is Against.SPEED:
        caption = "requests a second within the service level, % of the baseline's"
    parts += [
        Markup('<text class="tick" x="{}" y="{}">{}</text>').format(middle, frame.bottom + 38, caption),
        Markup('<text class="dir" x="{}" y="14">↑ headroom to the margin, percentage points</text>').format(
            4 if frame.width < 500 else frame.left
        ),
    ]
    return parts


def _steps(frame: _Frame, candidates: Sequence[Candidate], against: Against) -> Markup:
    """The best headroom that is to be had for so many bytes, or at such a speed."""
    path = ""
    for value, room, _ in front(candidates, against):
        x, y = number(frame.x(value)), number(frame.y(room))
        path += f"H{x}V{y}" if path else f"M{x} {frame.bottom}V{y}"
    end = frame.right if against is Against.BYTES else frame.left
    return Markup('<path class="front" d="{}H{}"/>').format(path, end)


def _pins(frame: _Frame, drawn: Sequence[tuple[float, float, Candidate]]) -> list[Markup]:
    """Markers and their labels, which give way to one another downwards, or upwards at the bottom."""
    parts, taken = [], [float("-inf")]
    for value, room, candidate in sorted(drawn, key=lambda pin: (-pin[1], pin[0])):
        x, y = frame.x(value), frame.y(room)
        verdict = candidate.verdict.value.lower() if candidate.verdict else "plain"
        label_y = max(y, taken[-1] + LINE)
        taken.append(label_y)
        deep = " ↓" if room < frame.low else ""
        text = f"{candidate.recipe} {points(room, 1).replace('-', '−')}{deep}"
        left_side = x > (frame.left + frame.right) * 0.6
        parts += [
            Markup('<g class="{}">{}').format(verdict, marker(verdict, x, y)),
            Markup('<text class="label{}" x="{}" y="{}">{}</text></g>').format(
                " end" if left_side else "", number(x - 10 if left_side else x + 10), number(label_y + 4), text
            ),
        ]
    return parts
