"""What the tests of the inspection say to each other; not in ``conftest``, a name that each folder has."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.inspection import Finding

Inspect = Callable[..., tuple[Finding, ...]]
"""The fixture ``inspect``."""


def named(findings: tuple[Finding, ...]) -> set[str]:
    """Names of the checks that found something."""
    return {found.check for found in findings}
