"""Builds the retail part of the golden set from the scripts in ``retail_scripts``.

Run ``python golden_sets/support/authoring/retail.py``: it rewrites ``transcripts/retail-*.jsonl`` byte for byte the
same as long as the scripts do not change. There is nothing random in it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from script import House, read_articles, read_scripts, write_jsonl

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "retail_scripts"


ARTICLES = read_articles(SCRIPTS / "help_articles.txt")


def expand_result(text: str) -> str:
    """Expand the short form of a tool result; anything that starts with ``{`` is taken as it is."""
    if text.startswith("{"):
        json.loads(text)
        return text
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    result: dict[str, Any]
    match kind:
        case "order":
            result = _order(rest)
        case "notfound":
            result = {"error": "order not found"}
        case "verified":
            result = {"verified": True, "name": rest}
        case "unverified":
            result = {"error": "email does not match this order"}
        case "refunded":
            refund, amount = rest.split()
            result = {"refund_id": refund, "amount": amount, "paid_within_days": 5}
        case "cancelled":
            result = {"order_id": rest, "status": "cancelled"}
        case "moved":
            result = {"order_id": rest, "address_changed": True}
        case "ticket":
            result = {"ticket": rest, "answer_within_hours": 24}
        case "docs":
            result = {"documents": [ARTICLES[key.strip()] for key in rest.split(",") if key.strip()]}
        case _:
            raise ValueError(f"unknown result {kind!r}")
    return json.dumps(result, ensure_ascii=False)


def _order(text: str) -> dict[str, Any]:
    """Expand ``OM-482913 | delivered 12 | Oak clock 45.00; Vase 20.00* | gift_message=...`` (* is final sale)."""
    order_id, status, items, *extras = (part.strip() for part in text.split(" | "))
    word, _, detail = status.partition(" ")
    order: dict[str, Any] = {"order_id": order_id, "status": word}
    if word == "delivered":
        order["delivered_days_ago"] = int(detail)
    elif word == "shipped":
        order["expected_on"] = detail
    order["items"] = []
    cents = 0
    for item in items.split(";"):
        match = re.fullmatch(r"\s*(.+) (\d+\.\d\d)(\*?)\s*", item)
        if not match:
            raise ValueError(f"not an item: {item!r}")
        name, price, final_sale = match.groups()
        order["items"].append({"item": name, "price": price} | ({"final_sale": True} if final_sale else {}))
        cents += int(price.replace(".", ""))
    order["total"] = f"{cents // 100}.{cents % 100:02d}"
    for extra in extras:
        key, _, value = extra.partition("=")
        order[key.strip()] = value.strip()
    return order


def house() -> House:
    """Oakmarrow: the parameters of its tools are those of ``tools/retail.json``."""
    tools = json.loads((HERE.parent / "tools" / "retail.json").read_text(encoding="utf-8"))
    functions = [tool["function"] for tool in tools]
    return House(
        policy="retail",
        tools="retail",
        parameters={entry["name"]: tuple(entry["parameters"]["properties"]) for entry in functions},
        result=expand_result,
        write_tools=("refund_order", "cancel_order", "change_address"),
        escalation_tool="escalate_to_human",
        numbers=frozenset({"amount"}),
        free=frozenset({"query", "summary"}),
    )


def main() -> None:
    """Rewrite the transcripts of every script file."""
    oakmarrow = house()
    for script in sorted(SCRIPTS.glob("retail-*.txt")):
        transcripts = list(read_scripts(script, oakmarrow))
        write_jsonl(transcripts, HERE.parent / "transcripts" / f"{script.stem}.jsonl")
        print(f"{script.stem}: {len(transcripts)} transcripts")


if __name__ == "__main__":
    main()
