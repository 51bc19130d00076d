"""The real engine: its answers, its flags, its prompts, its death, and the reference kernels."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.errors import ServerError
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan, _check_flags
from pipeline.serving.records import prompt_mismatches, read_records
from pipeline.serving.replay import replay
from pipeline.serving.server import SETTINGS, Server
from pipeline.settings import ReplaySettings, Sampling
from pipeline.store import Store

TOOL = {
    "type": "function",
    "function": {
        "name": "get_order",
        "description": "Look up an order.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
}
SAMPLING = Sampling(max_tokens=16)


def turn(text: str, tools: tuple[dict[str, object], ...] = ()) -> Turn:
    messages = ({"role": "system", "content": "You are a shop assistant."}, {"role": "user", "content": text})
    return Turn(text[:40], text[:40], "s", (), messages, tools, Expectation(Behaviour.ANSWER), {"role": "assistant"})


def answers(server: Server, path: Path, turns: list[Turn], **settings: float) -> dict[str, object]:
    return replay(
        url=server.url,
        turns=turns,
        sampling=SAMPLING,
        settings=ReplaySettings(**{"concurrency": 4, **settings}),
        path=path,
        check=server.check,
    )


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the CPU engine is tried on x86 only")
def test_reference_kernels_compute_fp8_and_int4(engine_plan: EnginePlan) -> None:
    if engine_plan.device != "cpu":
        pytest.skip("the kernel does nothing on a GPU")
    script = Path(__file__).parent / "kernel_arithmetic.py"
    command = [str(engine_plan.python), str(script)]
    done = subprocess.run(
        command, env=engine_plan.process_environment(), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "kernel: per token, per channel" in done.stdout
    assert "joined layers: requantized by the largest scale" in done.stdout
    assert "INT4 kernel: zero_points=True out_first=False" in done.stdout
    assert done.stdout.endswith("all checked\n")


def test_every_flag_of_the_plan_is_in_the_engines_own_help(engine_plan: EnginePlan, tmp_path: Path) -> None:
    _check_flags(engine_plan.flags, engine_plan.python, engine_plan.device, Store(tmp_path))


def test_engine_tells_version_arguments_and_cache(real_server: Server, engine_plan: EnginePlan) -> None:
    facts = real_server.facts()
    assert facts["version"] == engine_plan.version
    assert "'max_model_len': 8192" in facts["arguments"]
    assert "KV cache size" in facts["kv_cache"]
    asked = engine_plan.flags[engine_plan.flags.index("--dtype") + 1]
    assert facts["settings"]["dtype"] == f"torch.{asked}"
    assert facts["settings"]["max_seq_len"] == "8192"
    assert set(facts["settings"]) == set(SETTINGS)


def test_answers_are_kept_with_the_prompt_the_engine_saw(real_server: Server, tmp_path: Path) -> None:
    plain, with_tools = turn("Where is my order A1?"), turn("Where is my order B2?", (TOOL,))
    records = answers(real_server, tmp_path / "r", [plain, with_tools])
    for record in records.values():
        assert record.reply.error is None
        assert record.reply.finish_reason in {"stop", "length", "tool_calls"}
        assert 1 <= record.reply.completion_tokens <= 16
    # The engine's own tokenizer endpoint must give the very ids whose digest was kept.
    for asked in (plain, with_tools):
        body = {"messages": list(asked.messages), "tools": list(asked.tools) or None}
        ids = httpx.post(f"{real_server.url}/tokenize", json=body, trust_env=False, timeout=60).json()["tokens"]
        digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
        assert records[asked.id].prompt_token_ids_digest == digest
        assert records[asked.id].prompt_tokens == len(ids)
    again = answers(real_server, tmp_path / "again", [plain, with_tools])
    assert prompt_mismatches(records, again) == []


def test_prompt_longer_than_the_context_is_an_error_of_its_turn(real_server: Server, tmp_path: Path) -> None:
    records = answers(real_server, tmp_path / "r", [turn("short"), turn("long " * 10_000)])
    short, long = (record.reply for record in records.values())
    assert short.error is None
    assert long.error is not None
    assert long.error.startswith("refused: HTTP 400")
    assert "8192" in long.error


def test_generation_stops_at_the_checkpoints_end_of_sequence(real_server: Server, demo_checkpoint: Checkpoint) -> None:
    """`--generation-config vllm` drops a checkpoint's sampling defaults; its end-of-sequence ids must stay."""
    config = json.loads((demo_checkpoint.path / "generation_config.json").read_text())
    ends = config["eos_token_id"]
    ends = ends if isinstance(ends, list) else [ends]
    body = {
        "model": "gate",
        "messages": [{"role": "user", "content": "Say hello."}],
        "temperature": 0,
        "max_tokens": 400,
        "return_token_ids": True,
        "logit_bias": {str(ends[0]): 100},
    }
    answer = httpx.post(f"{real_server.url}/v1/chat/completions", json=body, trust_env=False, timeout=120).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["token_ids"] == [ends[0]]


def test_engine_killed_in_the_middle_ends_the_replay_and_keeps_what_was_answered(
    demo_checkpoint: Checkpoint, engine_plan: EnginePlan, tmp_path: Path, real_server: Server
) -> None:
    turns = [turn(f"Question {i}: where is my order?") for i in range(40)]
    path = tmp_path / "r"
    log = tmp_path / "server.log"
    with Server(engine_plan, demo_checkpoint.path, log) as server:
        killed = []

        def kill_after_eight(check: Server = server) -> None:
            if not killed and len(read_records(path)) >= 8:
                killed.append(_engine_process(check))
                os.kill(killed[0], signal.SIGKILL)
            check.check()

        with pytest.raises(ServerError):
            replay(
                url=server.url,
                turns=turns,
                sampling=SAMPLING,
                settings=ReplaySettings(concurrency=4, timeout_s=120, attempts=3),
                path=path,
                check=kill_after_eight,
            )
    kept = {turn_id for turn_id, record in read_records(path).items() if record.reply.error is None}
    assert 8 <= len(kept) < 40
    before = path.read_bytes()
    assert len(answers(real_server, path, turns)) == 40
    assert path.read_bytes().startswith(before)


def _engine_process(server: Server) -> int:
    """The process that computes: the one with the most resident memory below the supervisor."""
    assert server._process is not None
    children: dict[int, list[int]] = {}
    size = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(directory.name))
        size[int(directory.name)] = int(fields[21])
    below, frontier = [], [server._process.pid]
    while frontier:
        found = children.get(frontier.pop(), [])
        below += found
        frontier += found
    return max(below, key=lambda process: size[process])
