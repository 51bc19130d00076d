"""The records of a replay: ``replies.jsonl``, one line per turn, appended as the replies arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from evaluators.turn import Reply, ToolCall
from pipeline.errors import RecordError


@dataclass(frozen=True, slots=True)
class Record:
    """One line of ``replies.jsonl``."""

    turn_id: str
    request_digest: str
    reply: Reply
    prompt_token_ids_digest: str | None
    """SHA-256 of the token ids that the server made of the request; equal on both sides, or the pair is void."""
    prompt_tokens: int | None
    latency_s: float
    attempt: int

    def line(self) -> str:
        """The record as JSON, without a line end."""
        reply = self.reply
        answered = {
            "content": reply.content,
            "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls],
            "finish_reason": reply.finish_reason,
            "completion_tokens": reply.completion_tokens,
            "prompt_tokens": self.prompt_tokens,
        }
        line = {
            "turn_id": self.turn_id,
            "request_digest": self.request_digest,
            "reply": None if reply.error is not None else answered,
            "prompt_token_ids_digest": self.prompt_token_ids_digest,
            "error": reply.error,
            "latency_s": self.latency_s,
            "attempt": self.attempt,
        }
        return json.dumps(line, ensure_ascii=False)


def read_records(path: Path) -> dict[str, Record]:
    """Records by turn id, the last one of each turn. A torn last line is left out.

    :raises RecordError: any other line that is not a record.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RecordError(f"{path}: cannot read: {error}", "Check the file's permissions.") from error
    records = {}
    whole = text[: text.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            record = _parse(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise RecordError(
                f"{path}:{number}: not a reply record: {error!r}", f"Remove {path.parent} and run again."
            ) from error
        records[record.turn_id] = record
    return records


def _parse(line: Mapping[str, Any]) -> Record:
    error, answered = line["error"], line["reply"]
    if (error is None) == (answered is None):
        raise ValueError("needs exactly one of reply and error")
    answered = answered or {}
    calls = tuple(ToolCall(str(call["name"]), str(call["arguments"])) for call in answered.get("tool_calls", ()))
    reply = Reply(
        turn_id=line["turn_id"],
        content=answered.get("content") or "",
        tool_calls=calls,
        finish_reason=answered.get("finish_reason"),
        completion_tokens=answered.get("completion_tokens"),
        error=error,
    )
    return Record(
        turn_id=line["turn_id"],
        request_digest=line["request_digest"],
        reply=reply,
        prompt_token_ids_digest=line["prompt_token_ids_digest"],
        prompt_tokens=answered.get("prompt_tokens"),
        latency_s=float(line["latency_s"]),
        attempt=int(line["attempt"]),
    )


def read_replies(path: Path) -> dict[str, Reply]:
    """Replies by turn id; see :func:`read_records`."""
    return {turn_id: record.reply for turn_id, record in read_records(path).items()}


def prompt_mismatches(first: Mapping[str, Record], second: Mapping[str, Record]) -> list[str]:
    """Turns for which the two sides did not see the same prompt, by token ids; sorted.

    Only turns answered on both sides can be compared; an unanswered one is unscorable anyway. A digest that is
    missing beside a reply counts as a mismatch.
    """
    both = [t for t in first.keys() & second.keys() if first[t].reply.error is None and second[t].reply.error is None]
    digests = {t: (first[t].prompt_token_ids_digest, second[t].prompt_token_ids_digest) for t in both}
    return sorted(t for t, (one, other) in digests.items() if one is None or one != other)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace ``path`` by exactly these records, atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text("".join(record.line() + "\n" for record in records), encoding="utf-8")
    partial.replace(path)


def open_for_append(path: Path) -> IO[bytes]:
    """Open for appending, after cutting off a torn last line."""
    handle = path.open("ab+")
    handle.seek(0)
    handle.truncate(handle.read().rfind(b"\n") + 1)
    handle.seek(0, 2)
    return handle
