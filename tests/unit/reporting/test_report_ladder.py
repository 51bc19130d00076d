"""Reports of a ladder: the plot's geometry, the page and the tables, from made-up figures."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET  # our own output
from itertools import pairwise
from pathlib import Path

import pytest
from ladder_samples import AWQ, BLOCK, FP8, GPTQ, INT8, MIXED, RTN, candidate, record, samples
from pydantic import ValidationError
from rich.console import Console
from test_report_html import HOSTILE, Page

from pipeline.errors import Verdict
from pipeline.reporting.ladder.facts import Against, Candidate, LadderRecord, State, cheapest, front, is_cheaper
from pipeline.reporting.ladder.page import render
from pipeline.reporting.ladder.pareto import pareto, text_plot
from pipeline.reporting.ladder.phrases import headline, next_step, notes
from pipeline.reporting.ladder.table import ladder_markdown, ladder_table, ladder_view

NS = "{http://www.w3.org/2000/svg}"
SAMPLES = samples()


# --- facts -------------------------------------------------------------------------------------


def test_the_worst_metric_is_the_one_with_the_least_headroom() -> None:
    judged = INT8.judgement
    assert judged is not None and judged.worst is not None
    assert (judged.worst.metric, judged.worst.headroom) == ("tool_call_correct", pytest.approx(-0.064 + 0.06))
    assert judged.flips == (9, 6)


def test_smaller_means_by_more_than_a_percent() -> None:
    hundred = candidate("a", Verdict.ACCEPT, 1000, 0.0)
    assert is_cheaper(989, hundred)
    assert not is_cheaper(990, hundred)
    assert not is_cheaper(None, hundred)
    near = candidate("b", Verdict.ACCEPT, 995, 0.0)
    assert cheapest([hundred, near]) == hundred  # the earlier one
    assert cheapest([hundred, near, candidate("c", Verdict.ACCEPT, 900, 0.0)]).recipe == "c"  # type: ignore[union-attr]
    assert cheapest([]) is None


def test_the_front_holds_what_no_other_beats_on_both_axes() -> None:
    a = candidate("a", Verdict.ACCEPT, 100, -0.03)
    b = candidate("b", Verdict.ACCEPT, 100, -0.02)  # as large, better
    c = candidate("c", Verdict.ACCEPT, 200, -0.02)  # larger, no better
    d = candidate("d", Verdict.REJECT, 300, -0.01)
    e = candidate("e", Verdict.INVALID, 50, 0.0)  # no basis
    assert [each.recipe for _, _, each in front([d, c, b, a, e], Against.BYTES)] == ["b", "d"]


def test_the_front_by_speed_begins_with_the_fastest() -> None:
    slow = candidate("slow", Verdict.ACCEPT, 100, -0.01, speed=0.9)
    fast = candidate("fast", Verdict.ACCEPT, 200, -0.03, speed=1.5)
    beaten = candidate("beaten", Verdict.ACCEPT, 100, -0.04, speed=1.2)
    unmeasured = candidate("unmeasured", Verdict.ACCEPT, 50, 0.0)
    found = front([slow, beaten, unmeasured, fast], Against.SPEED)
    assert [(speed, each.recipe) for speed, _, each in found] == [(1.5, "fast"), (0.9, "slow")]


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 10},
        {"chosen": "int4-awq"},  # rejected
        {"chosen": "int5"},
        {"chosen": None},
        {"confirm": "half"},  # not confirmed
        {"error": None},
        {"candidates": ()},
        {"alpha": float("nan")},
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, object]) -> None:
    good = record([FP8, AWQ, GPTQ], "int4-gptq")
    with pytest.raises(ValidationError):
        LadderRecord.model_validate({**good.model_dump(), **changes})


@pytest.mark.parametrize("name", SAMPLES)
def test_a_record_survives_its_file(name: str) -> None:
    assert LadderRecord.model_validate_json(SAMPLES[name].model_dump_json()) == SAMPLES[name]


# --- the plot ----------------------------------------------------------------------------------


def _plot(*candidates: Candidate, narrow: bool = False) -> ET.Element:
    svg = pareto(candidates, ident="p", narrow=narrow)
    assert svg is not None
    return ET.fromstring(svg)


def _place(root: ET.Element, recipe: str) -> tuple[float, float]:
    """Where the marker of a candidate is drawn."""
    for group in root.iter(f"{NS}g"):
        marker, label = group
        if (label.text or "").startswith(recipe):
            if marker.tag == f"{NS}circle":
                return float(marker.attrib["cx"]), float(marker.attrib["cy"])
            x, y = re.findall(r"[\d.]+", marker.attrib["d"])[:2]
            return float(x), float(y) + 6  # the diamond's path begins at its top
    raise AssertionError(recipe)


def _line(root: ET.Element, kind: str, axis: str) -> float:
    return float(next(line.attrib[axis] for line in root.iter(f"{NS}line") if line.attrib["class"] == kind))


@pytest.mark.parametrize("narrow", [False, True])
def test_marks_lie_in_proportion(narrow: bool) -> None:
    root = _plot(FP8, AWQ, GPTQ, narrow=narrow)
    zero = _line(root, "margin", "y1")
    # headroom: fp8 6 - 2.1 = 3.9 points, awq 6 - 11.3 = -5.3; a diamond is drawn from its top
    (fp8_x, fp8_y), (awq_x, awq_y) = _place(root, "fp8-dynamic"), _place(root, "int4-awq")
    assert (zero - fp8_y) / (awq_y - zero) == pytest.approx(3.9 / 5.3, abs=0.02)
    baseline = _line(root, "zero", "x1")
    left = min(float(line.attrib["x1"]) for line in root.iter(f"{NS}line"))
    assert (fp8_x - left) / (baseline - left) == pytest.approx(163_204_712 / 269_060_552, abs=0.01)
    assert awq_x < fp8_x


@pytest.mark.parametrize("narrow", [False, True])
def test_a_hopeless_candidate_does_not_squeeze_the_others(narrow: bool) -> None:
    root = _plot(FP8, GPTQ, RTN, narrow=narrow)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    zero, (_, fp8_y), (x, y) = _line(root, "margin", "y1"), _place(root, "fp8-dynamic"), _place(root, "int4-rtn")
    assert 0 < x < width and 0 < y < height
    assert zero - fp8_y > 0.1 * height
    label = next(text.text for text in root.iter(f"{NS}text") if (text.text or "").startswith("int4-rtn"))
    assert label == "int4-rtn −35.2 ↓"


@pytest.mark.parametrize("narrow", [False, True])
def test_labels_do_not_cover_one_another(narrow: bool) -> None:
    root = _plot(FP8, INT8, GPTQ, candidate("twin", Verdict.ACCEPT, 113_030_000, -0.058), RTN, narrow=narrow)
    heights = sorted(float(t.attrib["y"]) for t in root.iter(f"{NS}text") if t.attrib["class"].startswith("label"))
    assert len(heights) == 5
    assert min(b - a for a, b in pairwise(heights)) >= 14


@pytest.mark.parametrize("narrow", [False, True])
def test_speed_lies_in_proportion_to_the_baselines(narrow: bool) -> None:
    svg = pareto(SAMPLES["loaded"].candidates, Against.SPEED, ident="p", narrow=narrow)
    assert svg is not None
    root = ET.fromstring(svg)
    left = min(float(line.attrib["x1"]) for line in root.iter(f"{NS}line"))
    baseline, (fast, _) = _line(root, "zero", "x1"), _place(root, "fp8-dynamic")
    assert (fast - left) / (baseline - left) == pytest.approx(1.42, abs=0.01)
    assert len(list(root.iter(f"{NS}g"))) == 3  # the fourth was not measured
    assert pareto(SAMPLES["chosen"].candidates, Against.SPEED, ident="p", narrow=narrow) is None


def test_the_terminals_plot_puts_letters_in_proportion() -> None:
    lines = text_plot(SAMPLES["chosen"].candidates)
    rows = {text[8:]: number for number, text in enumerate(lines[1:13])}
    places = {char: (row, text.index(char)) for text, row in rows.items() for char in text if char.isupper()}
    named = dict(line.split(maxsplit=1) for line in lines[16:])
    measured = {c.recipe: c for c in SAMPLES["chosen"].candidates if c.judgement and c.judgement.replayed}
    assert set(named.values()) == set(measured) and set(named) == set(places)
    (zero,) = (number for number, text in enumerate(lines[1:13]) if text.startswith("     0 |"))
    for letter, recipe in named.items():
        candidate = measured[recipe]
        judged = candidate.judgement
        assert judged is not None and judged.worst is not None and judged.worst.lower is not None
        row, column = places[letter]
        share = (candidate.weight_bytes or 0) / judged.baseline_weight_bytes
        assert column == pytest.approx(59 * share / 1.04, abs=1.5)  # 60 columns; two may stand side by side
        room = judged.worst.lower + judged.worst.margin
        assert row == zero or (row < zero) == (room > 0)
    assert text_plot(()) == []


def test_candidates_without_figures_are_not_drawn() -> None:
    invalid = candidate("odd", Verdict.INVALID, 100, 0.0)
    assert pareto([BLOCK, MIXED, invalid], ident="p", narrow=False) is None
    assert len(list(_plot(FP8, BLOCK, MIXED, invalid).iter(f"{NS}g"))) == 1


# --- page and tables ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_whole_and_loads_nothing(name: str) -> None:
    text = render(SAMPLES[name])
    page = Page(text)  # checks that tags nest
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}
    targets = [attributes.get("href") or "" for tag, attributes in page.elements if tag == "a"]
    assert all(target.startswith(("#", "../")) for target in targets)
    idents = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(idents) == len(set(idents))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(idents)
    said = " ".join(" ".join(page.texts).split())
    assert SAMPLES[name].verdict in said
    for each in SAMPLES[name].candidates:
        assert each.recipe in said


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_become_markup(text: str) -> None:
    failed = Candidate(recipe=text, state=State.FAILED, note=text)
    ladder = record([FP8, failed], "fp8-dynamic", model=text, command=text)
    plain = Page(render(record([FP8, BLOCK], "fp8-dynamic")))
    page = Page(render(ladder))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    rows = [line for line in ladder_table(ladder) if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {13}
    assert len(rows) == len(ladder_table(ladder)) == 5


def test_the_table_gives_both_sides_and_every_candidate() -> None:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in ladder_table(SAMPLES["some"])]
    assert lines[0][:5] == ["build", "weights", "made in", "drift, nats", "Follows the policy, %"]
    assert lines[2] == ["BF16", "269.1 MB", "", "", "91.0", "88.0", "86.0", "93.0", "99.0", "", "", ""]
    limit = "-2.10, Makes the right tool call (-6.00)"
    rates = ["91.0", "87.7", "86.0", "93.0", "99.0"]
    assert lines[3] == ["fp8-dynamic", "163.2 MB", "83 s", "0.0106", *rates, "3 / 2", limit, "ACCEPT"]
    assert lines[5] == ["int4-mixed", "121.0 MB", *[""] * 9, "skipped"]


def test_speed_is_told_where_load_was_put() -> None:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in ladder_table(SAMPLES["loaded"])]
    assert [line[4] for line in lines if len(line) > 4] == ["speed", "--:", "1.00", "1.42", "1.10", "0.90", ""]
    assert "Quality against speed" in render(SAMPLES["loaded"])
    assert "Quality against speed" not in render(SAMPLES["chosen"])


def test_the_error_of_the_choice_is_told_by_its_rule() -> None:
    def told(name: str) -> str:
        return " ".join(notes(SAMPLES[name]))

    assert "at most 6 x 5 % = 30 % (Boole)" in told("chosen")
    assert "at most 2 x 5 % x 5 % = 0.5 %" in told("confirmed")
    assert "declared" not in told("none")
    bound = {"candidates": 3, "alpha": 0.05, "basis": "fixed_sequence", "bound": 0.05}
    chain = LadderRecord.model_validate({**SAMPLES["some"].model_dump(), "error": bound})
    assert "stays at most 5 % (fixed-sequence testing)" in " ".join(notes(chain))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chosen", "int4-gptq is the smallest candidate that passes: weights 269.1 MB -> 113.0 MB (-58.0 %)."),
        ("none", "No candidate is proved good enough yet."),
        ("broken", "No candidate could be judged."),
    ],
)
def test_the_headline_says_what_came_out(name: str, expected: str) -> None:
    assert headline(SAMPLES[name]) == expected


def test_the_next_step_is_that_of_the_most_hopeful_candidate() -> None:
    assert next_step(SAMPLES["none"]) == "int8-w8a8: Do as the sample says."
    assert next_step(SAMPLES["broken"]).startswith("Mend what the candidates failed by")


def test_an_unconfirmed_candidate_shows_what_the_confirmation_said() -> None:
    rows = ladder_table(SAMPLES["confirmed"])
    assert rows[3].endswith("| ACCEPT |")
    assert rows[4].endswith("| INCONCLUSIVE |")
    assert "int4\\-gptq" not in ladder_markdown(SAMPLES["confirmed"])  # readable in a log as well


@pytest.mark.parametrize("name", SAMPLES)
def test_the_terminal_view_keeps_to_80_columns(name: str) -> None:
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, no_color=True, force_terminal=False)
    console.print(ladder_view(SAMPLES[name], Path("ladder.html"), None, ("a note",)), crop=False)
    text = buffer.getvalue()
    assert text.startswith(SAMPLES[name].verdict)
    assert max(map(len, text.splitlines())) <= 80
    for each in SAMPLES[name].candidates:
        assert each.recipe in text
    assert ("headroom to the margin" in text) == bool(text_plot(SAMPLES[name].candidates))
    assert "a note" in text
