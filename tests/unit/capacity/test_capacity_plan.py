"""The plan as a whole: cards, preferences, the command and what it prints."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from gate_fakes import DEAD_SERVER, write_golden, write_policy
from published_models import bare
from rich.console import Console

from pipeline import cli
from pipeline.capacity import DEFAULT_RECIPES, MemoryPlan, Traffic, choose_cards, load_of, plan_memory
from pipeline.capacity.view import memory_view
from pipeline.errors import SettingsError
from pipeline.inspection.hardware import load_hardware
from pipeline.settings import ServingSettings, load_recipe

HARDWARE = load_hardware()


def plan(
    folder: Path,
    *cards: str,
    recipes: Sequence[str] = DEFAULT_RECIPES,
    cards_per_model: int = 1,
    context: int = 8192,
    traffic: Traffic | None = None,
    dtype: Literal["bfloat16", "float16"] = "bfloat16",
) -> MemoryPlan:
    load = load_of(ServingSettings(dtype=dtype), cards_per_model, context)
    return plan_memory(folder, folder.name, [load_recipe(r) for r in recipes], cards, HARDWARE, load, traffic)


def chosen(planned: MemoryPlan) -> tuple[str, str] | None:
    row = planned.cards[0].preferred
    return (row.weights.label, row.kv) if row else None


# --- hardware.yaml -----------------------------------------------------------------------------


def test_cards_are_told_with_their_sources() -> None:
    wanted = {"rtx-4090", "l4", "a10g", "l40s", "rtx-3090", "a100-40", "a100-80", "h100", "h200", "b200", "mi300x"}
    assert wanted <= set(HARDWARE.gpus)
    assert {"capability", "native", "reported"} <= set(HARDWARE.sources)
    for name, gpu in HARDWARE.gpus.items():
        assert gpu.datasheet, name
        assert gpu.reported_gib is None or 0.9 < gpu.reported_gib / gpu.memory_gib < 1, name
        if gpu.capability is not None:  # Ada (8.9) brought FP8 to NVIDIA's tensor cores
            assert ("fp8" in gpu.native) == (gpu.capability >= 8.9), name


def test_cards_are_chosen_by_name() -> None:
    assert choose_cards([], HARDWARE) == HARDWARE.targets
    assert choose_cards(["l4", "l4", "b200"], HARDWARE) == ["l4", "b200"]
    assert choose_cards(["all"], HARDWARE) == list(HARDWARE.gpus)
    with pytest.raises(SettingsError, match="unknown card 'h1000'"):
        choose_cards(["h1000"], HARDWARE)


# --- what to prefer ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "first", "advice"),
    [
        ("l4", ("fp8-dynamic", "fp8"), "multiplies FP8 natively"),
        ("h100", ("fp8-dynamic", "fp8"), "an FP8 KV cache"),
        ("b200", ("fp8-dynamic", "fp8"), "multiplies FP8 natively"),
        ("mi300x", ("fp8-dynamic", "fp8"), "multiplies FP8 natively"),
        ("a100-80", ("int8-w8a8", "bf16"), "prefer INT8 for throughput, INT4 where"),
        ("a10g", ("int8-w8a8", "bf16"), "has no FP8 units"),
    ],
)
def test_the_first_choice_of_a_card(card: str, first: tuple[str, str], advice: str, tmp_path: Path) -> None:
    planned = plan(bare(tmp_path, "Llama-3.1-8B"), card)
    assert chosen(planned) == first
    assert advice in planned.cards[0].advice


def test_a_card_before_ampere_computes_in_float16_alone(tmp_path: Path) -> None:
    """vLLM: "Bfloat16 is only supported on GPUs with compute capability of at least 8.0"; a T4 has 7.5."""
    folder = bare(tmp_path, "Llama-3.1-8B")
    refused = plan(folder, "t4").cards[0]
    assert refused.preferred is None and {row.level for row in refused.rows} == {"missing"}
    assert {"float16" in row.note for row in refused.rows} == {True}
    assert chosen(plan(folder, "t4", dtype="float16", context=4096)) == ("int4-awq", "bf16")  # INT8 leaves 3.7 GiB


def test_rows_say_how_the_engine_serves_them(tmp_path: Path) -> None:
    """vLLM: FP8 weights alone on Ampere, no FP8 cache there, no INT8 on Blackwell."""
    ampere, blackwell = plan(bare(tmp_path, "Llama-3.1-8B"), "a10g", "b200").cards
    levels = {(row.weights.label, row.kv): row.level for row in ampere.rows}
    assert levels["fp8-dynamic", "bf16"] == "fallback"
    assert levels["int8-w8a8", "bf16"] == levels["int4-awq", "bf16"] == levels["bf16", "bf16"] == "native"
    assert {level for (_, kv), level in levels.items() if kv == "fp8"} == {"missing"}
    assert {row.level for row in blackwell.rows if row.weights.label == "int8-w8a8"} == {"missing"}


def test_int4_where_memory_decides(tmp_path: Path) -> None:
    """70B in FP8 fills an H100 and holds one sequence; on two it holds more than half of what INT4 holds."""
    folder = bare(tmp_path, "Llama-3.1-70B")
    assert chosen(plan(folder, "h100")) == ("int4-awq", "fp8")
    assert chosen(plan(folder, "h100", cards_per_model=2)) == ("fp8-dynamic", "fp8")


def test_traffic_chooses_among_what_holds_it(tmp_path: Path) -> None:
    folder = bare(tmp_path, "Llama-3.1-8B")
    assert chosen(plan(folder, "l4", traffic=Traffic(90, 30, 8))) == ("fp8-dynamic", "fp8")  # 19 in flight
    assert chosen(plan(folder, "l4", traffic=Traffic(120, 30, 8))) == ("int4-awq", "fp8")  # 26
    (card,) = plan(folder, "l4", traffic=Traffic(200, 30, 8)).cards  # 43
    assert (card.preferred, card.cards_needed) == (None, 2)


def test_more_cards_where_nothing_fits(tmp_path: Path) -> None:
    (card,) = plan(bare(tmp_path, "Llama-3.1-70B"), "h100", recipes=["fp8-dynamic"], context=65_536).cards
    assert (card.preferred, card.cards_needed) == (None, 2)
    assert not any(row.served for row in card.rows)


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (("--max-num-batched-tokens", "4096"), 4096),
        (("--max_num_batched_tokens=4096",), 4096),
        (("--max-num-batched-tokens=8k",), 8000),
        (("--max-num-batched-tokens", "8K"), 8192),
        (("--max-num-batched-tokens", "1.5k"), 1500),
        (("--max-num-batched-tokens", "1M"), 1_048_576),
        (("--max-num-batched-tokens=1k", "--max-num-batched-tokens=2k"), 2000),
        ((), None),
    ],
)
def test_tokens_of_a_step_are_read_as_the_engine_reads_them(words: tuple[str, ...], tokens: int | None) -> None:
    """`human_readable_int` of vLLM's argparse_utils.py: small letters are decimal, large ones binary."""
    assert load_of(ServingSettings(extra_args=words), 1).batched_tokens == tokens


@pytest.mark.parametrize("wrong", ["1.5K", "many", "", "-4", "9" * 400, "9" * 400 + ".0k"])
def test_tokens_that_are_no_number(wrong: str) -> None:
    with pytest.raises(SettingsError, match="is not a whole number"):
        load_of(ServingSettings(extra_args=("--max-num-batched-tokens", wrong)), 1)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"max_model_len": 10**400}, "max_model_len is above"),
        ({"max_num_seqs": 10**400}, "max_num_seqs is above"),
        ({"extra_args": ("--max-num-batched-tokens=9T",)}, "--max-num-batched-tokens is above"),
    ],
)
def test_sizes_beyond_all_sense(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        load_of(ServingSettings(**settings), 1)


def test_servers_are_counted_by_what_they_run_at_once(tmp_path: Path) -> None:
    """Of an 8B model in INT4 an L4 holds more sequences, but 8 run: 42.1 in flight need 6 servers."""
    load = load_of(ServingSettings(max_num_seqs=8), 1, 8192)
    recipes = [load_recipe(r) for r in DEFAULT_RECIPES]
    planned = plan_memory(bare(tmp_path, "Llama-3.1-8B"), "m", recipes, ["l4"], HARDWARE, load, Traffic(200, 30, 8))
    assert max(row.pool.sequences for row in planned.cards[0].rows) > 8
    text = " ".join(shown(planned).split())
    assert "No build holds 42 requests in flight; 6 such servers do." in text
    assert "cards that share the model" not in text  # they would run no more at once


# --- what is printed ---------------------------------------------------------------------------


def shown(planned: MemoryPlan) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(memory_view(planned), crop=False)
    text = console.export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    return text


def test_the_table_is_told_with_its_reasons(tmp_path: Path) -> None:
    text = shown(plan(bare(tmp_path, "Llama-3.1-8B"), "l4", "a10g", traffic=Traffic(90, 30, 8)))
    told = " ".join(text.split())
    assert "8.03 billion parameters" in told and "128 KiB in BF16, 64 KiB in FP8" in told
    rows = [line.split() for line in text.splitlines() if "fp8-dynamic  " in line and "fp8 " in line]
    # 22.03 GiB x 0.9 - 8.46 - activations 0.31, graphs 0.5, other 0.4 GiB = 10.16 GiB; 64 KiB a token
    assert rows[0][:7] == ["*", "fp8-dynamic", "8.46", "fp8", "10.16", "166,464", "20"]
    assert "which holds the 19 requests in flight" in told
    assert "2.4 requests/s, 18.9 in flight on average (Little's law)" in told
    assert "the engine takes 90% of that" in told and "weights counted by modules" in told
    assert "only the weights are FP8 there (Marlin)" in told
    assert "NVIDIA L4 datasheet" in told


@pytest.mark.parametrize("name", ["SmolLM2-135M", "DeepSeek-V2-Lite", "gemma-3-1b"])
def test_every_kind_of_model_is_printed_on_every_card(name: str, tmp_path: Path) -> None:
    text = shown(plan(bare(tmp_path, name), *HARDWARE.gpus, recipes=["fp8-dynamic"]))
    assert all(f"\n{card}: " in text for card in HARDWARE.gpus)
    assert (
        text.count("GiB for the cache by the rule") == text.count("the engine takes 90% of that") == len(HARDWARE.gpus)
    )


# --- the command -------------------------------------------------------------------------------


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Callable]:
    """Runs ``quant-gate plan`` in this process on a small golden set."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    for name, value in {
        **{"QUANT_GATE_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "hub")},
        **{"MLFLOW_TRACKING_URI": DEAD_SERVER, "COLUMNS": "80"},
    }.items():
        monkeypatch.setenv(name, value)
    golden = ["--golden", str(write_golden(tmp_path / "set")), "--policy", str(write_policy(tmp_path / "gate.yaml"))]

    def run(*words: str) -> SimpleNamespace:
        monkeypatch.setattr("sys.argv", ["quant-gate", "plan", *golden, *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        told = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code, out=told.out, err=" ".join(told.err.split()))

    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_the_command_plans_memory_after_power(end: Callable, tmp_path: Path) -> None:
    folder = str(bare(tmp_path, "Llama-3.1-8B"))
    done = end("--model", folder, "--card", "rtx-4090", "--recipe", "int4-gptq", "--context", "4096")
    assert done.code == 0
    assert done.out.index("can be decided") < done.out.index("and what a card holds")
    assert "int4-gptq" in done.out and "x 4,096" in done.out and "fp8-dynamic" not in done.out


def test_a_model_that_is_not_here_is_not_planned(end: Callable) -> None:
    for name in ("some/model", "demo", "models:/assistant@champion", "./no/such"):
        done = end("--model", name)
        assert done.code == 0
        assert "Memory is not planned" in done.out


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--card", "h1000"], "unknown card 'h1000'"),
        (["--recipe", "int5"], "unknown name 'int5'"),
        (["--users", "10"], "--users and --answer-s belong together"),
        (["--tensor-parallel", "3"], "32 attention heads cannot be shared by 3 cards"),
        (["--context", "9" * 400], "--context is above 1,000,000,000"),
    ],
)
def test_wrong_use_ends_with_2(words: list[str], fault: str, end: Callable, tmp_path: Path) -> None:
    done = end("--model", str(bare(tmp_path, "Llama-3.1-8B")), *words)
    assert done.code == 2
    assert fault in done.err and "remedy:" in done.err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--answer-s", "inf"), ("--answer-s", "nan"), ("--think-s", "inf"), ("--think-s", "nan"), ("--users", "9" * 400)],
)
def test_traffic_that_is_none_ends_with_2(option: str, value: str, end: Callable, tmp_path: Path) -> None:
    given = {"--users": "10", "--answer-s": "8", option: value}
    words = [word for pair in given.items() for word in pair]
    done = end("--model", str(bare(tmp_path, "Llama-3.1-8B")), *words)
    assert done.code == 2 and option in done.err
