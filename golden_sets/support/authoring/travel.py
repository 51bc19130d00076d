"""Builds the travel part of the golden set from the scripts in ``travel_scripts``.

Run ``python golden_sets/support/authoring/travel.py``: it rewrites ``transcripts/travel-*.jsonl`` byte for byte the
same as long as the scripts do not change. There is nothing random in it.

In ``say`` and ``accept`` lines ``@14 May`` stands for the common ways to write that date.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from script import House, read_articles, read_script, write_jsonl

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "travel_scripts"

MACROS = {
    "ask-card": ("clarify", [["digits", "last 4", "last four", "card ending"]]),
    "ask-reference": (
        "clarify",
        [["reference", "booking number", "booking code", "booking id", "ref", "re:\\bKAB-1234\\b"]],
    ),
}


ARTICLES = read_articles(SCRIPTS / "guide_articles.txt")


def expand_result(text: str) -> str:
    """Expand the short form of a tool result; anything that starts with ``{`` is taken as it is."""
    if text.startswith("{"):
        json.loads(text)
        return text
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    result: dict[str, Any]
    match kind:
        case "booking":
            result = _booking(rest)
        case "notfound":
            result = {"error": "no booking with this reference"}
        case "booker":
            result = {"verified": True, "booker": rest}
        case "wrongcard":
            result = {"error": "digits do not match"}
        case "cancelled":
            result = _cancelled(*rest.split())
        case "changed":
            change, _, value = rest.partition(" ")
            result = {"changed": change, "value": value}
        case "delaypaid":
            voucher, amount = rest.split()
            result = {"voucher": voucher, "amount": amount, "valid_months": 12}
        case "case":
            result = {"case": rest, "answer_within_minutes": 30}
        case "docs":
            result = {"documents": [ARTICLES[key.strip()] for key in rest.split(",") if key.strip()]}
        case _:
            raise ValueError(f"unknown result {kind!r}")
    return json.dumps(result, ensure_ascii=False)


def _booking(text: str) -> dict[str, Any]:
    """Expand ``KQT-4821 | train flex 31 | Lyon - Turin, 14 May | 86.00 | Rosa Mbeki; Ana Sol | departs=09:40``.

    The number after the fare is ``hours_left``; ``done`` stands for a trip that is over.
    """
    reference, fare_line, trip_line, price, names, *extras = (part.strip() for part in text.split(" | "))
    kind, fare, hours = fare_line.split()
    trip, _, date = trip_line.rpartition(", ")
    booking: dict[str, Any] = {"reference": reference, "kind": kind, "fare": fare}
    booking |= {"travelled": True} if hours == "done" else {"hours_left": int(hours)}
    booking |= {"trip": trip, "date": date, "price": price, "names": [name.strip() for name in names.split(";")]}
    if not re.fullmatch(r"\d+\.\d\d", price):
        raise ValueError(f"not a price: {price!r}")
    for extra in extras:
        key, _, value = (part.strip() for part in extra.partition("="))
        if key.endswith("minutes"):
            booking[key] = int(value)
        else:
            booking[key] = True if value == "true" else value
    return booking


def _cancelled(reference: str, payout: str, amount: str, voucher: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {"reference": reference, "status": "cancelled", "payout": payout, "amount": amount}
    return result | ({"voucher": voucher, "valid_months": 12} if voucher else {"paid_within_days": 7})


def spell_dates(script: str) -> str:
    """Replace ``@14 May`` by the phrases ``14 May | May 14 | 14th of May | ...``."""
    return re.sub(r"@(\d{1,2}) ([A-Z][a-z]+)", lambda found: " | ".join(_spelled(int(found[1]), found[2])), script)


def _spelled(day: int, month: str) -> list[str]:
    ending = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    spoken = f"{day}{ending}"
    return [f"{day} {month}", f"{month} {day}", f"{month} {spoken}", f"{spoken} {month}", f"{spoken} of {month}"]


def house() -> House:
    """Meridove: the parameters of its tools are those of ``tools/travel.json``."""
    tools = json.loads((HERE.parent / "tools" / "travel.json").read_text(encoding="utf-8"))
    functions = [tool["function"] for tool in tools]
    return House(
        policy="travel",
        tools="travel",
        parameters={entry["name"]: tuple(entry["parameters"]["properties"]) for entry in functions},
        result=expand_result,
        write_tools=("cancel_trip", "change_trip", "pay_delay"),
        escalation_tool="hand_over",
        numbers=frozenset({"amount"}),
        free=frozenset({"query", "summary"}),
        macros=MACROS,
    )


def main() -> None:
    """Rewrite the transcripts of every script file."""
    meridove = house()
    for path in sorted(SCRIPTS.glob("travel-*.txt")):
        transcripts = list(read_script(spell_dates(path.read_text(encoding="utf-8")), path.name, meridove))
        write_jsonl(transcripts, HERE.parent / "transcripts" / f"{path.stem}.jsonl")
        print(f"{path.stem}: {len(transcripts)} transcripts")


if __name__ == "__main__":
    main()
