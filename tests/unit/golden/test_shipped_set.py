"""The golden set that ships with the project: complete, clean, and what its authoring scripts make."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline.golden import GoldenSet, check, load
from pipeline.settings import PROJECT_ROOT

GOLDEN_SETS = PROJECT_ROOT / "golden_sets"
SUPPORT = GOLDEN_SETS / "support"
LEAST = {  # what docs/golden-sets.md promises, in turns
    "refunds": 80,
    "tool_calls": 180,
    "must_refuse": 80,
    "look_alike": 80,
    "must_not_refuse": 80,
    "escalation": 60,
    "long_history": 60,
    "injection": 60,
    "retrieved_documents": 40,
    "clarify": 40,
    "multi_step": 60,
    "languages": 30,
    "short_prompt": 40,
}


@pytest.fixture(scope="module")
def shipped() -> GoldenSet:
    return load(SUPPORT)


def test_it_has_no_complaints() -> None:
    assert check(SUPPORT) == []


def test_it_is_as_large_as_promised(shipped: GoldenSet) -> None:
    assert len(shipped.turns) >= 600
    assert shipped.scenarios >= 240
    assert {name: n for name, n in LEAST.items() if shipped.slice_counts[name] < n} == {}
    assert sum(turn.expect.critical for turn in shipped.turns) >= 60
    assert len({tool["function"]["name"] for turn in shipped.turns for tool in turn.tools}) >= 12
    businesses = Counter(turn.policy.id for turn in shipped.turns if turn.policy)
    assert set(businesses) == {"retail", "telecom", "travel"}


def test_its_short_prompts_are_short_and_some_histories_long(shipped: GoldenSet) -> None:
    for turn in shipped.turns:
        words = sum(len(str(message["content"]).split()) for message in turn.messages)
        if "short_prompt" in turn.slices:
            assert words < 45  # under 50 tokens was counted with a tokenizer; a word is a token or more
            assert not turn.tools
    messages = [len(turn.messages) - 1 for turn in shipped.turns if "long_history" in turn.slices]
    assert min(messages) >= 20
    assert max(messages) <= 60


def test_its_scripts_reproduce_it_byte_for_byte(tmp_path: Path) -> None:
    copy = tmp_path / "golden_sets"
    shutil.copytree(GOLDEN_SETS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    made = [*copy.glob("support/transcripts/*.jsonl"), *copy.glob("calibration/*.jsonl")]
    for file in made:
        file.unlink()
    scripts = sorted((copy / "support" / "authoring").glob("*.py"), key=lambda path: "calibration" in path.name)
    for script in scripts:
        subprocess.run([sys.executable, str(script)], check=True, capture_output=True)
    for file in made:
        original = GOLDEN_SETS / file.relative_to(copy)
        assert file.read_bytes() == original.read_bytes(), original.name
