"""What every unit test can rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.processes import supervised


@pytest.fixture(autouse=True)
def _reopened() -> Iterator[None]:
    """Let processes be started again after a test that was interrupted on purpose."""
    yield
    with supervised():
        pass
