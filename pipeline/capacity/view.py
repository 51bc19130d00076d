"""The memory plan for the terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.capacity.memory import GIB, batched_tokens
from pipeline.capacity.plan import KV_BYTES, CardPlan, MemoryPlan, Row
from pipeline.capacity.traffic import Traffic
from pipeline.capacity.weights import Weights
from pipeline.visible import visible

_RUNS = {"native": "yes", "fallback": "in part", "missing": "no"}


def memory_view(plan: MemoryPlan) -> RenderableType:
    """The plan as tables with their reading in words. GiB are 2^30 bytes, as in the engine's log."""
    parts: list[RenderableType] = [
        Text(f"What {visible(plan.source)} needs, and what a card holds", "bold"),
        Text(),
        _model(plan),
        *(Text(note, "dim") for note in plan.model.notes),
        Text(),
        _weights(plan.builds),
        Text("GiB by kind of module, scales included", "dim"),
    ]
    for card in plan.cards:
        parts += [Text(), *_card(plan, card)]
    parts += [Text(), *_why(plan)]
    return Group(*parts)


def _model(plan: MemoryPlan) -> Text:
    model, attention = plan.model, plan.model.attention
    heads = (
        f"a latent of {attention.latent} shared by {attention.heads} heads"
        if attention.latent
        else f"{attention.heads} heads over {attention.kv_heads} of keys and values, {attention.key_dim} wide"
    )
    parameters = plan.builds[0].parameters
    experts = f", {model.experts.active} of {model.experts.count} experts a token" if model.experts else ""
    untied = any(part.group == "head" for part in plan.builds[0].parts)
    head = "a head of its own" if untied else "the embedding as head"
    cache = ", ".join(
        f"{attention.token_bytes(size) / 1024:.4g} KiB in {kind.upper()}" for kind, size in KV_BYTES.items()
    )
    windows = sum(window is not None for window in attention.windows)
    bounded = f" ({windows} of {len(attention.windows)} layers keep a window only)" if windows else ""
    return Text(
        f"{model.name}: {parameters / 1e9:.2f} billion parameters, {model.layers} layers{experts}, {head}. "
        f"{attention.kind}: {heads}. A token in the cache takes {cache}{bounded}."
    )


def _weights(builds: tuple[Weights, ...]) -> Table:
    table = _table("weights")
    counts = [build.by_group() for build in builds]
    for build in builds:
        table.add_column(build.label, justify="right", no_wrap=True)
    for group in dict.fromkeys(group for group, _ in counts[0]):
        table.add_row(group, *(_gib(sum(size for (g, _), (_, size) in c.items() if g == group)) for c in counts))
    table.add_row("all", *(_gib(build.bytes) for build in builds), style="bold")
    table.add_row("most are", *(Text(_scheme(build)) for build in builds), style="dim")
    return table


def _scheme(build: Weights) -> str:
    return build.schemes[0].name.replace("in groups of", "groups of") if build.schemes else "16 bits"


def _card(plan: MemoryPlan, card: CardPlan) -> list[RenderableType]:
    load, several = plan.load, plan.load.cards > 1
    overhead = card.rows[0].pool.overhead
    tokens = batched_tokens(card.name, card.gpu, load)
    shared = f" shared by {load.cards} cards, GiB and pool of each" if several else ""
    parts: list[RenderableType] = [
        Text.assemble(
            (card.name, "bold"),
            f"{shared}: {load.share:.0%} of {card.gpu.reported_gib or card.gpu.memory_gib:g} GiB; "
            f"{_gib(overhead.total)} GiB to work in (activations of {tokens:,} tokens {_gib(overhead.activations)}, "
            f"graphs {'none: eager' if load.eager else _gib(overhead.graphs)}, other {_gib(overhead.workspace)}: an "
            "estimate)",
        ),
        _rows(plan, card),
        *(Text(f"  {note}", "dim") for note in dict.fromkeys(_note(row) for row in card.rows if row.note)),
        Text(f"The {card.name} {card.advice}."),
        _choice(plan, card),
    ]
    return parts


def _rows(plan: MemoryPlan, card: CardPlan) -> Table:
    table = _table("")
    heads = ("GiB", "KV", "pool", "tokens", f"x {plan.load.context:,}", "rule", "tokens/s", "runs")
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    for row in card.rows:
        fits = row.pool.pool > 0
        speed = f"{row.alone:,.0f}-{row.together:,.0f}" if row.pool.sequences else "-"
        table.add_row(
            Text(("* " if row is card.preferred else "  ") + visible(row.weights.label)),
            _gib(row.pool.weights),
            row.kv,
            _gib(row.pool.pool) if fits else "none",
            f"{row.pool.tokens:,}" if fits else "-",
            f"{row.pool.sequences:,}",
            f"{row.naive.sequences:,}",
            speed,
            _RUNS[row.level],
            style="" if row.served else "dim",
        )
    return table


def _note(row: Row) -> str:
    what = "FP8 KV" if row.level == "missing" and "cache" in row.note else row.weights.label
    return f"{visible(what)}: {row.note}"


def _choice(plan: MemoryPlan, card: CardPlan) -> Text:
    traffic, chosen = plan.traffic, card.preferred
    if chosen is not None:
        text = f"First choice here (*): {visible(chosen.weights.label)} and a cache in {chosen.kv.upper()}"
        if traffic:
            text += f", which holds the {traffic.in_flight:.0f} requests in flight"
        return Text(f"{text}.", "green")
    most = max((row.pool.sequences for row in card.rows if row.level == "native"), default=0)
    most = min(most, plan.load.rows)  # what a server queues needs another one
    enough = card.cards_needed and (traffic is None or traffic.in_flight <= plan.load.rows)
    more = f" {card.cards_needed} cards that share the model do." if enough else ""
    if not most or traffic is None:
        return Text(f"No build with a kernel of its own fits.{more}", "red")
    servers = math.ceil(math.ceil(traffic.in_flight) / most)
    return Text(f"No build holds {traffic.in_flight:.0f} requests in flight; {servers} such servers do.{more}", "red")


def _why(plan: MemoryPlan) -> list[RenderableType]:
    """Why the count differs from the rule of thumb, for one build on each card; and what the columns are."""
    parts: list[RenderableType] = [
        Text("The rule of thumb (parameters x bytes, 1.5 GiB for the rest, whole card) and the count")
    ]
    for card in plan.cards:
        row = card.preferred or card.rows[-1]
        rule, context = row.naive, plan.load.context
        lines = [
            f"{visible(row.weights.label)}, cache in {row.kv.upper()}, {card.name}:",
            f"  {rule.pool_gib:8.1f} GiB for the cache by the rule: {rule.sequences:,} sequences of {context:,}",
            *(f"  {step.gib:+8.1f} {step.text}" for step in rule.steps),
            f"  {rule.counted_gib:8.1f} GiB for the cache counted: {row.pool.sequences:,} sequences, in whole blocks",
        ]
        parts.append(Text("\n".join(lines)))
    if plan.traffic:
        parts += [Text(), Text(_traffic(plan.traffic, plan.load.rows))]
    parts += [
        Text(),
        Text(
            f"pool: GiB for the cache on each card; x {plan.load.context:,}: sequences of that context at once; rule: "
            "what the rule of thumb promises; tokens/s: upper limit by memory bandwidth for one sequence and for all "
            f"at once (at most {plan.load.rows} run); runs: a kernel of the engine multiplies in this format",
            "dim",
        ),
        Text(f"Figures of cards: {'; '.join(dict.fromkeys(c.gpu.datasheet for c in plan.cards))}", "dim"),
    ]
    return parts


def _traffic(traffic: Traffic, rows: int) -> str:
    text = (
        f"{traffic.users:,} users who pause {traffic.think_s:g} s after each answer and wait {traffic.answer_s:g} s "
        f"for it: {traffic.requests_per_s:.1f} requests/s, {traffic.in_flight:.1f} in flight on average (Little's law)."
    )
    if traffic.in_flight > rows:
        text += f" One server runs {rows} at once (max_num_seqs) and queues the others."
    return text


def _gib(size: float) -> str:
    return f"{size / GIB:.2f}" if size < 100 * GIB else f"{size / GIB:,.0f}"


def _table(first: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=12)
    return table
