"""Which fields a part of a settings file may have, for the message that refuses another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def remedy_for(model: type[BaseModel], error: ValidationError) -> str:
    """Names the fields that there are where the first unknown one stands, else where the first fault is."""
    faults = error.errors()
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    return f"{known_fields(model, (unknown or faults)[0]['loc'])}."


def known_fields(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """``Known fields of baseline: model, weights`` for a fault at ``location``, as pydantic gives it.

    Names the fields of the innermost part that the fault lies in; of the whole file where that cannot be told.
    """
    inside: Any = model
    for part in location[:-1]:
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            field = inside.model_fields.get(str(part))
            inside = _meant(field.annotation) if field else None
        else:  # a key of a mapping, a place in a list: what stands there
            inside = _meant((get_args(inside) or [None])[-1 if isinstance(part, str) else 0])
    if isinstance(inside, type) and issubclass(inside, BaseModel) and inside is not model:
        return f"Known fields of {'.'.join(map(str, location[:-1]))}: {', '.join(inside.model_fields)}"
    return f"Known fields: {', '.join(model.model_fields)}"


def _meant(annotation: Any) -> Any:
    """``annotation`` without ``None`` and constraints."""
    if hasattr(annotation, "__metadata__"):
        return _meant(get_args(annotation)[0])
    if type(None) in (kinds := get_args(annotation)):
        return _meant(next(kind for kind in kinds if kind is not type(None)))
    return annotation
