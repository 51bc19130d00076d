"""A small golden set and a tiny candidate on disk, sound both of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from selftest_samples import LAYERS, METRICS, MODULES, make_turn

from pipeline.golden import GoldenSet
from pipeline.selftest.case import Case, make_case
from pipeline.settings import GateSettings

sys.path.append(str(Path(__file__).parent.parent / "inspection"))  # its tiny llama, quantized by its own code
from checkpoints import CONFIG, SCHEMES, llama, quantize, write

TEMPLATE = """{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' -}}"""


@pytest.fixture(scope="session")
def policy() -> GateSettings:
    """Two gating metrics with margins that a hundred turns can prove."""
    return GateSettings.model_validate({"metrics": METRICS})


@pytest.fixture(scope="session")
def golden() -> GoldenSet:
    """120 turns, every tenth critical."""
    turns = tuple(make_turn(n, critical=n % 10 == 0) for n in range(120))
    return GoldenSet("small", "small", "d" * 64, 120, 60, turns, {"orders": 120})


@pytest.fixture(scope="session")
def case(golden: GoldenSet, policy: GateSettings) -> Case:
    """A sound case on the small set."""
    return make_case(golden, policy)


@pytest.fixture(scope="session")
def make_candidate(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Writes baseline and candidate of a scheme, with tied embeddings as the embedded model has them."""
    made: dict[str, tuple[Path, Path]] = {}
    config = {**CONFIG, "num_hidden_layers": LAYERS, "tie_word_embeddings": True, "rope_theta": 100000.0}

    def make(scheme: str) -> tuple[Path, Path]:
        if scheme not in made:
            root = tmp_path_factory.mktemp(scheme)
            how, declared = SCHEMES[scheme]
            tensors = llama(tied=True, layers=LAYERS)
            baseline = write(root / "baseline", tensors, config)
            candidate = write(
                root / "candidate",
                quantize(tensors, how, MODULES),
                {**config, "quantization_config": declared},
            )
            for side in (baseline, candidate):
                (side / "chat_template.jinja").write_text(TEMPLATE)
            made[scheme] = baseline, candidate
        return made[scheme]

    return make
