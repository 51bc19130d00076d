"""Log-probabilities of the real engine, and the figures made of them, against transformers in float32."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import entropy

from evaluators.turn import Turn
from pipeline import environments
from pipeline import golden as golden_sets
from pipeline.digests import digest_of
from pipeline.golden import GoldenSet
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.request import SUPPORT
from pipeline.serving.logprobs import TOP_K, Listing, TurnLogprobs, read_logprobs
from pipeline.serving.plan import SERVED_NAME
from pipeline.serving.replay import replay
from pipeline.serving.server import Server
from pipeline.settings import ReplaySettings, SamplePolicy, Sampling
from pipeline.stages import drift, logprobs
from pipeline.statistics.divergence import summarise, token_drift
from pipeline.store import Store

TURNS = 8
SETTINGS = ReplaySettings(concurrency=4, timeout_s=900)
Logs = NDArray[np.float64]


@pytest.fixture(scope="module")
def golden() -> GoldenSet:
    return golden_sets.select(golden_sets.load(SUPPORT), SamplePolicy(turns=TURNS))


@pytest.fixture(scope="module")
def said(
    golden: GoldenSet, real_server: Server, demo_checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, TurnLogprobs]:
    """What the engine says of the golden replies, by turn."""
    output = logprobs.run(
        Store(tmp_path_factory.mktemp("store")),
        lambda: real_server,
        checkpoint_digest=demo_checkpoint.digest,
        golden=golden,
        plan=real_server.plan,
        ends=logprobs.reply_ends(demo_checkpoint),
        settings=SETTINGS,
        progress=Silent(),
        side="baseline",
    )
    records = read_logprobs(output.path / logprobs.LOGPROBS)
    assert {record.error for record in records.values()} == {None}
    return records


@pytest.fixture(scope="module")
def prompts(golden: GoldenSet, real_server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Digests of the prompts that the engine makes of the same turns when it replays them."""
    records = replay(
        url=real_server.url,
        turns=golden.turns,
        sampling=Sampling(max_tokens=1),
        settings=SETTINGS,
        path=tmp_path_factory.mktemp("replay") / "replies.jsonl",
        check=real_server.check,
    )
    return {turn_id: record.prompt_token_ids_digest for turn_id, record in records.items()}


def test_golden_replies_are_read_after_the_prompts_of_the_replay(
    golden: GoldenSet, said: dict[str, TurnLogprobs], prompts: dict[str, str | None]
) -> None:
    assert {turn_id: record.prompt_digest for turn_id, record in said.items()} == prompts
    for turn in golden.turns:
        record = said[turn.id]
        assert record.token_ids[-1] == 2  # <|im_end|>, and no line break after it
        assert record.calls_from == (0 if turn.gold.get("tool_calls") else len(record.token_ids))
        assert all(TOP_K <= len(listing) <= TOP_K + 1 for listing in record.listings)


def prompt_ids(turn: Turn, server: Server) -> list[int]:
    """The prompt of a turn, tokenized by the engine."""
    body = {"model": SERVED_NAME, "messages": turn.messages, "add_generation_prompt": True}
    body |= {"tools": turn.tools} if turn.tools else {}
    answer = httpx.post(f"{server.url}/tokenize", json=body, timeout=900, trust_env=False)
    return [int(token) for token in answer.raise_for_status().json()["tokens"]]


def whole_distributions(
    replies: Sequence[TurnLogprobs], prompts: Sequence[Sequence[int]], checkpoint: Path, folder: Path
) -> tuple[Logs, Logs]:
    job = [[[*prompt, *record.token_ids], len(prompt)] for prompt, record in zip(prompts, replies, strict=True)]
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    script = Path(__file__).parent / "float32_logprobs.py"
    command = [environments.python_of("quantize"), script, checkpoint, folder / "job.json", folder / "out.npz"]
    subprocess.run(command, check=True, timeout=900)
    with np.load(folder / "out.npz") as arrays:
        return arrays["plain"].astype(np.float64), arrays["rounded"].astype(np.float64)


def listing(logs: Logs, gold: int) -> Listing:
    return {int(token): float(logs[token]) for token in [*np.argpartition(-logs, TOP_K)[:TOP_K], gold]}


def test_figures_agree_with_transformers_in_float32(
    golden: GoldenSet,
    said: dict[str, TurnLogprobs],
    real_server: Server,
    demo_checkpoint: Checkpoint,
    tmp_path: Path,
) -> None:
    records = [said[turn.id] for turn in golden.turns]
    prompts = [prompt_ids(turn, real_server) for turn in golden.turns]
    assert list(map(digest_of, prompts)) == [record.prompt_digest for record in records]
    plain, rounded = whole_distributions(records, prompts, demo_checkpoint.path, tmp_path)
    gold = [token for record in records for token in record.token_ids]
    listed = [each for record in records for each in record.listings]
    scenarios = [turn.scenario for turn in golden.turns for _ in said[turn.id].token_ids]
    assert len(gold) == len(plain) > 150

    # The engine's log-probabilities are the model's.
    served = np.array([each[token] for each, token in zip(listed, gold, strict=True)])
    exact = plain[np.arange(len(gold)), gold]
    float32 = "float32" in real_server.plan.flags
    assert np.abs(served - exact).max() < (0.01 if float32 else 1.0)
    assert np.abs(served - exact).mean() < (0.001 if float32 else 0.05)
    apart = summarise(
        [token_drift(listing(p, t), each, t) for p, each, t in zip(plain, listed, gold, strict=True)], scenarios
    )
    assert apart.mean < (1e-4 if float32 else 0.01)

    # The figures made of the likeliest tokens are those of the whole distributions, within the error that is stated.
    drifts = [token_drift(listing(p, t), listing(q, t), t) for p, q, t in zip(plain, rounded, gold, strict=True)]
    true = np.array([entropy(np.exp(p), np.exp(q)) for p, q in zip(plain, rounded, strict=True)])
    found = np.array([each.divergence for each in drifts])
    error = np.array([each.error for each in drifts])
    assert (found <= true + 1e-5).all()
    assert (true - found <= error + 1e-5).mean() > 0.99
    figures = summarise(drifts, scenarios)
    assert 0 <= true.mean() - figures.mean <= figures.error
    after = rounded[np.arange(len(gold)), gold]
    assert figures.same_top == pytest.approx(np.mean(plain.argmax(axis=1) == rounded.argmax(axis=1)))
    assert figures.mean_change == pytest.approx(np.mean(np.exp(after) - np.exp(exact)), abs=1e-9)
    assert figures.perplexity_ratio == pytest.approx(math.exp(exact.mean() - after.mean()))
    print(
        f"\nserved against float32: largest difference {np.abs(served - exact).max():.2g}, divergence {apart.mean:.2g}"
    )
    print(f"rounded to 4 bits: divergence {figures.mean:.5f} of {true.mean():.5f}, stated error {figures.error:.5f}")


def test_a_checkpoint_does_not_drift_from_itself(
    golden: GoldenSet, said: dict[str, TurnLogprobs], tmp_path: Path
) -> None:
    text = "".join(record.line() + "\n" for record in said.values())
    for side in ("baseline", "candidate"):
        (tmp_path / side).mkdir()
        (tmp_path / side / logprobs.LOGPROBS).write_text(text, encoding="utf-8")
    output = drift.run(
        Store(tmp_path / "store"), baseline=tmp_path / "baseline", candidate=tmp_path / "candidate", golden=golden
    )
    found = drift.read_drift(output.path)
    assert (found["compared"], found["rows"][0]["mean"], found["rows"][0]["same_top"]) == (len(golden.turns), 0, 1)
