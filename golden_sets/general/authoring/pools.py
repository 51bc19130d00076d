"""Names and things that the items are made of. None is a name of the golden set's businesses or of their customers."""

from __future__ import annotations

PEOPLE = (
    "Amara", "Bastian", "Celeste", "Dario", "Edwina", "Farid", "Greta", "Hamish", "Ilse", "Joaquin", "Katya", "Lorenz",
    "Mireille", "Nadir", "Odette", "Pavel", "Quentin", "Rosalind", "Soren", "Tamsin", "Ulrike", "Viggo", "Wilhelmina",
    "Xavier", "Yasmin", "Zoltan", "Agnes", "Boris", "Clemence", "Dmitri", "Esther", "Fabio", "Gudrun", "Henrik",
)  # fmt: skip
SURNAMES = (
    "Abernathy", "Brandt", "Castellan", "Drummond", "Eklund", "Fairweather", "Grimaldi", "Halloran", "Iversen",
    "Jankowski", "Kowalczyk", "Lindqvist", "Montague", "Nakamura", "Okafor", "Pemberton", "Quigley", "Rasmussen",
    "Santoro", "Thackeray", "Underhill", "Vasquez", "Whitlock", "Yarrow", "Zimmer",
)  # fmt: skip
TOWNS = (
    "Ashcombe", "Brindleford", "Calder Mill", "Dunmarrow", "Eastwick Bay", "Fernhollow", "Glenorchy", "Harrowgate",
    "Inverlee", "Juniper Hill", "Kestrel Point", "Larkmoor", "Millbrae", "Netherby", "Oakhaven", "Pinecrest",
    "Quarrydale", "Rookwood", "Silverton", "Thornbury", "Upper Vale", "Wexley", "Yewbridge",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FRUIT = ("apples", "pears", "plums", "cherries", "oranges", "lemons", "figs", "peaches", "apricots", "quinces")
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "orange", "purple", "brown", "grey")
TREES = ("oak", "birch", "maple", "cedar", "willow", "elm", "beech", "alder", "larch", "rowan")
