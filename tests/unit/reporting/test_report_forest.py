"""The forest plot's geometry, read back from the SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # our own output

import pytest

from pipeline.errors import Verdict
from pipeline.reporting.forest import ForestRow, forest

NS = "{http://www.w3.org/2000/svg}"
ROW = ForestRow("metric", "note", "figures", -0.01, -0.04, 0.02, 0.03, Verdict.INCONCLUSIVE)


def _plot(*rows: ForestRow, narrow: bool = False) -> ET.Element:
    return ET.fromstring(forest(rows, ident="p", title="a title", description="a description", narrow=narrow))


def _x(root: ET.Element, kind: str) -> list[float]:
    return [float(line.attrib["x1"]) for line in root.iter(f"{NS}line") if line.attrib["class"] == kind]


@pytest.mark.parametrize("narrow", [False, True])
def test_marks_lie_in_proportion(narrow: bool) -> None:
    root = _plot(ROW, narrow=narrow)
    zero, margin = _x(root, "zero")[0], _x(root, "margin")[0]
    lower = min(_x(root, "limits"))
    marker = next(float(c.attrib["cx"]) for c in root.iter(f"{NS}circle"))
    # zero to margin is 3 points, zero to lower limit 4, zero to the difference 1
    assert (zero - lower) / (zero - margin) == pytest.approx(4 / 3, abs=0.02)
    assert (zero - marker) / (zero - margin) == pytest.approx(1 / 3, abs=0.02)


def test_everything_stays_inside_the_drawing() -> None:
    root = _plot(ForestRow("m", "", "", -1.0, -1.0, 1.0, 0.03), ROW)
    left, _, width, height = map(float, root.attrib["viewBox"].split())
    for line in root.iter(f"{NS}line"):
        assert left <= float(line.attrib["x1"]) <= width
        assert 0 <= float(line.attrib["y2"]) <= height


def test_a_row_without_figures_has_no_marker() -> None:
    root = _plot(ForestRow("m", "", "no turn scored", None, None, None, 0.03, Verdict.INVALID))
    assert not list(root.iter(f"{NS}circle"))
    assert not _x(root, "limits")
    assert len(_x(root, "margin")) == 1


def test_verdicts_differ_in_shape() -> None:
    shapes = set()
    for verdict in (Verdict.ACCEPT, Verdict.REJECT, Verdict.INCONCLUSIVE, None):
        root = _plot(ForestRow("m", "", "", 0.0, -0.01, 0.01, 0.03, verdict))
        shapes |= {(e.tag, e.attrib["class"]) for e in root.iter() if "marker" in e.attrib.get("class", "")}
    assert len(shapes) == 4


def test_has_a_name_and_a_description() -> None:
    root = _plot(ROW)
    assert root.attrib["role"] == "img"
    ids = root.attrib["aria-labelledby"].split()
    assert [e.text for i in ids for e in root.iter() if e.attrib.get("id") == i] == ["a title", "a description"]


def test_labels_are_escaped() -> None:
    root = _plot(ForestRow("<script>x</script>", "", "", 0.0, None, None, None))
    assert "<script>x</script>" in [e.text for e in root.iter(f"{NS}text")]


def test_a_long_label_is_cut_before_it_runs_into_the_plot() -> None:
    root = _plot(ForestRow("w" * 100, "n" * 100, "", 0.0, None, None, None))
    texts = [e.text or "" for e in root.iter(f"{NS}text")]
    assert "w" * 29 + "…" in texts
    assert "n" * 41 + "…" in texts
