"""YAML read as nodes, for their lines: what is wrong with a document is an error, however it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

MOST_NODES = 100_000
"""Keys, values and lists of one document with its aliases written out: a few lines can stand for billions."""

MOST_LEVELS = 100

_FAULTS = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)
"""What PyYAML lets through: an impossible date, an empty number, a letter beyond Unicode."""


def compose(text: str) -> yaml.Node | None:
    """The document as nodes; None where it is empty.

    :raises yaml.YAMLError: not YAML, or too large or too deep once its aliases are written out.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
    except _FAULTS as error:
        raise yaml.YAMLError(str(error)) from error
    if node is not None:
        _measure(node, {})
    return node


def _measure(node: yaml.Node, known: dict[yaml.Node, tuple[int, int] | None]) -> tuple[int, int]:
    """Nodes and levels of ``node``; each is looked at once, so an alias costs nothing."""
    if node in known:
        size = known[node]
        if size is None:
            raise yaml.YAMLError("an alias stands within what it is an alias of")
        return size
    known[node] = None
    inside = [_measure(child, known) for child in _children(node)]
    nodes, levels = 1 + sum(count for count, _ in inside), 1 + max((level for _, level in inside), default=0)
    if nodes > MOST_NODES:
        raise yaml.YAMLError(f"more than {MOST_NODES:,} values, with the aliases written out")
    if levels > MOST_LEVELS:
        raise yaml.YAMLError(f"nested too deeply: more than {MOST_LEVELS} levels")
    known[node] = nodes, levels
    return nodes, levels


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def values(node: yaml.Node | None) -> Any:
    """The values of a composed document; None where it is empty. Writes merged mappings (``<<``) out in ``node``.

    :raises yaml.YAMLError: an unknown tag, a key that is no scalar, or an impossible value.
    """
    try:
        # PyYAML's own loader would read the text a second time.
        return None if node is None else yaml.constructor.SafeConstructor().construct_document(node)
    except _FAULTS as error:
        raise yaml.YAMLError(str(error)) from error


def repeated(node: yaml.Node | None) -> Iterator[yaml.Node]:
    """Keys that stand twice in one mapping, where YAML readers silently take the last."""
    waiting, met = [node] if node is not None else [], {node}
    while waiting:
        following = waiting.pop()
        seen = set()
        for key, _ in following.value if isinstance(following, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key
                seen.add(key.value)
        fresh = [child for child in dict.fromkeys(_children(following)) if child not in met]
        met.update(fresh)
        waiting += reversed(fresh)


def line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """Line (from 1) of the deepest part of ``location`` that the document has."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in location:
        following: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                    following, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            following = node.value[part]
            line = following.start_mark.line + 1
        if following is None:
            break
        node = following
    return line
