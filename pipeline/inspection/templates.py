"""Checks of the chat template: golden transcripts are rendered to the same token ids on both sides.

Templates are run as transformers runs them (``transformers.utils.chat_template_utils``): sandboxed, with ``tojson``
that keeps characters as they are, ``raise_exception``, ``strftime_now`` and the ``generation`` block.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from evaluators.turn import Turn
from pipeline.errors import ModelError
from pipeline.inspection.artifact import Artifact, listed, read_json
from pipeline.inspection.findings import Finding, Severity, finding
from pipeline.inspection.tokens import load, same_tokenizer
from pipeline.quantizers.checkpoint import own_template

COPY = "Copy chat_template.jinja (or tokenizer_config.json) from the baseline."
DATE = "2026-01-01"
"""What templates are told the date is, the same on both sides."""


def chat_template(artifact: Artifact, turns: Sequence[Turn], override: str | None = None) -> Iterator[Finding]:
    """The candidate has the baseline's template, or one that renders every golden turn to the same tokens.

    :param override: text of the template that the serving settings name, which both sides are then served with.
    """
    before, after = own_template(artifact.baseline), own_template(artifact.candidate)
    if before and not after:
        yield finding(
            "template-missing",
            "chat_template.jinja",
            "the baseline's chat template was not saved",
            COPY,
            severity=Severity.WARNING if override else None,
        )
    if after and not before and not override:
        yield finding(
            "template-differs", "chat_template.jinja", "the baseline has no chat template, the candidate has", COPY
        )
    first, second = override or before, override or after
    if not first or not second:
        return
    specials = tuple(special_tokens(side) for side in (artifact.baseline, artifact.candidate))
    if first == second and specials[0] == specials[1]:
        return  # what the tokenizers make of the same text is looked at with them
    differing, broken = [], []
    one, other = (None, None) if same_tokenizer(artifact) else (load(artifact.baseline), load(artifact.candidate))
    for turn in turns:
        texts = [
            _rendered(template, turn, special) for template, special in zip((first, second), specials, strict=True)
        ]
        if isinstance(texts[1], Exception) and not isinstance(texts[0], Exception):
            broken.append(f"{turn.id}: {texts[1]}")
        elif texts[0] != texts[1] and not isinstance(texts[0], Exception):
            if one and other and _ids(one, texts[0]) == _ids(other, texts[1]):
                continue
            differing.append(turn.id)
    for ids_or_errors, what in ((differing, "are rendered differently"), (broken, "cannot be rendered")):
        if ids_or_errors:
            yield finding(
                "template-differs",
                "chat_template.jinja",
                f"{len(ids_or_errors)} of {len(turns)} golden turns {what}: {listed(ids_or_errors)}",
                COPY,
                {"turns": len(turns), "differing": len(ids_or_errors)},
            )
    if not turns and first != second:
        yield finding(
            "template-differs", "chat_template.jinja", "the template's text differs; no turns to try it on", COPY
        )


def _ids(tokenizer: Tokenizer, text: str | Exception) -> list[int]:
    ids: list[int] = tokenizer.encode(str(text), add_special_tokens=False).ids
    return ids


def special_tokens(folder: Path) -> dict[str, str]:
    """Special tokens by name, as templates see them."""
    found = {**read_json(folder / "special_tokens_map.json"), **read_json(folder / "tokenizer_config.json")}
    tokens = {k: v.get("content") if isinstance(v, dict) else v for k, v in found.items() if k.endswith("_token")}
    return {key: value for key, value in tokens.items() if isinstance(value, str)}


def _rendered(template: str, turn: Turn, specials: Mapping[str, str]) -> str | Exception:
    try:
        return render(template, turn.messages, turn.tools, specials)
    except (jinja2.TemplateError, ModelError, TypeError, ValueError, KeyError, AttributeError) as error:
        return error


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    specials: Mapping[str, str] | None = None,
) -> str:
    """The prompt that a template makes of a conversation, for the next reply.

    Arguments of tool calls are given as objects, as the engine gives them.
    """
    given = [_with_arguments(message) for message in messages]
    return _compiled(template).render(
        messages=given, tools=list(tools) or None, documents=None, add_generation_prompt=True, **(specials or {})
    )


def _with_arguments(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    made = []
    for call in calls:
        function = dict(call.get("function", {}))
        if isinstance(function.get("arguments"), str):
            function["arguments"] = json.loads(function["arguments"] or "{}")
        made.append({**call, "function": function})
    return {**message, "tool_calls": made}


class _Generation(jinja2.ext.Extension):
    """``{% generation %}`` marks what an assistant said, for training; its content is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - the type that jinja2 declares

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


@functools.lru_cache(maxsize=4)
def _compiled(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: DATE
    return environment.from_string(template)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
