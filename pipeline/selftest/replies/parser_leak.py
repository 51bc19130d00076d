"""A tenth of the tool calls stay in the text, as the model wrote them.

The opening tag is one token in the baseline's generations and several in the candidate's, or the parser is another
model's: the server finds no call and hands the markup to the customer (vLLM issue 17161).
"""

from __future__ import annotations

import json

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_LOSS tool_call_correct"


def inject(case: Case) -> Case:
    """Write the calls into the content, in Hermes form."""
    return case.spoil(case.chosen("parser_leak", 0.10, lambda turn: bool(turn.expect.tool_calls)), _leak)


def _leak(turn: Turn, reply: Reply) -> Reply:
    calls = [f'<tool_call>\n{{"name": {json.dumps(c.name)}, "arguments": {c.arguments}}}' for c in reply.tool_calls]
    return answer(turn, "\n".join(calls) + "\n</tool_call>")
