"""Ratio of our replay client's throughput to that of ``vllm bench serve``: same server, prompts and concurrency.

Usage, from the project's root: ``.venv/bin/python benchmarks/replay_throughput.py CHECKPOINT [options]``

Both clients are measured in one run, in turns (A B, B A, A B, ...: a drift of the machine cancels), on prompts cut
from the golden set, one user message each. Prefix caching is off, so no measurement lives on another's work. The
bench client streams, ours does not.
Figures of requests per second depend on the machine; the ratio is what to look at. Aim: at least 0.95.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.golden import load
from pipeline.serving.plan import LAUNCHER, SERVED_NAME, make_plan
from pipeline.serving.replay import replay
from pipeline.serving.server import Server
from pipeline.settings import PROJECT_ROOT, ReplaySettings, Sampling, load_serving


def prompts_of(golden: Path, count: int) -> list[str]:
    """The first ``count`` golden turns, each flattened to one distinct user message."""
    texts = {}
    for turn in load(golden).turns:
        talk = "\n".join(f"{m['role']}: {m.get('content') or ''}" for m in turn.messages)
        texts.setdefault(talk, f"Continue this conversation ({turn.id}).\n{talk}")
    return list(texts.values())[:count]


def ours(server: Server, prompts: list[str], options: argparse.Namespace, scratch: Path) -> tuple[float, float]:
    """Requests and output tokens per second of our client."""
    path = scratch / "replies.jsonl"
    path.unlink(missing_ok=True)
    expect = Expectation(Behaviour.ANSWER)
    turns = [
        Turn(f"t{i}#0", f"t{i}", f"t{i}", (), ({"role": "user", "content": text},), (), expect, {})
        for i, text in enumerate(prompts)
    ]
    began = time.monotonic()
    records = replay(
        url=server.url,
        turns=turns,
        sampling=Sampling(max_tokens=options.tokens),
        settings=ReplaySettings(concurrency=options.concurrency),
        path=path,
        check=server.check,
    )
    took = time.monotonic() - began
    failed = [record.reply.error for record in records.values() if record.reply.error]
    if failed:
        raise SystemExit(f"our client: {len(failed)} requests failed, first: {failed[0]}")
    return len(records) / took, sum(r.reply.completion_tokens or 0 for r in records.values()) / took


def theirs(server: Server, prompts: list[str], options: argparse.Namespace, scratch: Path) -> tuple[float, float]:
    """Requests and output tokens per second of ``vllm bench serve``, by its own clock."""
    data, result = scratch / "prompts.jsonl", scratch / "result.json"
    data.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in prompts), encoding="utf-8")
    command = [
        str(server.plan.python), str(LAUNCHER), "bench", "serve", "--backend", "openai-chat",
        "--base-url", server.url, "--endpoint", "/v1/chat/completions", "--model", SERVED_NAME,
        "--tokenizer", str(server.model), "--dataset-name", "custom", "--dataset-path", str(data),
        "--skip-chat-template", "--custom-output-len", str(options.tokens), "--disable-shuffle", "--no-oversample",
        "--num-prompts", str(len(prompts)), "--max-concurrency", str(options.concurrency), "--temperature", "0",
        "--disable-tqdm", "--save-result", "--result-dir", str(scratch), "--result-filename", result.name,
    ]  # fmt: skip
    done = subprocess.run(command, env=server.plan.process_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"vllm bench serve failed:\n{done.stderr[-3000:]}")
    figures = json.loads(result.read_text(encoding="utf-8"))
    if figures["completed"] != len(prompts) or figures.get("failed"):
        raise SystemExit(f"vllm bench serve completed {figures['completed']} of {len(prompts)}")
    return figures["request_throughput"], figures["output_throughput"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--golden", type=Path, default=PROJECT_ROOT / "golden_sets" / "support")
    parser.add_argument("--serving", default="default", help="name in configs/serving, or a file")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=64, help="most tokens generated per prompt")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4, help="an even number, so that each client is first as often")
    options = parser.parse_args()
    prompts = prompts_of(options.golden, options.prompts)
    plan = make_plan(load_serving(options.serving).model_copy(update={"enable_prefix_caching": False}))
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with Server(plan, options.checkpoint.resolve(), scratch / "server.log") as server:
            # Warm-up, thrown away: kernels are made at the first use of a shape.
            ours(server, prompts, options, scratch)
            ratios = []
            print(f"{len(prompts)} prompts, concurrency {options.concurrency}, {plan.hardware}")
            for round_ in range(1, options.rounds + 1):
                order = (ours, theirs) if round_ % 2 else (theirs, ours)
                figures = {client: client(server, prompts, options, scratch) for client in order}
                a, b = figures[ours], figures[theirs]
                ratios.append((a[0] / b[0], a[1] / b[1]))
                print(
                    f"round {round_}: ours {a[0]:.2f} requests/s {a[1]:.1f} tokens/s, "
                    f"bench {b[0]:.2f} requests/s {b[1]:.1f} tokens/s",
                    flush=True,
                )
    requests, tokens = (statistics.median(ratio[i] for ratio in ratios) for i in (0, 1))
    print(
        f"replay throughput: {requests:.3f} of the requests/s and {tokens:.3f} of the output tokens/s of "
        f"vllm bench serve, median of {options.rounds} rounds (aim: at least 0.95)"
    )


if __name__ == "__main__":
    main()
