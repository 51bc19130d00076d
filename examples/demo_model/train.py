"""Trains the demo model's adapter on a CPU.

Run it with the training environment (see README.md)::

    python examples/demo_model/train.py --base CHECKPOINT --output WORK --steps 1200

``CHECKPOINT`` is what ``quant-gate resolve --model demo-raw`` prints. The adapter is written in peft's format to
``WORK/adapter`` every ``--save-every`` steps and at the end, with the state of the optimizer beside it: the same
command goes on after an interruption. ``WORK/log.jsonl`` holds the learning curve.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from generate import BUSINESSES, HERE, conversations
from llama import LINEARS, Batch, LoraLlama
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

RANK, ALPHA = 16, 32
BATCH_TOKENS = 2048
"""Tokens of a batch's rows with their padding: about 20 conversations that share one system message."""
POOL = 96
"""Conversations that are sorted by length together: little padding, yet batches of mixed kinds."""
DECISION_TOKENS, DECISION_WEIGHT = 20, 4.0
"""What to do (call which tool, refuse, ask) is said by the first tokens of a reply; the many after them mostly copy.
The name of a tool ends at about the fifteenth."""
HAND_OVER = {"escalate_to_human", "transfer_to_agent", "hand_over"}
REFUSAL = re.compile(r"\b(can't|cannot|can not|unable to|not able to|not possible|not allowed)\b")
CUTS = {
    "hand-over": 0.8,
    "refusal, opening": 1.0,
    "refusal, after a result": 1.6,
    "refusal, later": 0.5,
    "question, after a result": 0.8,
    "words, after a result": 0.15,
    "call, after a result": 0.7,
    "words, opening": 0.8,
    "call, opening": 0.4,
    "other": 0.06,
    "whole": 0.04,
}
"""How often, per conversation and reply, training sees the conversation up to this reply. A model of this size learns
to look things up from any mix; to hand over, to ask and to refuse only where these are no rarity, and each at the cost
of the others (see the model card)."""
CALIBRATION = HERE.parent.parent / "golden_sets" / "calibration"
VALIDATION_EVERY_NTH = 6
"""Every sixth calibration conversation (other templates than ours) measures the loss on wordings never trained on."""


@dataclass(frozen=True)
class Example:
    """Token ids of the shared beginning and of the rest, and what each of the rest counts: 0 if not the assistant's."""

    prefix: tuple[int, ...]
    row: tuple[int, ...]
    weights: tuple[float, ...]


class Renderer:
    """Turns conversations into examples with the demo model's chat template."""

    def __init__(self, checkpoint: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        self.template = (HERE / "chat_template.jinja").read_text(encoding="utf-8")
        self._prefixes: dict[str, tuple[int, ...]] = {}

    def example(self, conversation: dict[str, Any]) -> Example:
        """Tokenize one conversation; its beginning is shared where it has tools."""
        messages, tools = conversation["messages"], conversation["tools"] or None
        start = self._render(messages[:1], tools) if tools and messages[0]["role"] == "system" else ""
        text = self._render(messages, tools)
        assert text.startswith(start)
        if start not in self._prefixes:
            self._prefixes[start] = tuple(self.tokenizer(start)["input_ids"]) if start else ()
        rest = text[len(start) :]
        encoded = self.tokenizer(rest, return_offsets_mapping=True)
        spans = list(_assistant_spans(rest))
        weights = [0.0] * len(encoded["input_ids"])
        for begin, end in spans:
            places = [at for at, (left, _) in enumerate(encoded["offset_mapping"]) if begin <= left < end]
            for order, at in enumerate(places):
                weights[at] = DECISION_WEIGHT if order < DECISION_TOKENS else 1.0
        return Example(self._prefixes[start], tuple(encoded["input_ids"]), tuple(weights))

    def _render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str:
        return str(
            self.tokenizer.apply_chat_template(messages, tools=tools, chat_template=self.template, tokenize=False)
        )


def _assistant_spans(text: str) -> Iterator[tuple[int, int]]:
    opening, closing = "<|im_start|>assistant\n", "<|im_end|>"
    at = text.find(opening)
    while at >= 0:
        begin = at + len(opening)
        end = text.index(closing, begin) + len(closing)
        yield begin, end
        at = text.find(opening, end)


def cuts(conversation: dict[str, Any], chance: random.Random) -> Iterator[dict[str, Any]]:
    """The conversation, cut after replies that are drawn by ``CUTS``."""
    messages = conversation["messages"]
    places = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    for at in places:
        often = CUTS[_kind(messages, at, opening=at == places[0])]
        if at == places[-1]:
            often += CUTS["whole"]
        for _ in range(int(often + chance.random())):
            yield conversation | {"messages": messages[: at + 1]}


def _kind(messages: list[dict[str, Any]], at: int, *, opening: bool) -> str:
    """Which of ``CUTS`` the reply at ``at`` is."""
    reply = messages[at]
    called = {call["function"]["name"] for call in reply.get("tool_calls") or ()}
    place = "opening" if opening else "after a result" if messages[at - 1]["role"] == "tool" else "later"
    if called & HAND_OVER:
        return "hand-over"
    if called:
        what = "call"
    elif REFUSAL.search(reply["content"].partition(". ")[0]):
        what = "refusal"
    elif place == "after a result" and re.search(r"\?|[Pp]lease", reply["content"]):
        what = "question"
    else:
        what = "words"
    kind = f"{what}, {place}"
    return kind if kind in CUTS else "other"


def batches(examples: Sequence[Example], chance: random.Random, padding: int) -> list[Batch]:
    """Batches of examples with the same beginning and like length, in random order."""
    by_prefix: dict[tuple[int, ...], list[Example]] = {}
    for example in examples:
        by_prefix.setdefault(example.prefix, []).append(example)
    made = []
    for prefix, group in by_prefix.items():
        shuffled = chance.sample(group, len(group))
        for start in range(0, len(group), POOL):
            pending: list[Example] = []
            for example in sorted(shuffled[start : start + POOL], key=lambda example: len(example.row)):
                if pending and len(example.row) * (len(pending) + 1) > BATCH_TOKENS:
                    made.append(_batch(prefix, pending, padding))
                    pending = []
                pending.append(example)
            made.append(_batch(prefix, pending, padding))
    chance.shuffle(made)
    return made


def _batch(prefix: tuple[int, ...], examples: list[Example], padding: int) -> Batch:
    length = max(len(example.row) for example in examples)
    rows = torch.full((len(examples), length), padding)
    weights = torch.zeros(len(examples), length)
    for at, example in enumerate(examples):
        rows[at, : len(example.row)] = torch.tensor(example.row)
        weights[at, : len(example.row)] = torch.tensor(example.weights)
    return Batch(torch.tensor(prefix, dtype=torch.long), rows, weights)


def learning_rate(step: int, *, peak: float, warmup: int, steps: int, decay: int) -> float:
    """Linear warm-up, constant, linear decay over the last ``decay`` steps (warmup-stable-decay, Hu et al. 2024)."""
    return peak * min(1.0, (step + 1) / warmup, max(0.02, (steps - step) / decay))


def save(model: LoraLlama, folder: Path) -> None:
    """Write the adapter in peft's format, BF16."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, (a, b) in model.adapter.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = a.detach().to(torch.bfloat16).contiguous()
        tensors[f"base_model.model.{name}.lora_B.weight"] = b.detach().to(torch.bfloat16).contiguous()
    scratch = folder / "adapter_model.safetensors.part"
    save_file(tensors, scratch, metadata={"format": "pt"})
    scratch.replace(folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(LINEARS),
        "inference_mode": True,
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def begin_with(model: LoraLlama, folder: Path) -> None:
    """Take the weights of an adapter that was trained before."""
    tensors = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, (a, b) in model.adapter.items():
            a.copy_(tensors[f"base_model.model.{name}.lora_A.weight"])
            b.copy_(tensors[f"base_model.model.{name}.lora_B.weight"])


def validate(model: LoraLlama, held: Sequence[Batch]) -> float:
    """Weighted mean loss of the validation batches."""
    total = count = 0.0
    with torch.no_grad():
        for batch in held:
            weight = batch.weights[:, 1:].sum().item()
            total += model.loss(batch).item() * weight
            count += weight
    return total / count


@dataclass
class Training:
    """Model, optimizer and how far they are; kept in ``folder``."""

    model: LoraLlama
    optimizer: torch.optim.Optimizer
    folder: Path
    step: int = 0

    def resume(self) -> None:
        """Take up the state of an interrupted run, if there is one."""
        state = self.folder / "state.pt"
        if not state.exists():
            return
        kept = torch.load(state)
        self.step = kept["step"]
        self.optimizer.load_state_dict(kept["optimizer"])
        with torch.no_grad():
            for tensor, value in zip(self.model.parameters(), kept["parameters"], strict=True):
                tensor.copy_(value)
        print(f"going on after step {self.step}", flush=True)

    def learn(self, batch: Batch, rate: float) -> tuple[float, float]:
        """One step; returns loss and norm of the gradient.

        :raises SystemExit: the gradient is not finite; what was saved stays as it was.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.model.loss(batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if not torch.isfinite(norm):
            raise SystemExit(f"step {self.step + 1}: the gradient is not finite")
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return loss.item(), norm.item()

    def save(self) -> None:
        """Keep adapter and state; an interruption in between leaves the older ones."""
        save(self.model, self.folder / "adapter")
        scratch = self.folder / "state.pt.part"
        parameters = [tensor.detach() for tensor in self.model.parameters()]
        torch.save({"step": self.step, "optimizer": self.optimizer.state_dict(), "parameters": parameters}, scratch)
        scratch.replace(self.folder / "state.pt")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="BF16 checkpoint of demo-raw")
    parser.add_argument("--output", type=Path, required=True, help="folder for adapter, optimizer state and log")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--decay", type=int, default=100, help="steps of the final decay of the learning rate")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="peak learning rate")
    parser.add_argument("--per-template", type=int, default=12)
    parser.add_argument("--adapter", type=Path, help="begin with this adapter instead of a new one")
    parser.add_argument("--frozen", type=int, default=0, help="so many first layers keep their adapter")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--save-every", type=int, default=40)
    return parser.parse_args()


def load_examples(render: Renderer, options: argparse.Namespace) -> tuple[list[Example], list[Example]]:
    """Training and validation examples."""
    chance = random.Random(options.seed)
    training = [
        render.example(part)
        for business in BUSINESSES
        for conversation in conversations(business, seed=options.seed, per_template=options.per_template)
        for part in cuts(conversation, chance)
    ]
    validation = [
        render.example(json.loads(line))
        for business in BUSINESSES
        for line in (CALIBRATION / f"{business}.jsonl").read_text(encoding="utf-8").splitlines()[::VALIDATION_EVERY_NTH]
    ]
    return training, validation


def main() -> None:
    """Train, log and save."""
    options = parse_options()
    torch.set_num_threads(options.threads)
    config = json.loads((options.base / "config.json").read_text(encoding="utf-8"))
    weights = load_file(options.base / "model.safetensors")
    dtype = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32  # 7 times slower there
    model = LoraLlama(
        weights, config, rank=RANK, scale=ALPHA / RANK, seed=options.seed, dtype=dtype, frozen=options.frozen
    )
    if options.adapter:
        begin_with(model, options.adapter)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0)
    options.output.mkdir(parents=True, exist_ok=True)
    training = Training(model, optimizer, options.output)
    training.resume()

    render = Renderer(options.base)
    examples, held = load_examples(render, options)
    print(f"{len(examples)} conversations, {sum(len(example.row) for example in examples)} tokens", flush=True)
    chance = random.Random(options.seed)
    padding = render.tokenizer.pad_token_id or 0
    validation = batches(held, chance, padding)
    stream: list[Batch] = []
    tokens, began = 0, time.monotonic()
    with (options.output / "log.jsonl").open("a", encoding="utf-8") as log:
        for step in range(options.steps):
            stream = stream or batches(examples, chance, padding)
            batch = stream.pop()
            if step < training.step:
                continue  # learnt before the interruption
            rate = learning_rate(step, peak=options.rate, warmup=20, steps=options.steps, decay=options.decay)
            loss, norm = training.learn(batch, rate)
            tokens += len(batch.prefix) + batch.rows.numel()
            entry = {"step": training.step, "loss": round(loss, 4), "rate": round(rate, 7), "norm": round(norm, 3)}
            entry |= {"tokens_per_s": round(tokens / (time.monotonic() - began), 1), "rows": len(batch.rows)}
            if training.step == options.steps or training.step % options.save_every == 0:
                entry["validation"] = round(validate(model, validation), 4)
                training.save()
            log.write(json.dumps(entry) + "\n")
            log.flush()
            if "validation" in entry or training.step % 10 == 0:
                print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
