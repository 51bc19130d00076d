"""The requests of a load test: golden turns as the engine would be asked, with replies as long as the golden ones.

Prompts are rendered with the checkpoint's template, so system text and tools are the shared prefix that they are in
production. A third each is short, medium and long; they are dealt in turn, so that every level has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.turn import Turn
from pipeline.digests import digest_of
from pipeline.errors import ModelError
from pipeline.inspection.templates import render, special_tokens
from pipeline.inspection.tokens import load
from pipeline.quantizers.checkpoint import Checkpoint

CLASSES = ("short", "medium", "long")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: the text of its prompt, and the tokens of prompt and reply."""

    turn_id: str
    length: str
    """One of :data:`CLASSES`."""
    prompt: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order in which they are sent; a level takes as many as it needs, from the first on."""

    requests: tuple[Request, ...]

    @property
    def digest(self) -> str:
        """Identity of prompts and lengths."""
        return digest_of([[request.prompt, request.output_tokens] for request in self.requests])

    def write(self, path: Path, count: int) -> None:
        """The first ``count`` requests, again from the start where there are fewer, in the form of `bench serve`."""
        lines = []
        for number in range(count):
            request = self.requests[number % len(self.requests)]
            lines.append(json.dumps({"prompt": request.prompt, "output_tokens": request.output_tokens}))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def facts(self) -> dict[str, Any]:
        """How many and how long, by class, as JSON values."""
        found: dict[str, Any] = {"digest": self.digest}
        for name in CLASSES:
            some = [request for request in self.requests if request.length == name]
            found[name] = {
                "requests": len(some),
                "prompt_tokens": [min(r.prompt_tokens for r in some), max(r.prompt_tokens for r in some)],
                "output_tokens": [min(r.output_tokens for r in some), max(r.output_tokens for r in some)],
            }
        return found


def make_workload(checkpoint: Checkpoint, turns: Sequence[Turn], max_model_len: int) -> Workload:
    """Requests of every golden turn that has a golden reply and fits into the context.

    :raises ModelError: the checkpoint's tokenizer cannot be read, or there are fewer than three such turns.
    """
    tokenizer = load(checkpoint.path)
    if tokenizer is None:
        raise ModelError(
            f"checkpoint {checkpoint.path} has no readable tokenizer.json", "Save its fast tokenizer beside it."
        )
    specials = special_tokens(checkpoint.path)

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    made = []
    for turn in turns:
        if not (reply := golden_text(turn.gold)):
            continue  # how long its reply should be is not known, and one token would pass for a fast one
        prompt = render(checkpoint.template, turn.messages, turn.tools, specials)
        made.append((turn.id, prompt, count(prompt), count(reply) + 1))  # the last one ends the reply
    fitting = sorted((each for each in made if each[2] + each[3] <= max_model_len), key=lambda each: (each[2], each[0]))
    third = len(fitting) // len(CLASSES)
    if not third:
        raise ModelError(
            f"only {len(fitting)} of {len(turns)} golden turns have a golden reply and fit into {max_model_len} tokens",
            "Raise max_model_len, or add turns and golden replies.",
        )
    dealt = [fitting[:third], fitting[third : 2 * third], fitting[2 * third : 3 * third]]
    # The same order everywhere, but not by length: the order of the digests of their ids.
    shuffled = [sorted(some, key=lambda each: digest_of(each[0])) for some in dealt]
    return Workload(
        tuple(
            Request(turn_id, name, prompt, tokens, output)
            for group in zip(*shuffled, strict=True)
            for name, (turn_id, prompt, tokens, output) in zip(CLASSES, group, strict=True)
        )
    )


def golden_text(gold: Mapping[str, Any]) -> str:
    """What a golden reply says, its tool calls as JSON: about as long as the model's own form of them."""
    parts = [str(gold.get("content") or "")]
    for call in gold.get("tool_calls") or ():
        function = call.get("function", call)
        parts.append(json.dumps({"name": function.get("name"), "arguments": function.get("arguments")}))
    return "\n".join(filter(None, parts))
