"""Customer data and credentials in a golden set, which a run would copy into records, reports and evidence.

Looked for is what can be told from the text alone: credentials, payment card numbers, e-mail addresses. What
:func:`pipeline.golden.redact.redact` puts in their place is known and passes: addresses in the domains that RFC 2606
keeps for examples, and card numbers that begin with 400000. So do addresses that a policy or a tool names itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from evaluators.turn import Turn
from pipeline.digests import canonical_json
from pipeline.errors import GoldenSetError
from pipeline.golden.redact import CARD, EMAIL, luhn_valid
from pipeline.secrets import find_secret

SHOWN = 5
_EXAMPLE = re.compile(r"@(?:[\w-]+\.)*(?:example\.(?:com|net|org)|[\w-]+\.(?:example|test|invalid|localhost)|example)$")
_TEST_CARDS = re.compile(r"400000\d+|4111111111111111|4242424242424242|5555555555554444|378282246310005")
"""What redaction writes, and the numbers that payment networks publish for tests."""


def demand_no_private_data(turns: Iterable[Turn], shown: str) -> None:
    """Refuse turns with customer data or credentials in their messages.

    :param shown: how the set is named in the error.
    :raises GoldenSetError: names turns and kinds, and not the data.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for turn in turns:
        public = _public(turn)
        said = [canonical_json(message) for message in (*turn.messages, turn.gold) if message.get("role") != "system"]
        for text in {public, *said} - seen:
            kind = find_secret(text) if text == public else next(_kinds(text, public), None)
            if kind:
                found.setdefault(turn.id, kind)
        seen |= {public, *said}
    if found:
        named = "; ".join(f"{turn_id} holds {kind}" for turn_id, kind in list(found.items())[:SHOWN])
        more = f"; and {len(found) - SHOWN} more turns" if len(found) > SHOWN else ""
        raise GoldenSetError(
            f"{shown}: {named}{more}. Reports and evidence would hold it as well",
            "Import it with `quant-gate golden import --redact`, or write data of nobody (RFC 2606 domains: "
            "ada@example.com). An address that the policy or a tool names is taken for the business's own.",
        )


def _public(turn: Turn) -> str:
    """What the business says of itself."""
    system = [str(message.get("content")) for message in turn.messages if message.get("role") == "system"]
    return " ".join([*system, canonical_json(turn.tools)])


def _kinds(text: str, public: str) -> Iterator[str]:
    if kind := find_secret(text):
        yield kind
    for number in CARD.findall(text):
        if luhn_valid(number) and not _TEST_CARDS.fullmatch(re.sub(r"\D", "", number)):
            yield "a payment card number"
    for address in EMAIL.findall(text):
        if not _EXAMPLE.search(address.lower()) and address not in public:
            yield "an e-mail address"
