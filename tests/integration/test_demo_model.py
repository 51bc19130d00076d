"""The trainer's own forward and backward pass against transformers and peft."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pipeline import environments
from pipeline.errors import EnvironmentMissing
from pipeline.settings import PROJECT_ROOT

SCRIPT = Path(__file__).with_name("compare_lora_llama.py")


@pytest.mark.parametrize(("prefix", "frozen"), [(0, 0), (11, 0), (11, 1)])
def test_loss_and_gradients_are_those_of_transformers_and_peft(prefix: int, frozen: int) -> None:
    try:
        python = environments.python_of("quantize")  # holds transformers and peft, as the training environment does
    except EnvironmentMissing as error:
        pytest.skip(f"no quantize environment: {error.message}")
    ran = subprocess.run(
        [python, SCRIPT, PROJECT_ROOT / "examples" / "demo_model", str(prefix), str(frozen)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["tensors"] == 2 * (2 - frozen) * 7  # two factors, two layers, seven linear modules
    assert found["loss"] < 1e-5
    assert found["gradient"] < 1e-3
