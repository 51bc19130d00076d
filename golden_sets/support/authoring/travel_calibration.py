"""Makes calibration conversations for the travel business from the templates in ``travel_scripts/calibration.txt``.

Run ``python golden_sets/support/authoring/travel_calibration.py``: it rewrites
``golden_sets/calibration/travel.jsonl``, byte for byte the same as long as the templates, the policy and
the tools do not change.

A template is a script (see ``script.py``) with ``[[one|another]]`` for a choice of wordings and ``<name>`` for a
detail. Details are drawn from names, places and numbers that the golden set does not use. The conversations hold
the system message and the tools themselves, as a user's own log does, and nothing that is scored.
"""

from __future__ import annotations

import random
import string

from calibrate import fresh, rewrite
from travel import SCRIPTS, house

SEED = 20242
PER_TEMPLATE = 3

PEOPLE = (
    "Amina Toure", "Bjarne Lunde", "Cosima Hahn", "Dmitri Orlov", "Esra Polat", "Femke Bos", "Gustavo Prado",
    "Hanako Ueda", "Iain Ross", "Jolanta Sobczak", "Kofi Asante", "Leila Farsi", "Matteo Villa", "Nicoleta Dinu",
    "Oona Virtanen", "Pavol Hudak", "Rosalind Park", "Sergio Campos", "Tamsin Grey", "Ulrike Kern", "Veronika Blaha",
    "Wael Nassar", "Xiu Lam", "Yvonne Dietz",
)  # fmt: skip
ROUTES = (
    "Arles - Nevers", "Bari - Ancona", "Cadiz - Getafe", "Derby - Perth", "Essen - Namur", "Fribourg - Brig",
    "Gyor - Pecs", "Horsens - Odense", "Imola - Parma", "Kotka - Lahti", "Leoben - Villach", "Murcia - Elche",
    "Nitra - Trencin", "Opole - Radom", "Pula - Osijek", "Rodez - Pau", "Sibiu - Arad", "Tartu - Narva",
)  # fmt: skip
HOTELS = ("Hotel Komet", "Pension Ulme", "Casa Azul", "The Old Mill", "Hotel Ponte", "Gasthof Rabe", "Riad Safran")
DATES = ("1 January", "2 March", "3 April", "11 May", "26 June", "29 July", "31 August", "13 October", "23 November")


def details(chance: random.Random, taken: set[str]) -> dict[str, str]:
    """Draw the details of one conversation."""
    person, other = chance.sample(PEOPLE, 2)
    digits, wrong, wronger = (f"{number:04d}" for number in chance.sample(range(10_000), 3))
    date, newdate = chance.sample(DATES, 2)
    cents = ("00", "20", "30", "45", "60", "75", "90", "99")
    return {
        "person": person,
        "first": person.split()[0],
        "other": other,
        "ref": fresh(taken, lambda: _new_reference(chance)),
        "ref2": fresh(taken, lambda: _new_reference(chance)),
        "digits": digits,
        "wrong": wrong,
        "wronger": wronger,
        "route": chance.choice(ROUTES),
        "hotel": chance.choice(HOTELS),
        "date": date,
        "newdate": newdate,
        "price": f"{chance.randint(12, 690)}.{chance.choice(cents)}",
        "time": f"{chance.randint(5, 22):02d}:{chance.randint(0, 59):02d}",
        "over24": str(chance.randint(24, 600)),
        "under24": str(chance.randint(1, 23)),
        "over72": str(chance.randint(72, 900)),
        "under72": str(chance.randint(12, 71)),
        "over12": str(chance.randint(12, 500)),
        "under12": str(chance.randint(1, 11)),
        "over4": str(chance.randint(4, 300)),
        "under4": str(chance.randint(1, 3)),
        "short": str(chance.randint(5, 59)),
        "medium": str(chance.randint(60, 119)),
        "long": str(chance.randint(120, 400)),
        "age": str(chance.randint(7, 13)),
        "voucher": f"VC-{chance.randint(40_000, 49_999)}",
        "case": f"HD-{chance.randint(6_000, 8_999)}",
    }


def _new_reference(chance: random.Random) -> str:
    letters = "".join(chance.choices(string.ascii_uppercase, k=2))
    return f"K{letters}-{chance.randint(1_000, 9_999)}"


def main() -> None:
    """Rewrite the calibration file."""
    rewrite(house(), SCRIPTS, r"K[A-Z]{2}-\d{4}", details, seed=SEED, per_template=PER_TEMPLATE)


if __name__ == "__main__":
    main()
