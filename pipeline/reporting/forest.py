"""Forest plots as SVG: each difference with its limits against its margin.

Drawn by hand because the page may load nothing and must stay sharp on paper. Colours come from the
page's style sheet; a verdict is told by the marker's shape and in words as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeline.errors import Verdict

_MOST = {"label": 30, "note": 42}
"""Characters that fit beside the plot; names of slices and metrics come from the user's data."""

_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of the plot; shares. ``verdict`` None draws a plain marker."""

    label: str
    note: str
    figures: str
    difference: float | None
    lower: float | None
    upper: float | None
    margin: float | None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class _Frame:
    """Pixels: where the plot area lies, the height of a row and the line of its marks in the row."""

    width: int
    left: int
    right: int
    row: int
    line: int
    top: int
    span: float

    def x(self, share: float) -> float:
        """Horizontal position of a share; the axis runs over ``-span .. span``."""
        clipped = max(-self.span, min(self.span, share))
        return self.left + (clipped + self.span) / (2 * self.span) * (self.right - self.left)


def forest(rows: Sequence[ForestRow], *, ident: str, title: str, description: str, narrow: bool) -> Markup:
    """Draw the rows; ``narrow`` puts labels above the bars, for a phone. ``ident`` is unique in the page."""
    span = _span(rows)
    if narrow:
        frame = _Frame(width=350, left=12, right=338, row=76, line=58, top=22, span=span)
    else:
        frame = _Frame(width=1040, left=260, right=830, row=40, line=20, top=24, span=span)
    bottom = frame.top + len(rows) * frame.row
    parts = [
        Markup(
            '<svg class="forest {}" viewBox="0 0 {} {}" role="img" aria-labelledby="{} {}" '
            'xmlns="http://www.w3.org/2000/svg"><title id="{}">{}</title><desc id="{}">{}</desc>'
        ).format(
            "narrow" if narrow else "wide",
            frame.width,
            bottom + 40,
            f"{ident}-t",
            f"{ident}-d",
            f"{ident}-t",
            title,
            f"{ident}-d",
            description,
        )
    ]
    parts += _axis(frame, bottom)
    zero = number(frame.x(0))
    parts.append(Markup('<line class="zero" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(zero, frame.top, bottom))
    for index, row in enumerate(rows):
        parts += _row(frame, row, frame.top + index * frame.row, narrow)
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _span(rows: Sequence[ForestRow]) -> float:
    """Half-width of the axis: the outermost figure and a little air, at most 100 points."""
    reach = [abs(v) for r in rows for v in (r.difference, r.lower, r.upper, r.margin) if v is not None]
    return min(1.0, 1.12 * max(reach, default=0.05) or 0.05)


def _axis(frame: _Frame, bottom: int) -> list[Markup]:
    step = next((s for s in _STEPS if frame.span / s <= (3 if frame.width < 500 else 5)), _STEPS[-1])
    parts = [
        Markup('<text class="dir" x="{}" y="12" text-anchor="start">\u2190 worse</text>').format(number(frame.left)),
        Markup('<text class="dir" x="{}" y="12" text-anchor="end">better \u2192</text>').format(number(frame.right)),
    ]
    count = int(frame.span / step + 1e-9)
    for index in range(-count, count + 1):
        x = number(frame.x(index * step))
        text = f"{100 * index * step:+.3g}".replace("-", "\u2212") if index else "0"
        parts.append(Markup('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(x, frame.top, bottom))
        parts.append(Markup('<text class="tick" x="{}" y="{}">{}</text>').format(x, bottom + 16, text))
    middle = number((frame.left + frame.right) / 2)
    parts.append(
        Markup('<text class="tick" x="{}" y="{}">difference, percentage points</text>').format(middle, bottom + 33)
    )
    return parts


def _row(frame: _Frame, row: ForestRow, top: int, narrow: bool) -> list[Markup]:
    y = top + frame.line
    kind = row.verdict.value.lower() if row.verdict else "plain"
    parts = [Markup('<g class="row {}">').format(kind)]
    if narrow:
        parts.append(_text("label", frame.left, top + 14, row.label))
        parts.append(_text("note", frame.left, top + 28, row.note))
        parts.append(_text("note", frame.left, top + 42, row.figures))
    else:
        parts.append(_text("label", 0, y - 1, row.label))
        parts.append(_text("note", 0, y + 13, row.note))
        parts.append(_text("figures", frame.right + 16, y + 4, row.figures))
    half = 9 if narrow else 14
    if row.margin is not None:
        edge = frame.x(-row.margin)
        parts.append(
            Markup('<rect class="beyond" x="{}" y="{}" width="{}" height="{}"/>').format(
                frame.left, y - half, number(edge - frame.left), 2 * half
            )
        )
        parts.append(
            Markup('<line class="margin" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                number(edge), y - half, y + half
            )
        )
    if row.lower is not None and row.upper is not None:
        parts += _limits(frame, row.lower, row.upper, y)
    if row.difference is not None:
        parts.append(marker(kind, frame.x(row.difference), y))
    parts.append(Markup("</g>"))
    return parts


def _text(kind: str, x: int, y: int, text: str) -> Markup:
    most = _MOST.get(kind, len(text))
    text = text if len(text) <= most else f"{text[: most - 1]}\u2026"
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, x, y, text)


def _limits(frame: _Frame, lower: float, upper: float, y: int) -> list[Markup]:
    left, right = frame.x(lower), frame.x(upper)
    parts = [
        Markup('<line class="limits" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(number(left), number(right), y)
    ]
    for x in (left, right):
        parts.append(
            Markup('<line class="limits" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(number(x), y - 4, y + 4)
        )
    return parts


def marker(kind: str, x: float, y: float) -> Markup:
    """The mark of a verdict (``accept``, ``reject``, ...; ``plain`` for none), told by its shape."""
    if kind == "reject":
        return Markup('<path class="marker" d="M{0} {1}l6 6-6 6-6-6z"/>').format(number(x), number(y - 6))
    if kind in ("inconclusive", "invalid"):
        return Markup('<circle class="marker open" cx="{}" cy="{}" r="5"/>').format(number(x), number(y))
    if kind == "accept":
        return Markup('<circle class="marker" cx="{}" cy="{}" r="5.5"/>').format(number(x), number(y))
    return Markup('<rect class="marker" x="{}" y="{}" width="7" height="7"/>').format(number(x - 3.5), number(y - 3.5))


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
