"""What a user declares of endpoints: one file with a section for each side. Nothing in it is measured."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipeline.secrets import find_secret
from pipeline.settings import Flags, load_settings

_MOST = 10**15
"""More than any endpoint holds, and still a number that can be reckoned with as a fraction."""


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Declared(_Facts):
    """What one endpoint is said to serve, and how."""

    model: str | None = Field(None, description="name to ask for; needed where the endpoint lists several")
    weights: str | None = Field(None, description="what the weights are: a digest, a repository with its revision")
    weight_bytes: int | None = Field(None, ge=1, le=_MOST)
    engine: str | None = Field(None, description="name and version of what serves it")
    kv_cache_dtype: str | None = None
    kv_tokens: int | None = Field(None, ge=1, le=_MOST, description="tokens that fit into its KV cache")
    flags: Flags = ()

    @field_validator("model", "weights", "engine", "kv_cache_dtype")
    @classmethod
    def _no_secrets(cls, text: str | None) -> str | None:
        if text is not None and (kind := find_secret(text)):
            raise ValueError(f"holds {kind}; declarations are kept in records, logs and reports")
        return text

    def told(self) -> dict[str, object]:
        """What was declared, as JSON values."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Declarations(_Facts):
    """The file that ``--declared`` names."""

    baseline: Declared = Declared()
    candidate: Declared = Declared()


def load_declarations(path: Path | None) -> Declarations:
    """Read the file; nothing is declared without one.

    :raises SettingsError: unreadable or invalid; names line and field.
    """
    return load_settings(path, Declarations) if path else Declarations()
