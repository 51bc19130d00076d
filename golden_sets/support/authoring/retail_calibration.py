"""Makes calibration conversations for the retail business from the templates in ``retail_scripts/calibration.txt``.

Run ``python golden_sets/support/authoring/retail_calibration.py``: it rewrites
``golden_sets/calibration/retail.jsonl``, byte for byte the same as long as the templates, the policy and
the tools do not change.

Templates are explained in ``calibrate.py``. Details are drawn from names, products and numbers that the golden set
does not use.
"""

from __future__ import annotations

import random

from calibrate import fresh, rewrite
from retail import SCRIPTS, house

SEED = 20240
PER_TEMPLATE = 4

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


def details(chance: random.Random, taken: set[str]) -> dict[str, str]:
    """Draw the details of one conversation."""
    person = chance.choice(PEOPLE)
    first, last = person.split()
    postcode, city = chance.choice(CITIES)
    item, other_item = chance.sample(ITEMS, 2)
    cents = ("00", "10", "25", "40", "55", "70", "85", "95")
    user = _ascii(f"{first[0]}.{last}{chance.randint(2, 99)}")
    return {
        "person": person,
        "first": first,
        "email": f"{user}@homemail.example",
        "wrong": f"{_ascii(last)}@homemail.example",
        "order": fresh(taken, lambda: f"OM-{chance.randint(0, 999999):06d}"),
        "order2": fresh(taken, lambda: f"OM-{chance.randint(0, 999999):06d}"),
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


def main() -> None:
    """Rewrite the calibration file."""
    rewrite(house(), SCRIPTS, r"OM-\d{6}", details, seed=SEED, per_template=PER_TEMPLATE)


if __name__ == "__main__":
    main()
