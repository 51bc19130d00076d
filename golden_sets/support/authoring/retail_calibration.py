"""Makes calibration conversations for the retail business from the templates in ``retail_scripts/calibration.txt``.

Run ``python golden_sets/support/authoring/retail_calibration.py``: it rewrites
``golden_sets/calibration/retail.jsonl``, byte for byte the same as long as the templates, the policy and
the tools do not change.

A template is a script (see ``script.py``) with ``[[one|another]]`` for a choice of wordings and ``<name>`` for a
detail. Details are drawn from names, products and numbers that the golden set does not use. The conversations hold
the system message and the tools themselves, as a user's own log does, and nothing that is scored.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retail import HERE, SCRIPTS, house
from script import read_script, write_jsonl

SEED = 20240
PER_TEMPLATE = 4
OUTPUT = HERE.parent.parent / "calibration" / "retail.jsonl"

PEOPLE = (
    "Adaeze Nwosu", "Birgit Thoma", "Camille Girard", "Darko Savić", "Elif Demir", "Fatou Sow", "Gabor Szabo",
    "Hoang Minh", "Ines Carvalho", "Jamal Wright", "Kaori Fujita", "Lotte Visser", "Miguel Reyes",
    "Nadia Karimi", "Oskar Lund", "Priya Menon", "Quentin Roy", "Rania Khoury", "Stefan Ilie", "Teresa Gallo",
    "Umar Farooq", "Viktor Hansen", "Wanjiru Kariuki", "Xenia Pavlou", "Yara Mansour", "Zoltan Farkas",
)  # fmt: skip
ITEMS = (
    "Hat stand", "Cheese grater", "Pillow spray", "Garden kneeler", "Copper pan", "Window box",
    "Nest of tables", "Draught excluder", "Magnetic board", "Plant mister", "Umbrella holder", "Cake stand",
    "Log basket", "Wine cooler", "Drying rack", "Jewellery box", "Spirit level", "Trellis panel",
    "Door mirror", "Bread knife block", "Linen chest", "Bicycle hook", "Tea towel pack", "Sundial", "Pet bed",
    "Solar lantern", "Bamboo blind", "Wheelbarrow",
)  # fmt: skip
STREETS = ("Ahornweg", "Church Road", "Via Verdi", "Rue des Lilas", "Hafenstrasse", "Orchard Close", "Tulpenlaan")
CITIES = (("1070", "Wien"), ("8020", "Graz"), ("5400", "Hallein"), ("4600", "Wels"), ("6900", "Bregenz"))
DATES = ("1 February", "9 April", "15 May", "22 June", "28 July", "5 August", "20 September", "31 October")


class Details:
    """The details of one conversation, drawn once each and then kept."""

    def __init__(self, chance: random.Random, taken: set[str]) -> None:
        person = chance.choice(PEOPLE)
        first, last = person.split()
        postcode, city = chance.choice(CITIES)
        item, other_item = chance.sample(ITEMS, 2)
        cents = ("00", "10", "25", "40", "55", "70", "85", "95")
        user = _ascii(f"{first[0]}.{last}{chance.randint(2, 99)}")
        self.values = {
            "person": person,
            "first": first,
            "email": f"{user}@homemail.example",
            "wrong": f"{_ascii(last)}@homemail.example",
            "order": _new_order(chance, taken),
            "order2": _new_order(chance, taken),
            "item": item,
            "item2": other_item,
            "price": f"{chance.randint(8, 190)}.{chance.choice(cents)}",
            "price2": f"{chance.randint(8, 190)}.{chance.choice(cents)}",
            "big": f"{chance.randint(201, 980)}.{chance.choice(cents)}",
            "days": str(chance.randint(0, 30)),
            "late": str(chance.randint(31, 200)),
            "date": chance.choice(DATES),
            "street": f"{chance.choice(STREETS)} {chance.randint(2, 140)}",
            "postcode": postcode,
            "city": city,
            "refund": f"RF-{chance.randint(80000, 99999)}",
            "ticket": f"T-{chance.randint(8000, 9999)}",
        }


def _ascii(text: str) -> str:
    return text.lower().replace("ć", "c")


def _new_order(chance: random.Random, taken: set[str]) -> str:
    while True:
        order = f"OM-{chance.randint(0, 999999):06d}"
        if order not in taken:
            taken.add(order)
            return order


def golden_orders() -> set[str]:
    """Every order number that the golden scripts mention."""
    texts = (path.read_text(encoding="utf-8") for path in SCRIPTS.glob("retail-*.txt"))
    return {order for text in texts for order in re.findall(r"OM-\d{6}", text)}


def fill(template: str, chance: random.Random, details: Details) -> str:
    """Choose the wordings of a template and put the details in."""
    worded = re.sub(r"\[\[(.+?)\]\]", lambda found: chance.choice(found[1].split("|")), template)
    return re.sub(r"<(\w+)>", lambda found: details.values[found[1]], worded)


def conversations(system: str, tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield all conversations, up to ``PER_TEMPLATE`` of each template; a repetition is left out."""
    chance, taken, oakmarrow = random.Random(SEED), golden_orders(), house()
    seen: set[str] = set()
    text = (SCRIPTS / "calibration.txt").read_text(encoding="utf-8")
    templates = [block for block in re.split(r"\n(?=== )", text) if block.startswith("== ")]
    for number in range(1, PER_TEMPLATE + 1):
        for template in templates:
            script = fill(template, chance, Details(chance, taken))
            for transcript in read_script(script, "calibration.txt", oakmarrow):
                said = json.dumps([m["content"] for m in transcript["messages"] if m["role"] == "user"])
                if said in seen:
                    continue
                seen.add(said)
                yield {
                    "id": f"{transcript['id']}-{number}",
                    "messages": [{"role": "system", "content": system}, *transcript["messages"]],
                    "tools": tools,
                }


def body(policy: Path) -> str:
    """The text of a policy file after its front matter."""
    return policy.read_text(encoding="utf-8").split("---\n", 2)[2].strip()


def main() -> None:
    """Rewrite the calibration file."""
    system = body(HERE.parent / "policies" / "retail.md")
    tools = json.loads((HERE.parent / "tools" / "retail.json").read_text(encoding="utf-8"))
    made = list(conversations(system, tools))
    write_jsonl(made, OUTPUT)
    print(f"{OUTPUT.name}: {len(made)} conversations")


if __name__ == "__main__":
    main()
