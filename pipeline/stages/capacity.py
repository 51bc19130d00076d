"""Memory planning for a model as the user names it, from what is on this machine: nothing is fetched or built."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from pipeline import environments
from pipeline.capacity import DEFAULT_RECIPES, MemoryPlan, Traffic, choose_cards, load_of, plan_memory
from pipeline.errors import UsageError
from pipeline.inspection import load_hardware
from pipeline.quantizers import embedded
from pipeline.settings import ServingSettings, load_recipe
from pipeline.stages import resolve
from pipeline.store import Store


def run(
    store: Store,
    model: str,
    serving: ServingSettings,
    *,
    cards: Sequence[str] = (),
    recipes: Sequence[str] = (),
    context: int | None = None,
    cards_per_model: int | None = None,
    traffic: Traffic | None = None,
) -> MemoryPlan | None:
    """The plan, or None where neither the model nor its config is on this machine.

    :param cards: names in ``configs/hardware.yaml``, ``all``; none: its targets.
    :param recipes: what to make of a BF16 checkpoint; none: one for each kind of scheme.
    :param context: tokens of a sequence; none: ``max_model_len``.
    :param cards_per_model: cards that share the model; none: ``tensor_parallel_size`` of ``configs/hardware.yaml``.
    :raises InputError: an unknown card or recipe, or a model that cannot be counted.
    """
    hardware = load_hardware()
    chosen = choose_cards(cards, hardware)
    known = [load_recipe(name) for name in recipes or DEFAULT_RECIPES]
    load = load_of(serving, cards_per_model or hardware.tensor_parallel_size, context)
    folder = on_this_machine(store, model)
    return plan_memory(folder, model, known, chosen, hardware, load, traffic) if folder else None


def traffic_of(users: int | None, think_s: float, answer_s: float | None) -> Traffic | None:
    """What is to be served, where the user says so.

    :raises UsageError: half of it is missing.
    """
    if (users is None) != (answer_s is None):
        raise UsageError("--users and --answer-s belong together", "Give both: how many users, and how long they wait.")
    return None if users is None or answer_s is None else Traffic(users, think_s, answer_s)


def on_this_machine(store: Store, model: str) -> Path | None:
    """The directory of a model's config: a directory, a demo model that was built, or the hub's local cache."""
    if model in embedded.NAMES:
        found = store.find(resolve.STAGE, embedded.inputs(model, environments.env_digest("quantize")))
        return found.path / "checkpoint" if found else None
    if folder := resolve.directory(model):
        return folder
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    name, _, revision = model.partition("@")
    with contextlib.suppress(HFValidationError):  # no hub id either
        cached = try_to_load_from_cache(name, "config.json", revision=revision or None)
        return Path(cached).parent if isinstance(cached, str) else None
    return None
