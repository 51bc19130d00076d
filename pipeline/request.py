"""What a user asks the gate for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from pipeline.quantizers import embedded
from pipeline.secrets import scrubbed
from pipeline.settings import CONFIGS, PROJECT_ROOT

CALIBRATION = PROJECT_ROOT / "golden_sets" / "calibration"
SUPPORT = PROJECT_ROOT / "golden_sets" / "support"


@dataclass(frozen=True, slots=True)
class Request:
    """What to gate, as the user gave it: names or paths."""

    model: str = "demo"
    recipe: str = "fp8-dynamic"
    golden: str = str(SUPPORT)
    serving: str = "default"
    policy: Path | None = None
    explore: bool = False
    """Go on where the golden set is too small to decide; the verdict is never ACCEPT."""
    calibration: str = str(CALIBRATION)
    combined: bool = False
    """Allow a recipe that changes weights and KV cache at once; the record states it."""
    load: bool = False
    """Put load on both sides as well."""

    @property
    def command(self) -> str:
        """The shell command that repeats this run, without secrets that a URL may hold."""
        default = Request()
        words = ["quant-gate", "run", "--model", self.model, "--recipe", self.recipe]
        if self.golden != default.golden:
            words += ["--golden", self.golden]
        if self.serving != default.serving:
            words += ["--serving", self.serving]
        if self.policy is not None:
            words += ["--policy", str(self.policy)]
        if self.explore:
            words.append("--explore")
        if self.calibration != default.calibration:
            words += ["--calibration", self.calibration]
        words += [f"--{name}" for name in ("combined", "load") if getattr(self, name)]
        return scrubbed(shlex.join(words))


def default_policy(model: str) -> Path:
    """The decision policy of a request that names none: the embedded models are for a quick tour."""
    return CONFIGS / ("gate-demo.yaml" if model in embedded.NAMES else "gate.yaml")
