"""The HTML page, read back with a parser: structure, order, and what untrusted text can do to it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest
from report_samples import Sample, sample, unmeasured

from evaluators.turn import Reply, ToolCall
from pipeline.errors import RecordError, Verdict
from pipeline.reporting import flips as flips_module
from pipeline.reporting.record import Flip, FlipSide

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</div></article></main><h1>ACCEPT</h1>",
    "</style><style>*{display:none}",
    "]]>--><!--",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;b&gt; &amp; &#60;i&#62;",
    "\u202etpecca\u202c",
    "null\x00byte\x1b[2J\ud800",
    "x" * 50_000,
]
ALLOWED_TAGS = set(
    re.findall(
        r"\w+",
        "html head meta title style body header main footer nav section article h1 h2 h3 h4 p a ul li div span strong "
        "em code pre br dl dt dd table thead tbody tr th td details summary del ins "
        "svg desc g rect line circle path text",
    )
)
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Collects elements with their attributes, and checks that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


def hostile_sample(text: str) -> Sample:
    """A sample with ``text`` wherever a model, a golden set or a user could put it."""
    made = sample(Verdict.REJECT)
    made.decision["reasons"][0]["text"] = text
    made.decision["next_step"] = text
    made.decision["baseline"] |= {"source": text, "revision": text, "digest": text}
    made.decision["engine"] |= {"notes": [text], "flags": [text], "environment": {text: text}, "device": text}
    made.decision["golden_set"]["name"] = text
    made.decision["candidate"]["recipe"] = {"name": text, text: text}
    made.decision["slices"][0]["slice"] = text
    made.decision["metrics"][0]["metric"] = text
    made.decision["inputs"] = {text: text}
    made.decision["times"] = {text: text}
    first = made.flips[0]
    turn_id = first.turn_id + text
    made.decision["critical"]["failed"] = [turn_id, text]
    side = FlipSide(label=text, evidence=(text, text))
    flip = Flip(
        turn_id=turn_id, metric=text, direction="pass_to_fail", critical=True, scenario=text, slices=(text,),
        baseline=side, candidate=side,
    )  # fmt: skip
    turn = made.turns[first.turn_id]
    expect = replace(turn.expect, say=((text,),), never_say=(text,), forbidden_tools=frozenset({text}))
    messages = tuple({"role": text, "content": text} for _ in range(2))
    system = {"role": "system", "content": text}
    made.turns[turn_id] = replace(
        turn, id=turn_id, scenario=text, slices=(text,), expect=expect, messages=(system, *messages)
    )
    call = ToolCall(text, text)
    made.baseline[turn_id] = Reply(turn_id, text, (call,), text, 3)
    made.candidate[turn_id] = Reply(turn_id, "other " + text, (call, call), text, 3)
    run = replace(made.run, model=text, recipe=text, command=text, notes=(text,))
    return replace(made, run=run, flips=[flip, *made.flips[:3]])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_untrusted_text_stays_text(text: str) -> None:
    html = hostile_sample(text).page()
    html.encode("utf-8")
    page = Page(html)
    assert {tag for tag, _ in page.elements} <= ALLOWED_TAGS
    assert len(page.of("h1")) == 1
    assert len(page.of("style")) == 1
    for _, attrs in page.elements:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "action", "srcdoc")]
        assert (attrs.get("href") or "#").startswith("#")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", html)
    if len(text) < 100 and text.isprintable():
        assert page.text.count(text) >= 20
    if text.startswith("{{"):
        assert "49" not in page.text.split("Run it again")[1].split("Sides")[0]


def test_a_failed_reply_is_shown_as_no_answer() -> None:
    made = sample(Verdict.REJECT)
    first = made.flips[0].turn_id
    made.candidate[first] = Reply(first, error="HTTP 500: <b>out of memory</b>")
    page = Page(made.page())
    assert "HTTP 500: <b>out of memory</b>" in page.text
    assert "no answer" in page.text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_verdict_and_its_reasons_come_first(verdict: Verdict) -> None:
    made = sample(verdict)
    page = Page(made.page())
    body = page.text[page.text.index("Release gate for quantized models") :]
    assert body.index(verdict.value) < 250
    for reason in made.decision["reasons"]:
        assert reason["text"] in body[:2500]
    order = ["Why", "Next step", "What was tested", "Risk of shipping", "Metrics", "Slices", "Critical turns"]
    html = made.page()
    headings = [found[1] for found in re.finditer(r"<h[123][^>]*>([^<]+)", html)]
    places = [headings.index(name) for name in order]
    assert places == sorted(places)


def test_loads_nothing_and_runs_nothing() -> None:
    html = sample(Verdict.REJECT).page()
    page = Page(html)
    policy = [meta["content"] for meta in page.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")  # type: ignore[union-attr]
    assert "script-src" not in policy[0]  # type: ignore[operator]
    assert not page.of("script") and not page.of("link") and not page.of("img") and not page.of("iframe")
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", html)


def test_every_local_link_has_its_target_and_ids_are_unique() -> None:
    page = Page(sample(Verdict.REJECT).page())
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {str(attrs["href"])[1:] for attrs in page.of("a")}
    assert links <= set(ids)
    named = {n for _, attrs in page.elements for n in (attrs.get("aria-labelledby") or "").split()}
    assert named <= set(ids)


def test_tables_headings_and_language_serve_a_screen_reader() -> None:
    page = Page(sample(Verdict.REJECT).page())
    assert page.of("html")[0]["lang"] == "en-GB"
    assert page.of("th") and all("scope" in th for th in page.of("th"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_flips_come_worst_first() -> None:
    made = sample(Verdict.REJECT)
    html = made.page()
    order = re.findall(r'<article class="flip (\w+)".*?</h3>', html, flags=re.DOTALL)
    heads = re.findall(r'<article class="flip .*?</h3>', html, flags=re.DOTALL)
    assert order == sorted(order, key=lambda kind: kind != "reject")
    critical = ["critical</span>" in head and "got worse" in head for head in heads]
    assert critical == sorted(critical, reverse=True)
    assert sum(critical) == len(made.decision["critical"]["failed"])


def test_words_that_differ_are_marked() -> None:
    html = sample(Verdict.REJECT).page()
    assert "<del>&#34;SO-48213&#34;,</del>" in html
    assert "<ins>&#34;SO-48231&#34;,</ins>" in html


def test_a_large_run_is_cut_to_a_small_page(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sample(Verdict.REJECT)
    flipped = len({flip.turn_id for flip in made.flips})
    assert flipped > flips_module.TURNS_SHOWN
    html = made.page()
    assert html.count("<article") == flips_module.TURNS_SHOWN
    assert f"{flipped - flips_module.TURNS_SHOWN} more flipped turns are not shown" in html
    assert "flips.jsonl" in html
    assert len(html) < 1_000_000
    monkeypatch.setattr(flips_module, "PAGE_CHARACTERS", 10_000)
    assert 1 <= made.page().count("<article") < 30


def test_long_replies_and_histories_are_cut_and_say_so() -> None:
    made = sample(Verdict.REJECT)
    first = made.flips[0].turn_id
    turn = made.turns[first]
    made.turns[first] = replace(turn, messages=(turn.messages[0], *([{"role": "user", "content": "y" * 9000}] * 40)))
    made.candidate[first] = Reply(first, "z" * 9000)
    page = Page(replace(made, flips=made.flips[:1]).page())
    assert "[... 5,000 more characters]" in page.text
    assert "[... 7,500 more characters]" in page.text
    assert "10 earlier messages are not shown" in page.text
    assert "40 messages" in page.text  # and the one that the reply answers


def test_the_system_text_is_kept_once() -> None:
    made = sample(Verdict.REJECT)
    assert made.page().count("Never give legal or medical advice") == 1


def test_figures_say_where_they_come_from() -> None:
    page = Page(sample(Verdict.ACCEPT).page())
    kinds = {attrs.get("class") for attrs in page.of("span")}
    assert "kind" in kinds
    for kind in ("measured", "declared", "estimated"):
        assert kind in page.texts


@pytest.mark.parametrize("missing", ["turns", "baseline", "candidate"])
def test_a_flip_of_other_inputs_is_an_error(missing: str) -> None:
    made = sample(Verdict.REJECT)
    del getattr(made, missing)[made.flips[0].turn_id]
    with pytest.raises(RecordError, match=re.escape(made.flips[0].turn_id)):
        made.page()


def _colours(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})\b", css))


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_contrast_meets_wcag_aa(scheme: str) -> None:
    css = (resources.files("pipeline.reporting") / "templates" / "report.css").read_text(encoding="utf-8")
    parts = {"light": css.split("@media")[0], "dark": css.split("@media (prefers-color-scheme: dark)")[1]}
    parts["print"] = css.split("@media print")[1]
    colours = _colours(parts[scheme].split("@media")[0])
    pairs = [(ink, paper) for ink in ("ink", "soft", "link") for paper in ("paper", "well")]
    for verdict in ("accept", "reject", "inconclusive", "invalid"):
        pairs += [(verdict, "paper"), (verdict, f"{verdict}-wash"), ("ink", f"{verdict}-wash")]
    pairs += [("ink", "mark-old"), ("ink", "mark-new")]
    for text, paper in pairs:
        assert _contrast(colours[text], colours[paper]) >= 4.5, (text, paper)


def test_a_run_that_replayed_nothing_makes_a_page_that_claims_nothing() -> None:
    page = Page(unmeasured().page())
    text = " ".join(page.text.split())
    assert "Nothing was replayed: the run ended before" in text
    assert "none was made" in text
    assert "No turn flipped." in text
    assert "gave no usable answer" not in text


def test_the_noise_floor_stands_in_the_figures() -> None:
    made = sample(Verdict.REJECT)
    assert "Noise floor" not in Page(made.page()).text
    noise = {"repeats": 1, "compared": 400, "flips": 8, "flip_rate": 0.02, "excess_flips": 4.0, "reach": 0.01}
    made.decision["metrics"][0]["noise"] = noise
    text = " ".join(Page(made.page()).text.split())
    assert "differs from itself on 8 of 400 turns" in text
    assert made.decision["to_change"] in text


def test_what_a_reply_answers_is_open_and_what_came_before_is_folded() -> None:
    made = sample(Verdict.REJECT)
    first = made.flips[0].turn_id
    talk = [
        ("user", "earlier question"),
        ("assistant", "earlier answer"),
        ("user", "last question"),
        ("tool", "found it"),
    ]
    messages = tuple({"role": role, "content": text} for role, text in talk)
    made.turns[first] = replace(made.turns[first], messages=messages)
    article = replace(made, flips=made.flips[:1]).page().split("<article")[1].split("</article>")[0]
    folded, shown = article.split("</details>")
    assert "earlier question" in folded and "earlier answer" in folded
    assert "last question" in shown and "found it" in shown


def test_a_hyphen_is_no_minus_and_what_stays_as_it_was_is_not_better() -> None:
    made = sample(Verdict.ACCEPT)
    row = {"better": 0.1, "worse": 0.05, "declared": False, "counted": True, "note": "", "lower": 0, "upper": 0}
    row |= {"name": "kv_tokens", "state": "held", "baseline": [5e4], "candidate": [5e4], "change": 0}
    page = replace(made, decision=made.decision | {"resources": [row]}).page()
    assert "KV-cache pool: 50,000 tokens \u2192 50,000 tokens, unchanged." in page
    assert re.search("<td>\u2212\\d", page)  # figures keep their minus


def test_commands_in_the_next_step_look_like_commands() -> None:
    made = sample(Verdict.REJECT)
    made.decision["next_step"] = "Run `quant-gate diagnose`, not `<b>it</b>`; a lone ` stays."
    html = made.page()
    assert "Run <code>quant-gate diagnose</code>, not <code>&lt;b&gt;it&lt;/b&gt;</code>; a lone ` stays." in html
