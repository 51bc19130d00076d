"""A load test with the real engine and its own `bench serve`: the demo checkpoint against itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from pipeline import golden as golden_sets
from pipeline.errors import LoadError
from pipeline.load import bench
from pipeline.load.settings import LoadSettings
from pipeline.load.workload import Workload, make_workload
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.metrics import watching
from pipeline.serving.plan import EnginePlan, _check_flags, make_plan
from pipeline.serving.server import Server
from pipeline.settings import CONFIGS, PROJECT_ROOT, load_serving
from pipeline.store import Store

SETTINGS = LoadSettings.model_validate(
    {"ttft_ms": 6e5, "tpot_ms": 6e5, "e2el_ms": 6e5, "sweep": {"users": [2], "prompts_per_user": 2, "repeats": 2}}
)


@pytest.fixture(scope="module")
def workload(demo_checkpoint: Checkpoint) -> Workload:
    """The three shortest of each length, so that a slow processor is done soon."""
    turns = golden_sets.load(str(PROJECT_ROOT / "golden_sets" / "support")).turns
    return Workload(make_workload(demo_checkpoint, turns[:60], 1024).requests[:6])


def measure(server: Server, workload: Workload, directory: Path) -> Path:
    result = directory / "result.json"
    workload.write(directory / "data.jsonl", 4)
    arguments = bench.command(server.plan, server.url, server.model, directory / "data.jsonl", result, SETTINGS, 2, 0)
    bench.run(arguments, server.plan.process_environment(), directory / "bench.log")
    return result


def test_a_load_is_measured_by_both_ends(real_server: Server, workload: Workload, tmp_path: Path) -> None:
    with watching(real_server) as watch:
        result = measure(real_server, workload, tmp_path)
    found, told = bench.read_result(result, workload.requests[:4], SETTINGS, real_server.log), watch.facts()
    assert found["in_flight"] == 2
    assert found["keeps_slo"] and 0 < found["ttft_p50_ms"] <= found["ttft_p95_ms"] <= found["e2el_p99_ms"]
    assert found["goodput"] == pytest.approx(found["request_throughput"])  # every request kept so mild a level
    assert 1 <= told["most_running"] <= 2 and told["failed"] == 0
    assert 0 <= told["prefix_cache_hit_rate"] <= 1 and 0 < told["most_kv_cache_use"] <= 1


def test_prompts_are_what_the_chat_endpoint_would_be_sent(
    real_server: Server, demo_checkpoint: Checkpoint, workload: Workload
) -> None:
    """The engine's own rendering of a golden turn has as many tokens as our text of it."""
    turns = {t.id: t for t in golden_sets.load(str(PROJECT_ROOT / "golden_sets" / "support")).turns}
    for request in workload.requests[:3]:
        turn = turns[request.turn_id]
        body = {"model": "gate", "messages": [dict(m) for m in turn.messages], "tools": [dict(t) for t in turn.tools]}
        answer = httpx.post(f"{real_server.url}/tokenize", json=body, trust_env=False, timeout=120)
        assert answer.raise_for_status().json()["count"] == request.prompt_tokens


def test_the_engine_knows_the_flags_of_every_shipped_variant(engine_plan: EnginePlan, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for path in sorted((CONFIGS / "serving").glob("*.yaml")):
        _check_flags(make_plan(load_serving(path.stem), store).flags, engine_plan.python, engine_plan.device, store)


def test_failing_requests_are_no_fast_ones(real_server: Server, workload: Workload, tmp_path: Path) -> None:
    """Replies longer than the context are refused, every one; `bench serve` ends well all the same."""
    endless = Workload(tuple(replace(request, output_tokens=10**6) for request in workload.requests))
    result = measure(real_server, endless, tmp_path)
    with pytest.raises(LoadError, match="4 of 4 requests failed under load"):
        bench.read_result(result, endless.requests[:4], SETTINGS, real_server.log)
