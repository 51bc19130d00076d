"""The catalogue: which faults there are, and how what caught one is named.

A fault is a module of ``replies/`` or ``checkpoints/``. Its ``CAUGHT_BY`` names the check that must catch it:

``METRIC_LOSS tool_call_correct``   a reason code of the decision, with the metric or slice that it speaks of
``CRITICAL_TURN``                   a reason code that speaks of no metric
``RecordError altered``             an error of the gate, with words of its message
``inspect scale-value``             a check of the inspection

Caught means: that check found it, what it found argues for the verdict, and the verdict is not ACCEPT. A fault that
only another check caught is missed: tomorrow that check may be tuned for something else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from pipeline.errors import GateError, Verdict
from pipeline.selftest import checkpoints, replies

Level = Literal["reply", "checkpoint"]
_PACKAGES: Mapping[Level, ModuleType] = {"reply": replies, "checkpoint": checkpoints}


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
    """What became of a fault. ``caught_by`` are the checks that argue for ``verdict``, weightiest first."""

    fault: Fault
    verdict: str
    caught_by: tuple[str, ...]
    text: str

    @property
    def ok(self) -> bool:
        """Whether the named check caught it and it was not accepted."""
        return self.verdict != Verdict.ACCEPT and any(_names(found, self.fault.caught_by) for found in self.caught_by)


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
    return Result(fault, verdict, tuple(map(_reason, arguing)), arguing[0]["text"])


def raised(fault: Fault, error: GateError) -> Result:
    """The result of a fault that the gate refused with an error, which no run survives."""
    found = f"{type(error).__name__} {error.message}"
    return Result(fault, "ERROR", (found,), error.message)


def _reason(reason: Mapping[str, Any]) -> str:
    part = reason["figures"].get("slice") or reason["metric"]
    return f"{reason['code']} {part}" if part else str(reason["code"])


def _names(found: str, wanted: str) -> bool:
    """Whether ``wanted`` names what was found: the same kind, and all its words in it."""
    kind, *words = wanted.split(" ", 1)
    return found.split(" ", 1)[0] == kind and all(word in found for word in words)
