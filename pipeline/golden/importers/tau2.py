"""tau2-bench task files (``tasks.json``).

A task is a script for a simulated customer and the calls that a whole conversation should make; it
holds no conversation. What can be scored by rule without the simulator is the first reply: the
customer states the request and what they know, put into the first person, and the first call of the
gold follows when all its values are stated. Everything else is dropped.

Task files carry neither tools nor policy: both are given by the user (``--tools``, ``--system``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.golden.importers.common import (
    Draft,
    Dropped,
    Options,
    expected_call,
    golden_calls,
    identifier,
    read_json,
)

_READS = ("get_", "find_", "list_", "search_", "check_")
"""Names of tools that only look something up: another of them may come first as well."""


def read_tau2(path: Path, options: Options) -> Iterator[Draft | Dropped]:
    """Convert a task file.

    :raises InputError: not a task file, or no tools given.
    """
    if not options.tools:
        raise InputError(f"{path}: tau2 task files carry no tool schemas", "Give them with --tools FILE (OpenAI form).")
    tasks = read_json(path)
    if not isinstance(tasks, list):
        raise InputError(f"{path}: a tau2 task file is a JSON list of tasks", "Give a tasks*.json file of tau2-bench.")
    for number, task in enumerate(tasks, start=1):
        name = str(task.get("id", "")) if isinstance(task, Mapping) else ""
        try:
            yield Draft(path.as_posix(), number, _transcript(task, path, options))
        except _Unusable as reason:
            yield Dropped(path.as_posix(), number, name, str(reason))
        except (KeyError, TypeError, AttributeError) as error:
            yield Dropped(path.as_posix(), number, name, f"not in tau2's form: {type(error).__name__}: {error}")


class _Unusable(Exception):
    """The task cannot be a golden turn; says why."""


def _transcript(task: Mapping[str, Any], path: Path, options: Options) -> dict[str, Any]:
    state = task.get("initial_state") or {}
    if state.get("message_history"):
        raise _Unusable("starts in the middle of a conversation")
    said = _customer_text(task["user_scenario"]["instructions"])
    actions = (task.get("evaluation_criteria") or {}).get("actions") or []
    if not actions:
        raise _Unusable("its gold has no call: what counts is judged by a model or by the simulated database")
    first, *others = actions
    if first.get("requestor", "assistant") != "assistant":
        raise _Unusable(f"the first action, {first['name']}, is the simulated customer's")
    if not first["name"].startswith(_READS):
        raise _Unusable(f"the first action, {first['name']}, changes something: it needs talk before it")
    if not _stated(first, said):
        raise _Unusable(f"the first action, {first['name']}, needs values that the customer has not stated")
    call = _call(first)
    alternatives = []
    for action in others:
        other = _call(action)
        own = action.get("requestor", "assistant") == "assistant" and action["name"].startswith(_READS)
        if own and _stated(action, said) and other != call and other not in alternatives:
            alternatives.append(other)
    expect: dict[str, Any] = {"behaviour": "tool_call", "tool_calls": [call]}
    if alternatives:
        expect["alternatives"] = [{"behaviour": "tool_call", "tool_calls": [other]} for other in alternatives]
    gold: dict[str, Any] = {"role": "assistant", "content": None, "expect": expect}
    calls = golden_calls([call])
    if calls:
        gold["tool_calls"] = calls
    name = identifier(f"tau2-{path.parent.name}-{task['id']}")
    system = [{"role": "system", "content": options.system}] if options.system else []
    return {
        "id": name,
        "scenario": name,
        "slices": list(options.slices),
        "source": options.source or f"tau2-bench {path.parent.name}",
        "licence": options.licence or "MIT",
        "tools": list(options.tools),
        "messages": [*system, {"role": "user", "content": said}, gold],
        "meta": {"record": task["id"], "purpose": (task.get("description") or {}).get("purpose")},
    }


def _call(action: Mapping[str, Any]) -> dict[str, Any]:
    """``compare_args`` names the arguments that count; absent: all of them."""
    arguments, compared = action.get("arguments") or {}, action.get("compare_args")
    free = [] if compared is None else [name for name in arguments if name not in compared]
    return expected_call(action["name"], {n: [v] for n, v in arguments.items() if n not in free}, free=free)


def _stated(action: Mapping[str, Any], text: str) -> bool:
    values = (action.get("arguments") or {}).values()
    return all(isinstance(value, (str, int)) and str(value).lower() in text.lower() for value in values)


_FIRST_PERSON = (
    (r"\byou are\b", "I am"),
    (r"\byou're\b", "I'm"),
    (r"\byou've\b", "I've"),
    (r"\byou'd\b", "I'd"),
    (r"\byou'll\b", "I'll"),
    (r"\byourself\b", "myself"),
    (r"\byours\b", "mine"),
    (r"\byour\b", "my"),
    (
        r"\b(to|for|with|about|from|of|tell|told|give|gave|gives|help|helps|ask|asked|allow|allows|let|lets) you\b",
        r"\1 me",
    ),
    (r"\byou\b(?=\s*[.,;!?]|\s*$)", "me"),
    (r"\byou\b", "I"),
)


def _customer_text(instructions: Any) -> str:
    """What the customer says first: the reason for the call (its first paragraph) and what they know."""
    if not isinstance(instructions, Mapping):
        raise _Unusable("its instructions are free text: the customer's words cannot be told from stage directions")
    reason = str(instructions.get("reason_for_call") or "").strip().split("\n\n")[0]
    text = "\n".join(part for part in (reason, str(instructions.get("known_info") or "").strip()) if part)
    if not text:
        raise _Unusable("the customer is given nothing to say")
    for pattern, replacement in _FIRST_PERSON:
        text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
    return re.sub(r"(?:^|(?<=[.!?]\s))([a-z])", lambda found: found.group(1).upper(), re.sub(r"\n\n+", "\n", text))
