"""Where a card's memory goes: weights, what the engine needs to work, and the pool of the KV cache.

The accounting is vLLM's (``v1/worker/gpu_worker.py``, ``determine_available_memory``): its share of what the driver
reports, minus weights, minus the peak of a profiling run, minus CUDA graphs; the rest is cut into blocks of tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.capacity.model import Attention, Model
from pipeline.capacity.weights import Weights
from pipeline.errors import SettingsError
from pipeline.inspection.hardware import Gpu

GIB = 2**30
BLOCK_TOKENS = 16
"""Tokens of a block of vLLM's KV cache on a GPU."""
ACTIVATION_BYTES = 2
SAMPLER_BYTES = 40
"""Bytes by which sampling one row takes memory for each word of the vocabulary: logits in float32, sorted copies with
their indices, probabilities. From two logs of vLLM: Llama-3-8B, 256 rows: 1.26 GiB (pull request 10511); Qwen2.5-1.5B,
256 rows: 1.40 GiB."""
WORKSPACE_GIB = 0.4
"""What neither weights nor activations explain (context, libraries): 0.08 to 0.36 GiB in logs of vLLM, rounded up."""
GRAPHS_GIB = 0.5
"""CUDA graphs: 0.1 to 0.6 GiB in logs of vLLM 0.2x, for models of 8 to 27 billion parameters."""
NAIVE_OVERHEAD_GIB = 1.5


@dataclass(frozen=True, slots=True)
class Load:
    """How the engine is run.

    :ivar cards: cards that share the model (tensor parallelism).
    :ivar share: part of the reported memory that the engine may take (``gpu_memory_utilization``).
    :ivar rows: sequences in one step at most (``max_num_seqs``).
    :ivar batched_tokens: tokens in one step at most; None: the engine's default for the card.
    :ivar overhead_gib: a measured overhead in place of the estimate.
    :ivar dtype: what activations and unquantized weights are computed in.
    """

    context: int
    cards: int = 1
    share: float = 0.90
    rows: int = 64
    batched_tokens: int | None = None
    eager: bool = False
    overhead_gib: float | None = None
    dtype: str = "bfloat16"


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the engine needs on each card beside weights and cache, bytes."""

    activations: float
    graphs: float
    workspace: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.activations + self.graphs + self.workspace


@dataclass(frozen=True, slots=True)
class Pool:
    """The KV cache of one card, and what it holds. Bytes are those of one card.

    :ivar budget: the engine's share of the card.
    :ivar pool: what is left for the cache; negative: the weights do not fit.
    :ivar tokens: tokens that the pool holds, as the engine logs them (``KV cache size``).
    :ivar sequences: sequences of the target context that it holds at once.
    """

    budget: float
    weights: float
    overhead: Overhead
    pool: float
    token_bytes: int
    tokens: int
    sequences: int


def batched_tokens(name: str, gpu: Gpu, load: Load) -> int:
    """Tokens of the largest step, which profiling allocates for.

    The default by card is that of vLLM's ``EngineArgs.get_batch_defaults`` for a server.
    """
    if load.batched_tokens is not None:
        return load.batched_tokens
    reported = reported_gib(gpu)
    default = 16384 if reported >= 160 else 8192 if reported >= 70 and not name.startswith("a100") else 2048
    return max(default, load.rows)


def reported_gib(gpu: Gpu) -> float:
    """Memory that the engine sees, GiB; that on the label where it is not known."""
    return gpu.reported_gib or gpu.memory_gib


def overhead(model: Model, load: Load, tokens: int) -> Overhead:
    """Estimate what the engine needs on each card beside weights and cache.

    Activations peak in the MLP, where gate, up and their product and three copies of the residual stream live at once,
    or in sampling. The first agrees with vLLM's logs of Llama-3.1-8B to 0.01 GiB (issue 10517: 2.07 GiB at 20,000 and
    2.99 at 29,000 tokens). Mixtures of experts have one such product for every active expert.

    :param tokens: of the largest step.
    """
    if load.overhead_gib is not None:
        return Overhead(0.0, 0.0, load.overhead_gib * GIB)
    width = 3 * model.inner / load.cards
    if model.experts:
        routed = model.experts.active * (3 * model.experts.inner / load.cards + model.hidden)
        width = max(width, routed)
    step = tokens * ACTIVATION_BYTES * (width + 3 * model.hidden)
    sampling = load.rows * model.vocabulary * SAMPLER_BYTES
    return Overhead(max(step, sampling), 0.0 if load.eager else GRAPHS_GIB * GIB, WORKSPACE_GIB * GIB)


def demand_divisible(model: Model, cards: int) -> None:
    """Refuse a number of cards among which the engine cannot share the heads.

    :raises SettingsError: says which numbers work.
    """
    if model.attention.heads % cards:
        fitting = [n for n in (1, 2, 4, 8, 16) if model.attention.heads % n == 0]
        raise SettingsError(
            f"{model.attention.heads} attention heads cannot be shared by {cards} cards",
            f"Use {', '.join(map(str, fitting))}.",
        )


def plan_pool(model: Model, weights: Weights, name: str, gpu: Gpu, load: Load, kv_bytes: int) -> Pool:
    """What the cache of each card holds.

    :param name: the card's name in ``configs/hardware.yaml``.
    :param kv_bytes: bytes of an element of the cache: 2 for BF16, 1 for FP8.
    :raises SettingsError: the heads cannot be shared by so many cards.
    """
    demand_divisible(model, load.cards)
    step = batched_tokens(name, gpu, load)
    budget = reported_gib(gpu) * GIB * load.share
    on_each, needed = weights.bytes_on_each(load.cards), overhead(model, load, step)
    left = budget - on_each - needed.total
    tokens, sequences = cache_size(model.attention, left, load, kv_bytes, step_tokens=step)
    token_bytes = model.attention.token_bytes(kv_bytes, load.cards)
    return Pool(budget, on_each, needed, left, token_bytes, tokens, sequences)


def cache_size(
    attention: Attention,
    pool: float,
    load: Load,
    kv_bytes: int,
    *,
    block: int = BLOCK_TOKENS,
    step_tokens: int = 2048,
) -> tuple[int, int]:
    """Tokens and whole sequences of the target context in a pool of so many bytes on each card.

    :param step_tokens: tokens of the largest step: a layer with a window keeps those beyond it while they are computed
        (``SlidingWindowSpec.max_admission_blocks_per_request``).
    """
    if pool <= 0:
        return 0, 0
    page = attention.layer_bytes(kv_bytes, load.cards) * block
    whole = math.ceil(load.context / block)
    blocks = [
        whole if window is None else min(whole, math.ceil((window - 1 + step_tokens) / block) + 1)
        for window in attention.windows
    ]
    sequences = pool / (page * sum(blocks))
    if attention.uniform:
        tokens = int(pool // (page * len(attention.windows))) * block
        return tokens, tokens // (whole * block)
    return int(sequences * load.context), int(sequences)


# --- the rule of thumb -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One reason why the count differs from the rule of thumb, with the GiB that it adds to the cache."""

    text: str
    gib: float


@dataclass(frozen=True, slots=True)
class Naive:
    """The rule of thumb: the whole card as sold, parameters x bytes, 1.5 GiB for the rest.

    :ivar pool_gib: what it leaves for the cache, on all cards together.
    :ivar sequences: what it promises.
    :ivar steps: why the count differs.
    :ivar counted_gib: what the count leaves for the cache.
    """

    pool_gib: float
    sequences: int
    steps: tuple[Step, ...]
    counted_gib: float


def naive(parameters: int, bits: int, memory_gib: float, sequence_bytes: float) -> tuple[float, int]:
    """GiB that the rule of thumb leaves for the cache, and the sequences that it promises.

    :param sequence_bytes: bytes of the cache of one sequence.
    """
    pool = memory_gib - parameters * bits / 8 / GIB - NAIVE_OVERHEAD_GIB
    return pool, max(0, int(pool * GIB // sequence_bytes))


def against_naive(model: Model, weights: Weights, gpu: Gpu, load: Load, kv_bytes: int, counted: Pool) -> Naive:
    """The rule of thumb beside the count, and what makes the difference. GiB of all cards together."""
    cards, attention = load.cards, model.attention
    by_rule = weights.parameters * weights.bits / 8 / GIB
    sold, reported = cards * gpu.memory_gib, cards * reported_gib(gpu)
    taken, working = cards * counted.weights / GIB, cards * counted.overhead.total / GIB
    pool, sequences = naive(weights.parameters, weights.bits, sold, attention.token_bytes(kv_bytes) * load.context)
    plain = sum(part.parameters for part in weights.parts if part.scheme is None) / weights.parameters
    kept = f", {plain:.0%} of them in 16 bits" if weights.schemes else ""
    steps = [
        Step(f"the driver reports {reported:.1f} of {sold:g} GiB", reported - sold),
        Step(f"the engine takes {load.share:.0%} of that", reported * (load.share - 1)),
        Step(f"weights counted by modules: {taken:.1f} GiB{kept}", by_rule - taken),
        Step(f"the engine needs {working:.1f} GiB to work", NAIVE_OVERHEAD_GIB - working),
    ]
    copies = attention.token_bytes(kv_bytes, cards) * cards / attention.token_bytes(kv_bytes)
    total = cards * counted.pool / GIB
    if copies > 1:
        steps.append(Step(f"{copies:g} copies of each token: too few KV heads to share out", total / copies - total))
    if not attention.uniform:
        windows = sum(window is not None for window in attention.windows)
        steps.append(Step(f"{windows} of {len(attention.windows)} layers keep a window, not all of a sequence", 0.0))
    return Naive(pool, sequences, tuple(steps), total / copies)
