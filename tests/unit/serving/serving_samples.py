"""Turns for the serving tests."""

from __future__ import annotations

from evaluators.turn import Behaviour, Expectation, Turn

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


def make_turn(text: str, tools: tuple[dict[str, object], ...] = ()) -> Turn:
    """A turn whose last message is ``text``, which is also its id."""
    messages = ({"role": "system", "content": "Be kind."}, {"role": "user", "content": text})
    return Turn(text, text, text, (), messages, tools, Expectation(Behaviour.ANSWER), {"role": "assistant"})
