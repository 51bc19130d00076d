"""The Pareto view of a ladder as SVG: bytes of weights against room to the margin.

Up and left is better. A candidate above the line has no loss beyond any margin left open; the dotted steps join those
that no other candidate beats on both axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeline.reporting.forest import marker, number
from pipeline.reporting.ladder.facts import Candidate, front, plotted
from pipeline.reporting.words import points, size

LINE = 15
"""Pixels from one label to the next below it."""
END = 0.04
"""Share of the axis, from below, at which deeper values are drawn."""
DEEPEST = 3.0
"""The axis goes down to so many times the largest margin at least reached; what lies deeper is drawn at its end."""
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
    most_bytes: float
    low: float
    high: float

    def x(self, count: float) -> float:
        """Horizontal position of a number of bytes; the axis begins at 0."""
        return self.left + count / self.most_bytes * (self.right - self.left)

    def y(self, headroom: float) -> float:
        """Vertical position of a headroom; what lies below the axis is drawn near its end."""
        share = max(END, (headroom - self.low) / (self.high - self.low))
        return self.bottom - share * (self.bottom - self.top)


def pareto(candidates: Sequence[Candidate], *, ident: str, narrow: bool) -> Markup | None:
    """Draw the measured candidates; None where there is none. ``ident`` is unique in the page."""
    drawn = plotted(candidates)
    if not drawn:
        return None
    frame = _frame(drawn, narrow)
    described = "; ".join(f"{c.recipe}: {size(count)}, headroom {points(room, 1)} points" for count, room, c in drawn)
    parts = [
        Markup(
            '<svg class="forest pareto {}" viewBox="0 0 {} {}" role="img" aria-labelledby="{} {}" '
            'xmlns="http://www.w3.org/2000/svg"><title id="{}">Bytes of weights against headroom to the margin</title>'
            '<desc id="{}">{}</desc>'
        ).format(
            "narrow" if narrow else "wide",
            frame.width,
            frame.height,
            *(f"{ident}-t", f"{ident}-d", f"{ident}-t", f"{ident}-d"),
            described,
        ),
        *_axes(frame, drawn),
        _steps(frame, candidates),
        *_pins(frame, drawn),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def _frame(drawn: Sequence[tuple[int, float, Candidate]], narrow: bool) -> _Frame:
    rooms = [0.0, *(room for _, room, _ in drawn)]
    judged = [candidate.judgement for _, _, candidate in drawn if candidate.judgement]
    margin = max(each.worst.margin for each in judged if each.worst)
    low, high = max(min(rooms), -DEEPEST * margin), max(rooms)
    air = 0.1 * (high - low or 0.01)
    width, height, left, right = (350, 380, 42, 340) if narrow else (1040, 440, 64, 1024)
    return _Frame(
        width=width,
        height=height,
        left=left,
        right=right,
        top=24,
        bottom=height - 52,
        most_bytes=1.04 * max(each.baseline_weight_bytes for each in judged),
        low=low - air,
        high=high + air,
    )


def _axes(frame: _Frame, drawn: Sequence[tuple[int, float, Candidate]]) -> list[Markup]:
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
    before = max(c.judgement.baseline_weight_bytes for _, _, c in drawn if c.judgement)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = number(frame.x(share * before))
        kind = "zero" if share == 1 else "grid"
        parts.append(
            Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(kind, x, x, frame.top, frame.bottom)
        )
        text = f"{100 * share:g}"
        parts.append(Markup('<text class="tick" x="{}" y="{}">{}</text>').format(x, frame.bottom + 17, text))
    middle = number((frame.left + frame.right) / 2)
    parts += [
        Markup('<text class="tick" x="{}" y="{}">weights, % of {} (the baseline)</text>').format(
            middle, frame.bottom + 38, size(before)
        ),
        Markup('<text class="dir" x="{}" y="14">↑ headroom to the margin, percentage points</text>').format(
            4 if frame.width < 500 else frame.left
        ),
    ]
    return parts


def _steps(frame: _Frame, candidates: Sequence[Candidate]) -> Markup:
    """The best headroom that is to be had for so many bytes."""
    path = ""
    for count, room, _ in front(candidates):
        x, y = number(frame.x(count)), number(frame.y(room))
        path += f"H{x}V{y}" if path else f"M{x} {frame.bottom}V{y}"
    return Markup('<path class="front" d="{}H{}"/>').format(path, frame.right)


def _pins(frame: _Frame, drawn: Sequence[tuple[int, float, Candidate]]) -> list[Markup]:
    """Markers and their labels, which give way to one another downwards, or upwards at the bottom."""
    parts, taken = [], [float("-inf")]
    for count, room, candidate in sorted(drawn, key=lambda pin: (-pin[1], pin[0])):
        x, y = frame.x(count), frame.y(room)
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
