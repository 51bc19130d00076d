"""The memory plan against the running engine's own figure."""

from __future__ import annotations

import re

import pytest

from pipeline.capacity.memory import GIB, Load, cache_size
from pipeline.capacity.model import read_model
from pipeline.capacity.weights import builds
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server


def test_the_engine_makes_the_cache_that_is_planned(
    real_server: Server, engine_plan: EnginePlan, demo_checkpoint: Checkpoint
) -> None:
    if engine_plan.device != "cpu":
        pytest.skip("the size of the pool is given on a CPU only; on a GPU the engine measures it")
    facts = real_server.facts()
    logged = int(re.search(r"KV cache size: ([\d,]+) tokens", facts["kv_cache"])[1].replace(",", ""))
    assert facts["settings"]["kv_cache_dtype"] == "auto"
    element_bytes = {"torch.bfloat16": 2, "torch.float16": 2, "torch.float32": 4}[facts["settings"]["dtype"]]
    model = read_model(demo_checkpoint.path)
    load = Load(context=int(facts["settings"]["max_seq_len"]))
    block = int(engine_plan.flags[engine_plan.flags.index("--block-size") + 1])
    tokens, _ = cache_size(model.attention, engine_plan.kv_cache_gib * GIB, load, element_bytes, block=block)
    assert tokens == pytest.approx(logged, rel=0.05)


def test_weights_are_those_of_the_files(demo_checkpoint: Checkpoint) -> None:
    """The demo checkpoint is in BF16; its files hold headers beside the weights, some kilobytes."""
    (weights,) = builds(demo_checkpoint.path, read_model(demo_checkpoint.path), [])
    assert weights.bytes == pytest.approx(demo_checkpoint.weight_bytes, rel=0.001)
    assert weights.parameters == 134_515_008
