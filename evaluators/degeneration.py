"""Degeneration: replies that no longer are language (``free_of_degeneration``, read on every turn).

Labels, the first that holds:

``empty``            no text and no call
``never_stops``      generation ran into the token limit
``reserved_token``   a token of a chat template stands in the text
``garbled``          replacement or control characters, raw byte tokens, doubly encoded text
``loop``             the same words over and over
``sound``            none of these

Loops
-----
Greedy decoding falls into loops, and each repetition makes the next one likelier (Holtzman et al.,
"The Curious Case of Neural Text Degeneration", ICLR 2020; Xu et al., "Learning to Break the Loop",
NeurIPS 2022). A text loops when

* a run of :data:`PHRASE_WORDS` to :data:`LONGEST_PHRASE` words follows itself :data:`PHRASE_ROUNDS` times or more.
  Holtzman et al. (their ``metrics/repetition.py``) report a phrase of three or more tokens that
  stands twice in a row at the end; a short reply is cut off by no loop, so we ask for one round more
  but look anywhere. Or a shorter run does so :data:`WORD_ROUNDS` times. Or
* one character stands :data:`CHARACTER_ROUNDS` times in a row (rules such as "-----" aside): an engine
  that computes NaN answers with its first token for ever, which is often "!". Or
* rep-4 (Welleck et al. 2020: one minus the share of distinct 4-grams; rep-n in Fu et al., "A
  Theoretical Analysis of the Repetition Problem in Text Generation", AAAI 2021) reaches
  :data:`REP_4` in a text of :data:`REP_4_WORDS` words or more: loops that vary a little.

Lists of orders repeat their wording but not their numbers: words are compared with their digits, so
"Order 1001: shipped. Order 1002: shipped." is no run, and a list line of w words with one changing
number has rep-4 of at most (w - 4) / w: 0.8 needs lines of 20 words that differ in one number only.
They were tried on the assistant messages of public support benchmarks (ABCD, tau-bench, AgentDojo)
and on the customers' and tools' messages beside them: none is flagged.
"""

from __future__ import annotations

import re

from evaluators.results import failed, passed, quote
from evaluators.turn import Outcome, Reply, Turn

METRIC = "free_of_degeneration"

PHRASE_WORDS = 3
PHRASE_ROUNDS = 3
LONGEST_PHRASE = 100
WORD_ROUNDS = 8
CHARACTER_ROUNDS = 20
REP_4 = 0.8
REP_4_WORDS = 60

_RESERVED = re.compile(
    r"""
      <[|｜](?:im_start|im_end|im_sep|endoftext|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id
        |system|user|assistant|end|start|message|channel|return|pad|bos|eos|sep|fim_\w+|reserved_special_token_\d+
        |(?:START|END)_OF_TURN_TOKEN|(?:begin|end)▁of▁sentence|User|Assistant)[|｜]>
    | </?s> | <(?:bos|eos|pad|unk|mask)> | \[/?INST\] | <</?SYS>> | \[(?:CLS|SEP|PAD|UNK|MASK)\]
    | </?(?:start_of_turn|end_of_turn)> | <unused\d+> | \[/?(?:AVAILABLE_TOOLS|TOOL_RESULTS)\] | </?tool_response>
    """,
    re.VERBOSE,
)
_GARBLED = re.compile(
    "[\ufffd\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\ufdd0-\ufdef\ud800-\udfff]"
    "|<0x[0-9A-Fa-f]{2}>"  # a byte token that was not decoded
    "|(?<=[\\w.,!?])[\u0120\u010a](?=[A-Za-z])"  # byte-level BPE: Ġ and Ċ stand for a space and a line break
    "|\u2581\\w"  # SentencePiece's mark of a space
    "|\u00e2\u20ac[\u2122\u0153\u009d\u201c\u201d\u02dc]|\u00c3[\u00a0-\u00bf]"  # UTF-8 read as Windows-1252
)
# Scripts without spaces are read character by character.
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|" + r"\w+(?:[.,:/'’-]\w+)*")
_CHARACTER_RUN = re.compile(rf"([^\s\-=_*~#.|+─━])\1{{{CHARACTER_ROUNDS - 1}}}")


def applies(turn: Turn) -> bool:
    """Always: every turn has a reply that must be language."""
    return True


METRICS = {METRIC: applies}


def evaluate(turn: Turn, reply: Reply) -> tuple[Outcome, ...]:
    """Score ``free_of_degeneration``."""
    found = _degeneration(reply)
    return (failed(turn, METRIC, found[0], (found[1],)) if found else passed(turn, METRIC, "sound"),)


def _degeneration(reply: Reply) -> tuple[str, str] | None:
    if not reply.content.strip() and not reply.tool_calls:
        return "empty", "the reply has neither text nor a call"
    if reply.finish_reason == "length":
        tokens = f" after {reply.completion_tokens} tokens" if reply.completion_tokens is not None else ""
        return "never_stops", f"cut off by the token limit{tokens}: …{quote(reply.content[-100:])}"
    for text in (reply.content, *(call.arguments for call in reply.tool_calls)):
        for label, expression in (("reserved_token", _RESERVED), ("garbled", _GARBLED)):
            found = expression.search(text)
            if found:
                around = text[max(0, found.start() - 30) : found.end() + 30]
                return label, f"{found.group(0)!r} in {quote(around)}"
        loop = find_loop(text)
        if loop:
            return "loop", loop
    return None


def find_loop(text: str) -> str | None:
    """What repeats in ``text``, in words; None when nothing does."""
    run = _CHARACTER_RUN.search(text)
    if run:
        return f"{quote(run.group(1))} stands {CHARACTER_ROUNDS} times in a row"
    words = [word.casefold() for word in _WORD.findall(text)]
    for length in range(1, min(len(words) // PHRASE_ROUNDS, LONGEST_PHRASE) + 1):
        rounds = PHRASE_ROUNDS if length >= PHRASE_WORDS else WORD_ROUNDS
        same = 0  # words in a row that equal the one `length` places before
        for index in range(length, len(words)):
            same = same + 1 if words[index] == words[index - length] else 0
            if same >= length * (rounds - 1):
                phrase = words[index - length + 1 : index + 1]
                return f"{quote(' '.join(phrase), 80)} stands {rounds} times in a row"
    if len(words) >= REP_4_WORDS:
        grams = [tuple(words[index : index + 4]) for index in range(len(words) - 3)]
        repeated = 1 - len(set(grams)) / len(grams)
        if repeated >= REP_4:
            return f"{repeated:.0%} of its runs of four words are repeats"
    return None
