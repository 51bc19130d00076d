"""Measures which parts of a candidate make its answers drift, and how few of them need more bits.

Job fields: see ``diagnosis/measure.py``. Each measurement is written to ``measured`` as soon as it is made, so an
interrupted worker goes on where it was.
"""

# ruff: noqa: E402 - the report channel must be claimed before the libraries print on import
from __future__ import annotations

import worker_io

JOB = worker_io.start()

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from calibration_tokens import as_rendered_by_the_engine
from drifting import Answer, Bench, Change, Drift, Modules, Plain
from llmcompressor.modeling.moe.linearize import load_quantizable_moe
from promotion import fewest, worthwhile
from swapping import Candidate, rounded
from transformers import AutoModelForCausalLM, AutoTokenizer

Levels = Mapping[str, str]
"""``candidate`` or a preset of compressed-tensors by part; parts that are not named are the baseline's."""
OWN = "candidate"
FULL = "full"
"""Level of a part that is left as it was in the baseline."""


def answers(job: dict[str, Any]) -> dict[str, Answer]:
    """Prompts and answers as token ids, by turn; an answer is cut to ``positions`` tokens."""
    tokenizer = AutoTokenizer.from_pretrained(job["checkpoint"])
    found = {}
    for line in Path(job["turns"]).read_text(encoding="utf-8").rstrip("\n").split("\n"):  # others may stand in texts
        turn = json.loads(line)
        rendered = partial(
            tokenizer.apply_chat_template,
            tools=turn["tools"] or None,
            chat_template=job["template"],
            tokenize=False,
        )
        messages = as_rendered_by_the_engine(turn["messages"])
        prompt = rendered(messages, add_generation_prompt=True)
        whole = rendered([*messages, *as_rendered_by_the_engine([turn["answer"]])])
        # A template may write past answers otherwise than the model writes one; then its words alone are forced.
        text = whole[len(prompt) :] if whole.startswith(prompt) else turn["answer"]["content"] or ""
        ids = tokenizer(text.rstrip(), add_special_tokens=False)["input_ids"][: job["positions"]]
        if ids:
            found[turn["id"]] = Answer(tokenizer(prompt, add_special_tokens=False)["input_ids"], ids)
    return found


class Measuring:
    """Measures changes, each once: what the file of measurements holds is not measured again."""

    def __init__(self, job: dict[str, Any], bench: Bench, model: Any, candidate: Candidate) -> None:
        self._bench, self._model, self._candidate = bench, model, candidate
        self._parts = {part["name"]: part for part in job["parts"]}
        self._layers: list[str] = job["layers"]
        self._file = Path(job["measured"])
        self._known = self._read()
        self._total = len(self._parts) + math.ceil(math.log2(len(self._parts) + 1)) + 4
        self._done = 0

    def _read(self) -> dict[str, list[Drift]]:
        """Kept measurements; a torn last line is left out."""
        text = self._file.read_text(encoding="utf-8") if self._file.is_file() else ""
        whole = text[: text.rfind("\n") + 1]
        self._file.write_text(whole, encoding="utf-8")
        lines = map(json.loads, whole.splitlines())
        return {line["key"]: [Drift(*drift) for drift in line["drifts"]] for line in lines}

    def measure(self, levels: Levels, kv: bool = False) -> list[Drift]:
        """Drift of each answer with parts at these levels, and a quantized KV cache if ``kv``."""
        key = json.dumps([sorted(levels.items()), kv])
        if key not in self._known:
            drifts = self._bench.drift(self._changes(levels), self._kv_scales() if kv else None)
            if not all(math.isfinite(drift.nats) for drift in drifts):
                raise ValueError(f"logits are not finite with {key[:200]}")
            with self._file.open("a", encoding="utf-8") as handle:
                kept = [[drift.nats, drift.same_words] for drift in drifts]
                handle.write(json.dumps({"key": key, "drifts": kept}) + "\n")
            self._known[key] = drifts
        self._done += 1
        worker_io.advance(min(self._done, self._total), self._total)
        return self._known[key]

    def _kv_scales(self) -> dict[int, tuple[float, float]]:
        found = {index: self._candidate.kv_scales(layer) for index, layer in enumerate(self._layers)}
        return {index: scales for index, scales in found.items() if scales is not None}

    def _changes(self, levels: Levels) -> list[Change]:
        by_layer: dict[int, list[tuple[str, str]]] = {}
        for part, level in levels.items():
            if level != FULL:
                by_layer.setdefault(self._parts[part]["layer"], []).append((part, level))
        return [Change(layer, partial(self._exchanged, parts)) for layer, parts in by_layer.items()]

    def _exchanged(self, parts: list[tuple[str, str]]) -> tuple[Modules, Plain]:
        modules: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for name, level in parts:
            part = self._parts[name]
            for module in part["modules"]:
                own = self._model.get_submodule(module)
                modules[module] = self._candidate.linear(module, own) if level == OWN else rounded(own, level)
            if level == OWN:
                plain |= {tensor: self._candidate.tensors.read(tensor) for tensor in part["plain"]}
        return modules, plain


def search(job: dict[str, Any], measuring: Measuring) -> dict[str, Any]:
    """Measure each part alone, then how few of them at more bits restore enough."""
    parts = [part["name"] for part in job["parts"]]
    everything = dict.fromkeys(parts, OWN)
    found: dict[str, Any] = {"whole": measuring.measure(everything, job["kv"])}
    if job["kv"]:
        found |= {"weights": measuring.measure(everything), "kv": measuring.measure({}, kv=True)}
    goal = (1 - job["restore"]) * _mean(found["whole"])
    # A cache that alone spoils more than may be left is given up first; else it stays in all that follows.
    kv = job["kv"] and _mean(found["kv"]) <= goal
    found |= {"goal": goal, "keeps_kv": kv}
    found["alone"] = {part: measuring.measure({part: OWN}) for part in parts}
    drifts = {part: _mean(alone) for part, alone in found["alone"].items()}
    level, extra = _levels(job, measuring, drifts, goal, kv)
    order = [part for part in worthwhile(drifts, extra) if drifts[part] > 0]
    curve: dict[int, list[Drift]] = {}

    def enough(count: int) -> bool:
        curve[count] = measuring.measure(everything | {part: level[part] for part in order[:count]}, kv)
        return _mean(curve[count]) <= goal

    count = fewest(len(order), enough)
    return found | {
        "order": order,
        "level": {part: level[part] for part in order},
        "count": count,
        "curve": dict(sorted(curve.items())),
    }


def _levels(
    job: dict[str, Any], measuring: Measuring, drifts: Mapping[str, float], goal: float, kv: bool
) -> tuple[dict[str, str], dict[str, int]]:
    """The level that each part is promoted to, and the bytes that it costs.

    INT4 parts go to 8 bits. Where even all of them at 8 bits leave too much, those that 8 bits do not better by half
    are left as they are in the baseline; so are parts that have 8 bits already.
    """
    parts = {part["name"]: part for part in job["parts"]}
    low = [name for name, part in parts.items() if part["extra_8"] is not None]
    level = dict.fromkeys(parts, FULL) | dict.fromkeys(low, job["eight_bit"])
    if low and _mean(measuring.measure(level, kv)) > goal:
        worker_io.say(f"{job['eight_bit']} for all is not enough: measuring each part at it")
        for name in low:
            if _mean(measuring.measure({name: job["eight_bit"]})) > drifts[name] / 2:
                level[name] = FULL
    extra = {name: part["extra_16"] if level[name] == FULL else part["extra_8"] for name, part in parts.items()}
    return level, extra


def _mean(drifts: list[Drift]) -> float:
    return fmean(drift.nats for drift in drifts)


def main() -> None:
    """Load the baseline, measure, report."""
    job = JOB
    forced = answers(job)
    if not forced:
        raise ValueError("not one of the baseline's replies has a token to force")
    gpu = torch.accelerator.is_available()
    with load_quantizable_moe():
        # Without a GPU in float32: many processors multiply BF16 slowly, and BF16 weights are exact in it.
        model = AutoModelForCausalLM.from_pretrained(
            job["checkpoint"],
            dtype="auto" if gpu else torch.float32,
            device_map="auto" if gpu else None,
            attn_implementation="sdpa",
        )
    tokens = sum(len(answer.prompt) + len(answer.answer) for answer in forced.values())
    worker_io.say(f"{len(job['parts'])} parts, {len(forced)} turns, {tokens} tokens on {model.device}")
    bench = Bench(model, job["layers"], list(forced.values()))
    found = search(job, Measuring(job, bench, model, Candidate(Path(job["candidate"]))))
    facts = {
        "turns": {turn: len(answer.answer) for turn, answer in forced.items()},
        "tokens": tokens,
        "agreement": bench.agreement(),
        "device": str(model.device),
    }
    worker_io.finish(json.loads(json.dumps(facts | found, default=lambda drift: [drift.nats, drift.same_words])))


if __name__ == "__main__":
    main()
