"""The catalogue: which faults there are, and how what caught one is named.

A fault is a module of ``replies/`` or ``checkpoints/``. Its ``CAUGHT_BY`` names the check that must catch it:

``METRIC_LOSS tool_call_correct``          a reason code of the decision, with words of its text: the metric,
``SLICE_LOSS refunds policy_adherence``    the slice and the metric,
``CONDITIONS_DIFFER flags``                what differs,
``UNSCORABLE candidate``                   the side
``CRITICAL_TURN``                          a reason code that can only mean one thing
``RecordError altered``                    an error of the gate, with words of its message
``inspect scale-value``                    a check of the inspection

Caught means: that check found it with all these words, what it found argues for the verdict, and the verdict is not
ACCEPT. A fault that only another check caught is missed: tomorrow that check may be tuned for something else.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from pipeline.errors import GateError, Verdict
from pipeline.selftest import checkpoints, replies

Level = Literal["reply", "checkpoint"]
_PACKAGES: Mapping[Level, ModuleType] = {"reply": replies, "checkpoint": checkpoints}
_WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the catalogue; ``title`` is the first sentence of its documentation."""

    name: str
    level: Level
    title: str
    caught_by: str

    @property
    def module(self) -> ModuleType:
        """The module that injects it."""
        return importlib.import_module(f"{_PACKAGES[self.level].__name__}.{self.name}")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a fault. ``caught_by`` tells what argues for ``verdict``, the weightiest first: check and text."""

    fault: Fault
    verdict: str
    caught_by: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the named check caught it and it was not accepted."""
        return self.verdict != Verdict.ACCEPT and len(self.others) < len(self.caught_by)

    @property
    def others(self) -> list[str]:
        """What else argues for the verdict."""
        return [found for found in self.caught_by if not _names(found, self.fault.caught_by)]


@dataclass(frozen=True, slots=True)
class Sound:
    """A comparison without a fault, which must be accepted."""

    name: str
    verdict: str
    text: str

    @property
    def ok(self) -> bool:
        """Whether it was accepted."""
        return self.verdict == Verdict.ACCEPT


def faults(level: Level) -> list[Fault]:
    """All faults of a level, by name."""
    package = _PACKAGES[level]
    found = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        title = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        found.append(Fault(info.name, level, title, module.CAUGHT_BY))
    return found


def decided(fault: Fault, decision: Mapping[str, Any]) -> Result:
    """The result of a fault that came to a decision record."""
    verdict = decision["verdict"]
    arguing = [reason for reason in decision["reasons"] if reason["verdict"] == verdict]
    return Result(fault, verdict, tuple(f"{reason['code']} {reason['text']}" for reason in arguing))


def raised(fault: Fault, error: GateError) -> Result:
    """The result of a fault that the gate refused with an error, which no run survives."""
    return Result(fault, "ERROR", (f"{type(error).__name__} {error.message}",))


def _names(found: str, wanted: str) -> bool:
    """Whether ``wanted`` names what was found: the same check, and all its words among those of the text."""
    kind, *words = wanted.split()
    check, *told = _WORD.findall(found)
    return check == kind and set(words) <= set(told)
