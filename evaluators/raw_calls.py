"""Finds tool calls that a model wrote but the server could not read, left as text in ``content``.

Such a reply is a damaged call, not an abstention: quantization typically breaks a bracket or a
marker, and counting that as "no call" would hide it. The markers are those that the tool parsers
of vLLM 0.32 look for; besides them a call is recognised as a JSON (or Python) object that names an
offered tool and has arguments, complete or cut off, fenced or not, and as ``tool(argument=...)``.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_MARKER = re.compile(
    r"""
      </?[\w:|]*(?:tool|function)_calls?\b     # Hermes, Qwen, Granite, Longcat, MiniMax, Gemma, ...
    | </?(?:function|parameter)[=>] | <invoke\b | <arg_(?:key|value)>   # Qwen-Coder, GLM, DeepSeek V3.2
    | \[/?TOOL_(?:CALLS?|REQUEST)\]            # Mistral
    | <\|python_(?:tag|start|end)\|>           # Llama
    | <[|｜]tool                               # DeepSeek, Kimi, LFM
    | <\|action_start\|> | <\|tools_prefix\|> | <\|plamo: | functools\[   # InternLM, Apertus, PLaMo, Phi
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ARGUMENTS_KEY = re.compile(r"""["'](?:arguments|parameters|args)["']\s*:""", re.IGNORECASE)
_OPENS_LIKE_JSON = re.compile(r"\s*(?:```\w*\s*)?\[?\s*\{")


def find_raw_call(content: str, tools: Collection[str]) -> str | None:
    """The piece of ``content`` that shows an unread tool call, or None.

    :param tools: names of the tools offered.
    """
    marker = _MARKER.search(content)
    if marker:
        return content[marker.start() : marker.start() + 120]
    if not tools:
        return None
    names = "|".join(sorted(map(re.escape, tools), key=len, reverse=True))
    named = re.search(rf"""["'](?:name|tool|tool_name|function)["']\s*:\s*["'](?:{names})["']""", content)
    if named and (_ARGUMENTS_KEY.search(content) or _OPENS_LIKE_JSON.match(content)):
        return content[named.start() : named.start() + 120]
    written = re.search(
        rf"""^[\s\[`]*(?:\w+\s*=\s*)?(?:functions\.)?(?:{names})\s*(?:\(\s*(?:\)|\w+\s*=|["'{{])|:?\s*\{{\s*["'])""",
        content,
        re.MULTILINE,
    )
    tag = written or re.search(rf"</?(?:{names})\b[^>\n]*>", content)
    return content[tag.start() : tag.start() + 120].strip() if tag else None
