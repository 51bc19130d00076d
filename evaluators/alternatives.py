"""The answers that a turn allows: which one a reply is read as is chosen once, for all metrics together.

A reply that takes the calls of one allowed answer and the words of another is none of them. So every
allowed answer is made a turn of its own (:func:`options`); evaluators score a reply against one of
these and know of no alternatives, and :func:`evaluators.evaluate` keeps the one that fits best.
"""

from __future__ import annotations

from dataclasses import replace

from evaluators.turn import Behaviour, Expectation, Turn


def expectations(turn: Turn) -> tuple[Expectation, ...]:
    """The turn's expectation and its alternatives, the main one first: what decides which metrics apply."""
    return (turn.expect, *turn.expect.alternatives)


def options(turn: Turn) -> tuple[Turn, ...]:
    """The turn once for each answer that it allows, without alternatives; the main expectation first.

    What the main expectation forbids is forbidden in each. An alternative that describes nothing (no
    calls, no ``say``, and no refusal, which is known by its words) is left out: any text would meet it.
    """
    main = replace(turn.expect, alternatives=())
    others = (_beside(main, other) for other in turn.expect.alternatives if describes_something(other))
    return tuple(replace(turn, expect=expect) for expect in (main, *others))


def describes_something(expectation: Expectation) -> bool:
    """Whether a reply can be told from others by ``expectation`` alone."""
    return bool(expectation.tool_calls or expectation.say) or expectation.behaviour is Behaviour.REFUSE


def _beside(main: Expectation, other: Expectation) -> Expectation:
    return replace(
        other,
        forbidden_tools=main.forbidden_tools | other.forbidden_tools,
        forbidden_calls=(*main.forbidden_calls, *other.forbidden_calls),
        never_say=(*main.never_say, *other.never_say),
        critical=main.critical,
    )
