"""The page of a ladder: self-contained, without script, like the reports of its candidates, to which it links."""

from __future__ import annotations

from pipeline.reporting import words
from pipeline.reporting.html import page_environment
from pipeline.reporting.ladder import phrases
from pipeline.reporting.ladder.facts import Against, LadderRecord
from pipeline.reporting.ladder.pareto import pareto
from pipeline.visible import visible


def render(record: LadderRecord) -> str:
    """Render the page; it links to ``../RUN/report.html`` of each candidate's gate run."""
    judged = next((each for each in record.judgements if each.replayed), None)
    page = (
        page_environment()
        .get_template("ladder.html.j2")
        .render(
            record=record,
            judged=judged,
            rows=judged.metrics if judged else (),
            headline=phrases.headline(record),
            notes=phrases.notes(record),
            next_step=phrases.next_step(record),
            plots={
                against.value: [
                    pareto(record.candidates, against, ident=f"{against}-{kind}", narrow=kind == "n") for kind in "wn"
                ]
                for against in Against
            },
            phrases=phrases,
            words=words,
        )
    )
    return visible(page)
