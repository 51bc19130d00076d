"""One variable at a time: what differs between two sides, as far as it is known, and whether that is one thing.

A loss with two changes behind it belongs to neither: an FP8 cache may hide behind good FP8 weights until both are
shipped, and be blamed on the weights when it shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.digests import canonical_json
from pipeline.errors import UsageError
from pipeline.settings import Recipe, ServingSettings

WEIGHTS, FLAGS, DECLARED_FLAGS = "weights", "extra_args", "flags"
OF_THE_CHECKPOINT = "of the checkpoint"
_SHOWN = 60
_OPERATIONAL = frozenset({"startup_timeout_s"})
"""Settings that nothing served depends on."""
_ADDRESS = frozenset({"--host", "--port", "--served-model-name"})
"""Flags that say where and under which name something is served."""
IN_EFFECT = {
    "max_model_len": "max_seq_len",
    **dict.fromkeys(("--speculative-config", "-sc"), "speculative_config"),
    **dict.fromkeys(("--spec-method", "--spec-model", "--spec-tokens"), "speculative_config"),
    "--enable-chunked-prefill": "enable_chunked_prefill",
    "--no-enable-chunked-prefill": "enable_chunked_prefill",
}
"""Settings and flags that the running engine calls otherwise."""
TEMPLATE = "chat_template"


def of_checkpoint(digest: str, checkpoint: Path, serving: ServingSettings) -> dict[str, Any]:
    """The variables of a checkpoint that we serve.

    ``kv_cache_dtype: auto`` obeys the checkpoint, so what its config asks for stands in its place.
    """
    settings = {k: v for k, v in serving.model_dump(mode="json").items() if k not in _OPERATIONAL}
    if serving.kv_cache_dtype == "auto" and (scheme := _kv_scheme(checkpoint)):
        settings["kv_cache_dtype"] = scheme
    return {WEIGHTS: digest, **settings, FLAGS: _flags(serving.extra_args)}


def declared_flags(words: Sequence[str]) -> dict[str, dict[str, str]]:
    """The flags that were declared of an endpoint, as one of its variables; nothing where none were.

    They are held against other declared ones alone: what we serve has settings by name, and defaults of its own.
    """
    flags = {name: value for name, value in _flags(words).items() if name not in _ADDRESS}
    return {DECLARED_FLAGS: flags} if words else {}


def _flags(words: Sequence[str]) -> dict[str, str]:
    """Value of each flag, however it is written; empty for one without. The engine takes ``_`` for ``-`` in names."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if flag := re.match(r"(--?[A-Za-z][^.=]*)([^=]*)=?(.*)", word, re.DOTALL):
            level = re.fullmatch(r"(-[A-Z])(\d+)", flag[1])  # -O3 is -O 3
            name = level[1] if level else flag[1].replace("_", "-") + flag[2]
            found[name] = level[2] if level else flag[3]
        else:
            found[name] = f"{found.get(name, '')} {word}".strip()
    return found


def _kv_scheme(checkpoint: Path) -> str | None:
    try:
        config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))["quantization_config"]
        scheme = config["kv_cache_scheme"]
        return f"{scheme['type']}{scheme['num_bits']} {OF_THE_CHECKPOINT}"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def of_recipe(recipe: Recipe) -> dict[str, tuple[Any, Any]]:
    """What a recipe changes: the weights, and the KV cache where it quantizes that as well."""
    cache = {"kv_cache_dtype": ("as the weights", f"{recipe.kv_cache}, calibrated")} if recipe.kv_cache else {}
    return {WEIGHTS: ("as they are", recipe.scheme), **cache}


def changed(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Variables that are known of both sides and differ, with both values; each further flag is one of its own."""
    both = [name for name in baseline if name in candidate and name not in (FLAGS, DECLARED_FLAGS)]
    changes = {name: (baseline[name], candidate[name]) for name in both if baseline[name] != candidate[name]}
    for kind in (FLAGS, DECLARED_FLAGS):
        before, after = baseline.get(kind), candidate.get(kind)
        if before is None or after is None:
            continue
        for flag in sorted({*before, *after}):
            if before.get(flag) != after.get(flag):
                changes[flag] = (_given(before, flag), _given(after, flag))
    return changes


def _given(flags: Mapping[str, str], flag: str) -> str:
    return flags[flag] or "set" if flag in flags else "not set"


def demand_one(changes: Mapping[str, tuple[Any, Any]], combined: bool) -> None:
    """Refuse more than one change at a time, unless that is meant, and another template in any case.

    :raises UsageError: names them.
    """
    if TEMPLATE in changes:
        raise UsageError(
            f"baseline and candidate would read other prompts: {'; '.join(told({TEMPLATE: changes[TEMPLATE]}))}",
            "Serve both with the same chat_template: replies to other prompts cannot be compared turn by turn.",
        )
    if len(changes) > 1 and not combined:
        raise UsageError(
            f"baseline and candidate differ in {len(changes)} variables at once: {'; '.join(told(changes))}",
            "Change one at a time, or say --combined: the record then states that no change is judged by itself.",
        )


def told(changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """Each change in words: ``kv_cache_dtype: auto -> fp8``."""
    return [f"{name}: {_shown(before)} -> {_shown(after)}" for name, (before, after) in changes.items()]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return text if len(text) <= _SHOWN else f"{text[:16]}..."


def combined(changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """What a verdict on several changes at once is conditional on; nothing for a single one."""
    if len(changes) < 2:
        return []
    return [
        f"all of these changes together (--combined), no single one of them being judged: {'; '.join(told(changes))}."
    ]


def in_effect(name: str) -> str:
    """What the running engine says of a setting or flag; named as in ``comparability``."""
    return f"{IN_EFFECT.get(name.partition('.')[0], name)} in effect"


def may_differ(changes: Mapping[str, tuple[Any, Any]]) -> frozenset[str]:
    """What the replays' engines may differ in because of the changes; names as in ``comparability``."""
    settings = changes.keys() - {WEIGHTS}
    if not settings:
        return frozenset()
    return frozenset({"flags", *map(in_effect, settings), *({"environment"} if "cpu_kv_cache_gib" in settings else ())})
