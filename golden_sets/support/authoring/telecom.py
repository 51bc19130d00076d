"""Builds the telecom part of the golden set from the scripts in ``telecom_scripts``.

Run ``python golden_sets/support/authoring/telecom.py``: it rewrites ``transcripts/telecom-*.jsonl`` byte for byte
the same as long as the scripts do not change. There is nothing random in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from script import House, read_articles, read_scripts, write_jsonl

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "telecom_scripts"
ARTICLES = read_articles(SCRIPTS / "help_articles.txt")
PLAN_FEES = {"S": "12.00", "M": "19.00", "L": "29.00"}
CONTRACT_ENDS = ("4 March", "19 April", "27 May", "8 July", "16 August", "23 September", "11 October", "2 December")


def expand_result(text: str) -> str:
    """Expand the short form of a tool result; anything that starts with ``{`` is taken as it is."""
    if text.startswith("{"):
        json.loads(text)
        return text
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    result: dict[str, Any]
    match kind:
        case "line":
            result = _line(rest)
        case "notfound":
            result = {"error": "line not found"}
        case "verified":
            result = {"verified": True, "name": rest}
        case "unverified":
            result = {"error": "wrong PIN"}
        case "ordered":
            item, _, active = rest.partition(" ")
            result = {"ordered": item, "active": active or "now"}
        case "credited":
            credit, amount = rest.split()
            result = {"credit": credit, "amount": amount, "shown_on": "next bill"}
        case "ended":
            line, _, date = rest.partition(" ")
            result = {"line": line, "ends_on": date}
        case "case":
            result = {"case": rest, "answer_within_hours": 2}
        case "docs":
            result = {"documents": [ARTICLES[key.strip()] for key in rest.split(",") if key.strip()]}
        case _:
            raise ValueError(f"unknown result {kind!r}")
    return json.dumps(result, ensure_ascii=False)


def _line(text: str) -> dict[str, Any]:
    """Expand ``TW48213 M | age 400 | left 30 8 July | extra Premium SMS 4.99 12 | outage 30 4.50 | note=...``.

    What is not given is derived from the line number and lies within every rule: an old, paid, mobile line.
    ``fibre`` lines have no SIM; ``overdue`` lines have an unpaid bill; an extra ends with its amount and days_ago.
    """
    head, *parts = (part.strip() for part in text.split(" | "))
    number, plan = head.split()
    seed = int(number[2:])
    result: dict[str, Any] = {"line": number, "kind": "mobile", "plan": plan, "plan_fee": PLAN_FEES[plan]}
    result |= {"overdue": False, "age_days": 150 + seed * 7 % 400, "plan_days": 90 + seed % 60}
    result |= {"days_left": 60 + seed % 300, "contract_end": CONTRACT_ENDS[seed % len(CONTRACT_ENDS)]}
    result |= {"sim_days": 30 + seed % 120, "extras": []}
    for part in parts:
        key, _, value = part.partition(" ")
        match key:
            case "age":
                young = min(int(value), result["plan_days"])
                result |= {"age_days": int(value), "plan_days": young, "sim_days": min(young, result["sim_days"])}
            case "plan" | "sim":
                result[f"{key}_days"] = int(value)
            case "left":
                days, _, date = value.partition(" ")
                result |= {"days_left": int(days), "contract_end": date}
            case "extra":
                item, amount, days = value.rsplit(" ", 2)
                result["extras"].append({"item": item, "amount": amount, "days_ago": int(days)})
            case "outage":
                hours, credit, *fix = value.split(" ", 2)
                result["outage"] = {"hours": int(hours), "credit": credit} | ({"repair": fix[0]} if fix else {})
            case "overdue":
                result["overdue"] = True
            case "fibre":
                result["kind"] = "fibre"
            case _:
                name, _, extra = part.partition("=")
                if not extra:
                    raise ValueError(f"unknown part {part!r}")
                result[name] = extra
    result["age_days"] = max(result["age_days"], result["plan_days"], result["sim_days"])
    if result["kind"] == "fibre":
        del result["sim_days"]
    return result


def house() -> House:
    """Tarnwave: the parameters of its tools are those of ``tools/telecom.json``."""
    tools = json.loads((HERE.parent / "tools" / "telecom.json").read_text(encoding="utf-8"))
    functions = [tool["function"] for tool in tools]
    return House(
        policy="telecom",
        tools="telecom",
        parameters={entry["name"]: tuple(entry["parameters"]["properties"]) for entry in functions},
        result=expand_result,
        write_tools=("place_order", "credit_bill", "end_line"),
        escalation_tool="transfer_to_agent",
        numbers=frozenset({"amount"}),
        free=frozenset({"query", "summary"}),
        macros={
            "ask-pin": ("clarify", [["PIN"]]),
            "ask-line": (
                "clarify",
                [["line number", "number of the line", "number of your line", "which line", "re:\\bTW"]],
            ),
        },
    )


def main() -> None:
    """Rewrite the transcripts of every script file."""
    tarnwave = house()
    for script in sorted(SCRIPTS.glob("telecom-*.txt")):
        transcripts = list(read_scripts(script, tarnwave))
        write_jsonl(transcripts, HERE.parent / "transcripts" / f"{script.stem}.jsonl")
        print(f"{script.stem}: {len(transcripts)} transcripts")


if __name__ == "__main__":
    main()
