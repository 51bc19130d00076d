"""Token ids of the calibration conversations, in the chat template that will be served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import worker_io
from transformers import AutoTokenizer


def as_rendered_by_the_engine(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copy of ``messages`` with tool-call arguments parsed, as vLLM hands them to a template."""
    copies = json.loads(json.dumps(messages))
    for message in copies:
        for call in message.get("tool_calls") or []:
            arguments = call["function"].get("arguments")
            if isinstance(arguments, str):
                call["function"]["arguments"] = json.loads(arguments) if arguments else {}
    return copies


def calibration_tokens(job: dict[str, Any]) -> list[list[int]]:
    """Ids of each conversation, cut to ``max_tokens``; as many conversations as make ``enough_tokens``.

    How many were cut is said. Where nothing but the same text is left of all of them, that is refused.
    """
    tokenizer = AutoTokenizer.from_pretrained(job["checkpoint"])
    ids: list[list[int]] = []
    cut, limit = 0, job["max_tokens"]
    for line in Path(job["samples"]).read_text(encoding="utf-8").rstrip("\n").split("\n"):  # others may stand in texts
        if job["enough_tokens"] is not None and sum(map(len, ids)) >= job["enough_tokens"]:
            break
        sample = json.loads(line)
        text = tokenizer.apply_chat_template(
            as_rendered_by_the_engine(sample["messages"]),
            tools=sample.get("tools") or None,
            chat_template=job["template"],
            tokenize=False,
        )
        whole = tokenizer(text, add_special_tokens=False)["input_ids"]
        cut += len(whole) > limit
        ids.append(whole[:limit])
    if cut:
        worker_io.say(f"{cut} of {len(ids)} calibration conversations are cut to their first {limit} tokens")
    if cut > 1 and all(each == ids[0] for each in ids):
        worker_io.refuse(
            f"calibration text: the first {limit} tokens of all {cut} conversations are the same, "
            "and the recipe reads no more of them",
            "Raise `calibration: max_tokens` in the recipe above the length of the system prompt and the tools.",
        )
    return ids
