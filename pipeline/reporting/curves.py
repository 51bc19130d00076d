"""Load curves as SVG: latency against throughput for both sides, one point a level, with the service level as a line.

Drawn by hand like the other plots: the page may load nothing. A side is told by its marker's shape and by its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pipeline.reporting.forest import marker, number

PANELS = (
    ("ttft_p95_ms", "ttft_ms", "time to first token, p95, ms"),
    ("tpot_p95_ms", "tpot_ms", "time per output token, p95, ms"),
    ("e2el_p95_ms", "e2el_ms", "whole reply, p95, ms"),
)
"""Figure of a point, its limit in the service level, and the title of its axis."""
SIDES = {"baseline": "plain", "candidate": "accept"}
"""Side to its kind of marker: squares and discs."""
_WIDTH, _HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 500, 26, 250


@dataclass(frozen=True, slots=True)
class _Frame:
    """Ticks of both axes; the last one is the end of its axis."""

    ticks_x: Sequence[float]
    ticks_y: Sequence[float]

    def x(self, value: float) -> float:
        """Horizontal position."""
        return _LEFT + value / self.ticks_x[-1] * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        """Vertical position."""
        return _BOTTOM - value / self.ticks_y[-1] * (_BOTTOM - _TOP)


def ticks(most: float) -> list[float]:
    """Round numbers from 0 to ``most`` or just beyond, four to eight steps apart."""
    if most <= 0:
        return [0.0, 1.0]
    size = 10.0 ** math.floor(math.log10(most / 4))
    step = max(factor * size for factor in (1, 2, 2.5, 5) if factor * size <= most / 4)
    return [step * number for number in range(math.ceil(most / step) + 1)]


def load_curves(load: Mapping[str, Any], ident: str = "load") -> Markup:
    """All panels of the ``load`` part of a decision record."""
    points = [point for point in load["curves"] if point["phase"] == "cold"]
    return Markup("").join(
        _panel(points, figure, float(load["slo"][limit]), title, f"{ident}-{figure}") for figure, limit, title in PANELS
    )


def _panel(points: Sequence[Mapping[str, Any]], figure: str, limit: float, title: str, ident: str) -> Markup:
    reach = max(point["spread"][figure][1] for point in points)
    # A limit far above everything would flatten the curves; it is then named instead of drawn.
    shown = limit <= 2.5 * reach
    frame = _Frame(
        ticks(1.05 * max(point["request_throughput"] for point in points)),
        ticks(1.05 * (max(reach, limit) if shown else reach)),
    )
    told = "; ".join(
        f"{point['side']}, {point['users']} users: {point[figure]:.0f} ms at {point['request_throughput']:.3g} a second"
        for point in points
    )
    parts = [
        Markup(
            '<svg class="forest curves" viewBox="0 0 {} {}" role="img" aria-labelledby="{} {}" '
            'xmlns="http://www.w3.org/2000/svg"><title id="{}">{} against requests a second</title>'
            '<desc id="{}">{}</desc>'
        ).format(_WIDTH, _HEIGHT, f"{ident}-t", f"{ident}-d", f"{ident}-t", title, f"{ident}-d", told),
        Markup('<text class="dir" x="{}" y="14" text-anchor="start">{}</text>').format(_LEFT, title),
        *_axes(frame),
    ]
    if shown:
        y = number(frame.y(limit))
        parts.append(Markup('<line class="margin" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(_LEFT, _RIGHT, y))
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" style="text-anchor:start">service level {:,.0f} ms</text>').format(
                _LEFT + 6, number(frame.y(limit) - 4), limit
            )
        )
    else:
        parts.append(
            Markup(
                '<text class="tick" x="{}" y="14" style="text-anchor:end">service level {:,.0f} ms, above</text>'
            ).format(_RIGHT, limit)
        )
    curves = {side: sorted((p for p in points if p["side"] == side), key=lambda p: p["users"]) for side in SIDES}
    upper = max(SIDES, key=lambda side: curves[side][-1][figure])
    for side, kind in SIDES.items():
        parts += _curve(frame, curves[side], figure, kind, side, above=side == upper)
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _axes(frame: _Frame) -> list[Markup]:
    parts = []
    for value in frame.ticks_y:
        y = number(frame.y(value))
        parts.append(Markup('<line class="grid" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(_LEFT, _RIGHT, y))
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" style="text-anchor:end">{:,.6g}</text>').format(
                _LEFT - 6, number(frame.y(value) + 4), value
            )
        )
    for value in frame.ticks_x:
        parts.append(
            Markup('<text class="tick" x="{}" y="{}">{:.3g}</text>').format(number(frame.x(value)), _BOTTOM + 16, value)
        )
    middle = number((_LEFT + _RIGHT) / 2)
    parts.append(Markup('<text class="tick" x="{}" y="{}">requests a second</text>').format(middle, _BOTTOM + 34))
    return parts


def _curve(
    frame: _Frame, ordered: Sequence[Mapping[str, Any]], figure: str, kind: str, side: str, *, above: bool
) -> list[Markup]:
    """One side's curve, its name ``above`` the last point or below it, where the other's is not."""
    places = [(frame.x(point["request_throughput"]), frame.y(point[figure])) for point in ordered]
    path = " ".join(f"{number(x)},{number(y)}" for x, y in places)
    parts = [
        Markup('<g class="row {}">').format(kind),
        Markup('<polyline class="limits" points="{}" style="fill:none"/>').format(path),
    ]
    for point, (x, y) in zip(ordered, places, strict=True):
        low, high = (frame.y(value) for value in point["spread"][figure])
        parts.append(
            Markup('<line class="limits" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                number(x), number(low), number(high)
            )
        )
        parts.append(marker(kind, x, y))
        parts.append(
            Markup('<text class="note" x="{}" y="{}">{}</text>').format(number(x + 8), number(y - 6), point["users"])
        )
    x, y = places[-1]
    place = (x - 10, y - 8, "end") if above else (min(x + 10, _WIDTH - 70), y + 16, "start")
    parts.append(
        Markup('<text class="label" x="{}" y="{}" style="text-anchor:{}">{}</text>').format(
            number(place[0]), number(place[1]), place[2], side
        )
    )
    parts.append(Markup("</g>"))
    return parts
