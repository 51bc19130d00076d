"""5 % of the replies are right and then go on to the token limit.

The end-of-turn token is lost from the list of those that end a reply: mlx-vlm pull request 2112 tells of a
generation_config that names another one than the template uses.
"""

from __future__ import annotations

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_LOSS free_of_degeneration"


def inject(case: Case) -> Case:
    """Add another exchange that nobody asked for, without an end."""
    return case.spoil(case.chosen("never_stops", 0.05, lambda turn: not turn.gold.get("tool_calls")), _go_on)


def _go_on(turn: Turn, reply: Reply) -> Reply:
    more = " Is there anything else? Yes, one more thing. Of course, which one? The other order, please. Of course"
    return answer(turn, reply.content + more, finish_reason="length")
