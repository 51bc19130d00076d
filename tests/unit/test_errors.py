"""The error tree is the one drawn in its docstring, and only a proved ACCEPT ends with 0."""

from __future__ import annotations

import re

import pytest

from pipeline import errors
from pipeline.errors import VERDICT_EXIT_CODES, GateError, Verdict

NODE = re.compile(r"^(?P<lead>[│├└─ ]*)(?P<name>[A-Z]\w+) +(exit +(?P<code>\d+))?")


def drawn() -> dict[str, tuple[str | None, int]]:
    """Class name to (parent, exit code), as the docstring of the module draws them."""
    tree: dict[str, tuple[str | None, int]] = {}
    above: list[tuple[int, str]] = []
    text = (errors.__doc__ or "").split("::", 1)[1].split("A verdict", 1)[0]
    for line in filter(str.strip, text.splitlines()):
        node = NODE.match(line.removeprefix("    "))
        assert node, line
        depth = len(node["lead"])
        while above and above[-1][0] >= depth:
            above.pop()
        parent = above[-1][1] if above else None
        code = int(node["code"]) if node["code"] else tree[parent or ""][1]
        tree[node["name"]] = (parent, code)
        above.append((depth, node["name"]))
    return tree


def classes() -> list[type[GateError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GateError)]


def test_the_drawing_is_the_tree() -> None:
    actual = {
        kind.__name__: (None if kind is GateError else kind.__base__.__name__, kind.exit_code)  # type: ignore[union-attr]
        for kind in classes()
    }
    assert drawn() == actual
    assert len(actual) == 17


def test_no_error_ends_like_a_verdict_that_someone_may_act_on() -> None:
    assert {kind.exit_code for kind in classes()} == {2, 30, 130}
    assert VERDICT_EXIT_CODES == {
        Verdict.ACCEPT: 0,
        Verdict.REJECT: 10,
        Verdict.INCONCLUSIVE: 20,
        Verdict.INVALID: 30,
    }


@pytest.mark.parametrize("kind", classes())
def test_an_error_carries_message_and_remedy(kind: type[GateError]) -> None:
    error = kind("what", "do")
    assert (str(error), error.message, error.remedy) == ("what", "what", "do")
    assert kind("what").remedy == ""
