"""``configs/slo.yaml``: the service level, and how load is put on a server."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pipeline.settings import CONFIGS, load_settings

TIMEOUT_S = 3600.0
"""After so long a run of `bench serve` is stopped."""
_MOST_REQUESTS = 1_000_000
"""Of one run: they are written to a file, one a line."""
Users = Annotated[
    tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(strict=False, min_length=1)
]  # YAML has lists only
Milliseconds = Annotated[float, Field(gt=0, le=TIMEOUT_S * 1000)]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Sweep(_Facts):
    """How much is measured."""

    users: Users = Field((1, 8, 16, 32, 48, 64), description="requests in flight at most, level by level")
    prompts_per_user: int = Field(4, ge=1, le=_MOST_REQUESTS, description="so many requests at each level")
    repeats: int = Field(
        4, ge=2, le=1000, description="measurements of both sides, in pairs; a single one shows no limits"
    )

    @model_validator(mode="after")
    def _growing(self) -> Sweep:
        if any(later <= earlier for earlier, later in pairwise(self.users)):
            raise ValueError("users must increase")
        if self.users[-1] * self.prompts_per_user > _MOST_REQUESTS:
            raise ValueError(f"users times prompts_per_user is above {_MOST_REQUESTS:,} requests in one run")
        return self


class Arrivals(_Facts):
    """When requests come."""

    think_time_s: float | None = Field(None, description="between a reply and the next request of a user")
    burstiness: float = Field(
        1.0, gt=0, le=1000, description="shape of the gamma distribution of intervals; 1: Poisson"
    )

    @field_validator("think_time_s")
    @classmethod
    def _some(cls, value: float | None) -> float | None:
        """Zero would still hold requests back by the longest reply allowed: far less load than asking again at once."""
        if value is not None and value <= 0:
            raise ValueError("must be above 0; null means that each user asks again at once")
        return value


class Level(_Facts):
    """What a request may take at the 95th percentile, milliseconds, and what is swept."""

    ttft_ms: Milliseconds = 1000
    tpot_ms: Milliseconds = 50
    e2el_ms: Milliseconds = 10000
    sweep: Sweep = Sweep()


class LoadSettings(Level):
    """The whole file."""

    arrivals: Arrivals = Arrivals()
    cpu: Level | None = Field(None, description="used instead where the engine runs on a CPU")

    @model_validator(mode="after")
    def _runs_end(self) -> LoadSettings:
        """Requests of a run with think time come at their own pace, and it is stopped after an hour."""
        if (think := self.arrivals.think_time_s) is None:
            return self
        for where, level in (("", self), ("cpu.", self.cpu)):
            if level and (seconds := _arriving(level, think)) >= TIMEOUT_S:
                raise ValueError(
                    f"with arrivals.think_time_s {think:g}, {where}e2el_ms {level.e2el_ms:g} and "
                    f"{where}sweep.prompts_per_user {level.sweep.prompts_per_user} the requests of one run arrive over "
                    f"{seconds:g} s, and it is stopped after {TIMEOUT_S:,.0f}"
                )
        return self

    def on(self, device: str) -> LoadSettings:
        """The settings for a device, ``cpu`` or ``cuda``."""
        if device != "cpu" or self.cpu is None:
            return self.model_copy(update={"cpu": None})
        return LoadSettings(arrivals=self.arrivals, **dict(self.cpu))

    def request_rate(self, users: int) -> float | None:
        """Requests a second that so many users with their think time make; None: each asks again at once.

        Little's law for a closed system, users = rate * (think time + response time), with the longest response that
        the service level allows, so that both sides are offered the same.
        """
        think = self.arrivals.think_time_s
        return None if think is None else users / (think + self.e2el_ms / 1000)

    def least_seconds(self) -> float | None:
        """How long requests with think time arrive in a whole sweep of both sides; None: as fast as they are answered.

        At every level a run lasts as long: twice the users ask twice as often, and twice as much.
        """
        if (think := self.arrivals.think_time_s) is None:
            return None
        runs = len(self.sweep.users) * self.sweep.repeats * 2 * 2  # both sides, with an empty cache and with a warm one
        return runs * _arriving(self, think)


def _arriving(level: Level, think_s: float) -> float:
    """Seconds over which the requests of one run arrive, however many users there are."""
    return level.sweep.prompts_per_user * (think_s + level.e2el_ms / 1000)


def load_load_settings(path: Path | None = None) -> LoadSettings:
    """Read ``configs/slo.yaml`` or another file.

    :raises SettingsError: unreadable or invalid; names line and field.
    """
    return load_settings(path or CONFIGS / "slo.yaml", LoadSettings)
