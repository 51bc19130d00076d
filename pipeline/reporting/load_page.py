"""The page of a load test by itself: the part of a report that tells of load, without a verdict around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.reporting import load as load_words
from pipeline.reporting.curves import load_curves
from pipeline.reporting.html import page_environment
from pipeline.visible import visible


def render_load(load: Mapping[str, Any], baseline: str, candidate: str, gains: Sequence[str]) -> str:
    """Render the page.

    :param load: the ``load`` part of a decision record.
    :param gains: what each resource gains, in words.
    """
    template = page_environment().get_template("load_page.html.j2")
    page = template.render(
        load=load,
        load_plot=load_curves(load),
        load_words=load_words,
        baseline=baseline,
        candidate=candidate,
        gains=gains,
    )
    return visible(page)
