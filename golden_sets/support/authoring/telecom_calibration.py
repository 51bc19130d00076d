"""Makes calibration conversations for the telecom business from the templates in ``telecom_scripts/calibration.txt``.

Run ``python golden_sets/support/authoring/telecom_calibration.py``: it rewrites
``golden_sets/calibration/telecom.jsonl``, byte for byte the same as long as the templates, the policy and
the tools do not change.

Templates are written as for retail (see ``calibrate.py``). Details are drawn from names, charges and
numbers that the golden set does not use; the conversations hold nothing that is scored.
"""

from __future__ import annotations

import random

from calibrate import fresh, rewrite
from telecom import SCRIPTS, house

SEED = 20241
PER_TEMPLATE = 3

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


def details(chance: random.Random, taken: set[str]) -> dict[str, str]:
    """Draw the details of one conversation."""
    person = chance.choice(PEOPLE)
    cents = ("05", "15", "20", "35", "45", "65", "80", "99")
    pin, wrong = (f"{number:04d}" for number in chance.sample(range(10_000), 2))
    return {
        "person": person,
        "first": person.split()[0],
        "line": fresh(taken, lambda: f"TW{chance.randint(10_000, 99_999)}"),
        "line2": fresh(taken, lambda: f"TW{chance.randint(10_000, 99_999)}"),
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


def main() -> None:
    """Rewrite the calibration file."""
    rewrite(house(), SCRIPTS, r"TW\d{5}", details, seed=SEED, per_template=PER_TEMPLATE)


if __name__ == "__main__":
    main()
