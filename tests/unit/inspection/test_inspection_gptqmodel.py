"""Checkpoints that GPTQModel itself made are sound, and spoilt they are not.

``gptqmodel/`` holds a random llama (2 layers, hidden 64, inner 128, 259 tokens, tied head) and what GPTQModel 7.7.0
with transformers 5.24 and torch 2.13 on a CPU made of it from 24 sentences: ``plain`` in INT4 with groups of 32,
``rules`` with one MLP left alone and one o_proj at 8 bits (``dynamic``). As written, but for the path of a temporary
directory.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from inspecting import Inspect, named

from pipeline.inspection import Severity

MADE = Path(__file__).parent / "gptqmodel"


@pytest.mark.parametrize("name", ["plain", "rules"])
def test_what_gptqmodel_makes_is_clean(inspect: Inspect, name: str) -> None:
    assert inspect(MADE / name, MADE / "baseline") == ()


def test_it_declares_itself_in_a_file_of_its_own_as_well(inspect: Inspect, tmp_path: Path) -> None:
    """As checkpoints of older releases do, whose config.json says nothing."""
    folder = Path(shutil.copytree(MADE / "rules", tmp_path / "rules"))
    config = json.loads((folder / "config.json").read_text())
    config.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(config))
    assert inspect(folder, MADE / "baseline") == ()


def test_its_rules_are_what_tells_its_modules_apart(inspect: Inspect, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(MADE / "rules", tmp_path / "rules"))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"].pop("dynamic")
    (folder / "config.json").write_text(json.dumps(config))
    found = inspect(folder, MADE / "baseline")
    assert {"scheme-coverage", "tensor-shape"} <= named(found)
    assert {f.severity for f in found if f.check in ("scheme-coverage", "tensor-shape")} == {Severity.FATAL}
