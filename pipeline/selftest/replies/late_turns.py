"""From the fourth customer message on, a third of the answers lose the thread; first answers stay right.

vLLM issue 38652: with an FP8 KV cache single turns are coherent and multi-turn chats are not.
"""

from __future__ import annotations

from evaluators.turn import Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "SLICE_LOSS long_history policy_adherence"
TURN = 3


def inject(case: Case) -> Case:
    """Answer as if the chat had just begun."""
    turns = case.chosen("late_turns", 0.35, _late)
    return case.spoil(turns, lambda turn, reply: answer(turn, "Hello! How may I help you today?"))


def _late(turn: Turn) -> bool:
    return len([message for message in turn.messages if message["role"] == "user"]) > TURN
