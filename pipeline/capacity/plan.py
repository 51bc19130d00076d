"""The plan: every build of a model with every type of cache on every card, and which to prefer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.capacity.memory import Load, Naive, Pool, against_naive, plan_pool
from pipeline.capacity.model import Model, read_model
from pipeline.capacity.traffic import Traffic, decode_ceiling
from pipeline.capacity.weights import Weights, builds
from pipeline.errors import SettingsError
from pipeline.inspection.hardware import Gpu, Hardware, serves_fp8_kv, service
from pipeline.inspection.schemes import Scheme
from pipeline.settings import Recipe, ServingSettings

KV_BYTES = {"bf16": 2, "fp8": 1}
"""Bytes of an element of the cache by type."""
DEFAULT_RECIPES = ("fp8-dynamic", "int8-w8a8", "int4-awq")
ALL_CARDS = "all"
_CARDS = (1, 2, 4, 8, 16)
_MOST = 10**9
"""The most tokens and sequences that are planned: beyond any engine, and nothing computed from it overflows."""
_FP8 = Scheme("plain", 8, True, symmetric=True, activations="dynamic")
_INT8 = Scheme("plain", 8, False, symmetric=True, activations="dynamic")
_LEVELS = ("native", "fallback", "missing")


@dataclass(frozen=True, slots=True)
class Row:
    """One build with one type of cache on one card, or on several that share it.

    :ivar level: how the engine serves the build there, the worst of its schemes; ``missing``: not at all.
    :ivar note: what is lesser about it.
    :ivar alone: upper limit of tokens a second for one sequence; 0 where none fits.
    :ivar together: the same for as many sequences as fit and run at once.
    """

    weights: Weights
    kv: str
    pool: Pool
    naive: Naive
    kinds: tuple[str, ...]
    level: str
    note: str
    alone: float
    together: float

    @property
    def served(self) -> bool:
        """The engine serves it there, and it fits."""
        return self.level != "missing" and self.pool.sequences > 0


@dataclass(frozen=True, slots=True)
class CardPlan:
    """All builds on one card.

    :ivar advice: which scheme the card runs natively, and what to prefer.
    :ivar preferred: the first choice among the rows that hold the traffic; where none is given, among those that hold
        half as many sequences as any.
    :ivar cards_needed: where there is none, the least number of cards that share the model, if any is enough.
    """

    name: str
    gpu: Gpu
    rows: tuple[Row, ...]
    advice: str
    preferred: Row | None
    cards_needed: int | None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the model needs and what cards hold."""

    source: str
    model: Model
    load: Load
    builds: tuple[Weights, ...]
    cards: tuple[CardPlan, ...]
    traffic: Traffic | None


def load_of(serving: ServingSettings, cards: int, context: int | None = None) -> Load:
    """How an engine with these settings is run.

    :raises SettingsError: ``extra_args`` sets something that is no number, or a number is beyond all sense.
    """
    tokens = _extra(serving, "--max-num-batched-tokens")
    sizes = {
        "--context" if context else "max_model_len": context or serving.max_model_len,
        "max_num_seqs": serving.max_num_seqs,
        "extra_args: --max-num-batched-tokens": tokens or 0,
    }
    if beyond := [name for name, size in sizes.items() if size > _MOST]:
        raise SettingsError(f"{beyond[0]} is above {_MOST:,}", "Give what the engine is to be run with.")
    return Load(
        context=context or serving.max_model_len,
        cards=cards,
        share=serving.gpu_memory_utilization,
        rows=serving.max_num_seqs,
        batched_tokens=tokens,
        eager=serving.enforce_eager,
        dtype=serving.dtype,
    )


def _extra(serving: ServingSettings, flag: str) -> int | None:
    """The number that ``extra_args`` gives for a flag, in whatever way the engine takes both."""
    words = [part for word in serving.extra_args for part in word.split("=", 1)]
    places = [number for number, word in enumerate(words) if word.replace("_", "-") == flag]
    if not places:
        return None
    value = "".join(words[places[-1] + 1 :][:1])
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)|(\d{1,12}(?:\.\d+)?)([kmgt])", value)
    if not found:
        raise SettingsError(
            f"extra_args: {flag} {value!r} is not a whole number, such as 8192, 8k (8,000) or 8K (8,192)",
            "Correct it in configs/serving.",
        )
    whole, binary, share, decimal = found.groups()
    factor: int = 1024 ** " KMGT".index(binary or " ") if whole else 1000 ** " kmgt".index(decimal)
    return int(whole) * factor if whole else int(float(share) * factor)


def choose_cards(names: Sequence[str], hardware: Hardware) -> list[str]:
    """The cards to plan for: those named, all of them for ``all``, the targets where none is named.

    :raises SettingsError: a name that is not in ``configs/hardware.yaml``.
    """
    if not names:
        return list(hardware.targets)
    if ALL_CARDS in names:
        return list(hardware.gpus)
    if unknown := [name for name in names if name not in hardware.gpus]:
        raise SettingsError(
            f"unknown card {unknown[0]!r}",
            f"Known: {', '.join(hardware.gpus)}; or add it to configs/hardware.yaml with its memory and bandwidth.",
        )
    return list(dict.fromkeys(names))


def plan_memory(
    folder: Path,
    source: str,
    recipes: Sequence[Recipe],
    cards: Sequence[str],
    hardware: Hardware,
    load: Load,
    traffic: Traffic | None = None,
) -> MemoryPlan:
    """Plan for a checkpoint, or for a folder that holds a ``config.json`` alone.

    :param recipes: what to make of it; ignored where it is quantized already.
    :raises ModelError: the model cannot be counted.
    :raises RecipeError: a recipe does not fit it.
    :raises SettingsError: its heads cannot be shared by so many cards.
    """
    model = read_model(folder)
    weights = builds(folder, model, recipes)
    plans = tuple(_card(model, weights, name, hardware, load, traffic) for name in cards)
    return MemoryPlan(source, model, load, tuple(weights), plans, traffic)


def _card(
    model: Model, every: Sequence[Weights], name: str, hardware: Hardware, load: Load, traffic: Traffic | None
) -> CardPlan:
    gpu = hardware.gpus[name]
    rows = tuple(_row(model, weights, kv, name, hardware, load) for weights in every for kv in KV_BYTES)
    wanted = math.ceil(traffic.in_flight) if traffic else None
    preferred = _preferred(rows, gpu, hardware, wanted)
    needed = None
    if preferred is None:
        for count in _CARDS:
            if count <= load.cards or model.attention.heads % count:
                continue
            more = replace(load, cards=count)
            shared = [_row(model, weights, kv, name, hardware, more) for weights in every for kv in KV_BYTES]
            if _preferred(shared, gpu, hardware, wanted):
                needed = count
                break
    return CardPlan(name, gpu, rows, _advice(gpu, hardware), preferred, needed)


def _row(model: Model, weights: Weights, kv: str, name: str, hardware: Hardware, load: Load) -> Row:
    gpu, kv_bytes = hardware.gpus[name], KV_BYTES[kv]
    pool = plan_pool(model, weights, name, gpu, load, kv_bytes)
    services = [service(scheme, gpu, hardware) for scheme in weights.schemes]
    worst = max(services, key=lambda found: _LEVELS.index(found.level), default=None)
    level, note = (worst.level, worst.note) if worst else ("native", "")
    if kv == "fp8" and not serves_fp8_kv(gpu, hardware):
        level, note = "missing", "the engine keeps no FP8 cache there"
    if load.dtype == "bfloat16" and "bf16" not in gpu.native:  # vLLM 0.32, platforms/cuda.py: from 8.0 on
        level, note = "missing", "the engine refuses dtype bfloat16 there: set float16 in the serving file"

    def ceiling(sequences: int) -> float:
        return decode_ceiling(
            model, weights, gpu, sequences=sequences, context=load.context, kv_bytes=kv_bytes, cards=load.cards
        )

    at_once = min(pool.sequences, load.rows)
    return Row(
        weights,
        kv,
        pool,
        against_naive(model, weights, gpu, load, kv_bytes, pool),
        tuple(found.kind for found in services),
        level,
        note,
        ceiling(1) if at_once else 0.0,
        ceiling(at_once) if at_once else 0.0,
    )


def _preferred(rows: Sequence[Row], gpu: Gpu, hardware: Hardware, wanted: int | None) -> Row | None:
    """The first choice among rows that hold ``wanted`` sequences.

    FP8 where its products run natively, else INT8; then weights with 16-bit products; last what is not quantized, which
    needs no gate. A smaller cache before a larger one.
    """
    running = [row for row in rows if row.served and row.level == "native"]
    if wanted is None:
        wanted = math.ceil(max((row.pool.sequences for row in running), default=0) / 2)
    native = service(_FP8, gpu, hardware).level == "native"
    order = ["fp8", "int8"] if native else ["int8"]

    def rank(row: Row) -> tuple[int, int]:
        kind = row.kinds[0] if row.kinds else ""
        place = order.index(kind) if kind in order else len(order) + (0 if kind else 1)
        return place, row.kv == "bf16"

    return min((row for row in running if row.pool.sequences >= wanted), key=rank, default=None)


def _advice(gpu: Gpu, hardware: Hardware) -> str:
    if service(_FP8, gpu, hardware).level == "native":
        text = "multiplies FP8 natively: prefer FP8 weights"
        text += " and an FP8 KV cache" if serves_fp8_kv(gpu, hardware) else ""
        return f"{text}; INT4 where memory decides (its products run in 16 bits)"
    if service(_INT8, gpu, hardware).level == "native":
        return (
            "has no FP8 units (an FP8 build keeps only its weights in FP8): prefer INT8 for throughput, INT4 where "
            "memory or the speed of a single answer decides"
        )
    return "multiplies neither FP8 nor INT8 in this engine: prefer INT4 weights"
