"""Makes calibration conversations for the telecom business from the templates in ``telecom_scripts/calibration.txt``.

Run ``python golden_sets/support/authoring/telecom_calibration.py``: it rewrites
``golden_sets/calibration/telecom.jsonl``, byte for byte the same as long as the templates, the policy and
the tools do not change.

Templates are written as for retail (see ``retail_calibration.py``). Details are drawn from names, charges and
numbers that the golden set does not use; the conversations hold nothing that is scored.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from retail_calibration import body
from script import read_script, write_jsonl
from telecom import HERE, SCRIPTS, house

SEED = 20241
PER_TEMPLATE = 3
OUTPUT = HERE.parent.parent / "calibration" / "telecom.jsonl"

PEOPLE = (
    "Agnes Kowal", "Bilal Anwar", "Chidi Obiora", "Delphine Roux", "Emre Aksoy", "Fiona McKay", "Goran Petric",
    "Hiroshi Ono", "Irina Volkova", "Joao Mendes", "Khadija Saleh", "Linh Tran", "Mats Ekberg", "Nokuthula Zulu",
    "Olga Baran", "Paolo Greco", "Rashid Amiri", "Siobhan Kelly", "Tarek Nasser", "Ursula Frey", "Vikram Joshi",
    "Wioletta Mazur", "Yusuf Hamdi", "Zeynep Kurt",
)  # fmt: skip
EXTRAS = (
    "Weather alerts", "Radio plus", "E-book club", "Dating line", "Ticket by SMS", "Antivirus pack", "Karaoke app",
    "Crossword SMS", "Fax to e-mail", "Photo prints", "Language course", "Meditation app", "Sports ticker",
    "Yoga videos", "Call to Chile", "Wallpaper shop", "Lottery SMS", "Bike rental",
)  # fmt: skip
DATES = ("2 January", "7 February", "13 March", "21 April", "30 May", "9 June", "26 August", "15 November")
MONTHS = ("January", "February", "March", "April", "June", "July", "August", "November")
PHONES = ("tablet", "watch", "old phone", "foldable", "company phone")


class Details:
    """The details of one conversation, drawn once each and then kept."""

    def __init__(self, chance: random.Random, taken: set[str]) -> None:
        person = chance.choice(PEOPLE)
        cents = ("05", "15", "20", "35", "45", "65", "80", "99")
        pin, wrong = (f"{number:04d}" for number in chance.sample(range(10_000), 2))
        self.values = {
            "person": person,
            "first": person.split()[0],
            "line": _new_line(chance, taken),
            "line2": _new_line(chance, taken),
            "plan": chance.choice("SML"),
            "pin": pin,
            "wrong": wrong,
            "extra": chance.choice(EXTRAS),
            "price": f"{chance.randint(1, 49)}.{chance.choice(cents)}",
            "small": f"{chance.randint(2, 19)}.{chance.choice(cents)}",
            "big": f"{chance.randint(51, 420)}.{chance.choice(cents)}",
            "days": str(chance.randint(1, 60)),
            "olddays": str(chance.randint(61, 300)),
            "longhours": str(chance.randint(24, 160)),
            "shorthours": str(chance.randint(1, 23)),
            "fortnight": str(chance.randint(1, 14)),
            "fewdays": str(chance.randint(8, 29)),
            "manydays": str(chance.randint(30, 500)),
            "veryfew": str(chance.randint(2, 6)),
            "gb": chance.choice(("5", "20")),
            "date": chance.choice(DATES),
            "month": chance.choice(MONTHS),
            "phone": chance.choice(PHONES),
            "credit": f"CR{chance.randint(1000, 9999)}",
            "case": f"K{chance.randint(100_000, 999_999)}",
        }


def _new_line(chance: random.Random, taken: set[str]) -> str:
    while True:
        line = f"TW{chance.randint(10_000, 99_999)}"
        if line not in taken:
            taken.add(line)
            return line


def golden_lines() -> set[str]:
    """Every line number that the golden scripts mention."""
    texts = (path.read_text(encoding="utf-8") for path in SCRIPTS.glob("telecom-*.txt"))
    return {line for text in texts for line in re.findall(r"TW\d{5}", text)}


def fill(template: str, chance: random.Random, details: Details) -> str:
    """Choose the wordings of a template and put the details in."""
    worded = re.sub(r"\[\[(.+?)\]\]", lambda found: chance.choice(found[1].split("|")), template)
    return re.sub(r"<(\w+)>", lambda found: details.values[found[1]], worded)


def conversations(system: str, tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield all conversations, up to ``PER_TEMPLATE`` of each template; a repetition is left out."""
    chance, taken, tarnwave = random.Random(SEED), golden_lines(), house()
    seen: set[str] = set()
    text = (SCRIPTS / "calibration.txt").read_text(encoding="utf-8")
    templates = [block for block in re.split(r"\n(?=== )", text) if block.startswith("== ")]
    for number in range(1, PER_TEMPLATE + 1):
        for template in templates:
            script = fill(template, chance, Details(chance, taken))
            for transcript in read_script(script, "calibration.txt", tarnwave):
                said = json.dumps([m["content"] for m in transcript["messages"] if m["role"] == "user"])
                if said in seen:
                    continue
                seen.add(said)
                yield {
                    "id": f"{transcript['id']}-{number}",
                    "messages": [{"role": "system", "content": system}, *transcript["messages"]],
                    "tools": tools,
                }


def main() -> None:
    """Rewrite the calibration file."""
    system = body(HERE.parent / "policies" / "telecom.md")
    tools = json.loads((HERE.parent / "tools" / "telecom.json").read_text(encoding="utf-8"))
    made = list(conversations(system, tools))
    write_jsonl(made, OUTPUT)
    print(f"{OUTPUT.name}: {len(made)} conversations")


if __name__ == "__main__":
    main()
