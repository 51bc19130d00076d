"""How far a changed model's next-token distributions drift from the baseline's on given answers.

Every answer is teacher-forced: the model reads the prompt and the answer's own tokens, so each position compares the
two distributions after the same text. Decoder layers are run one after another. A change in layer n begins with what
the baseline hands to that layer, and modules of one layer at a time are exchanged, so beside the baseline memory
holds one changed layer and the hidden states of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

Modules = Mapping[str, torch.nn.Module]
"""Modules by the full name of those that they stand in for."""
Plain = Mapping[str, torch.Tensor]
"""Values by the full name of the parameter that they stand in for."""


@dataclass(frozen=True)
class Answer:
    """Token ids of a prompt and of the answer that is forced after it; the answer has at least one."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True)
class Drift:
    """Of one answer: mean divergence in nats, and whether greedy choices were the baseline's at every position."""

    nats: float
    same_words: bool


@dataclass(frozen=True)
class Change:
    """What differs from the baseline in one layer (or, for ``layer`` = number of layers, after the last)."""

    layer: int
    exchanged: Callable[[], tuple[Modules, Plain]]
    """Reads the modules and parameters that are exchanged."""


class FloatCache:
    """Attention that rounds keys and values to FP8 (E4M3), as a quantized KV cache does, while ``scales`` are set."""

    def __init__(self) -> None:
        self.scales: dict[int, tuple[float, float]] = {}
        AttentionInterface.register("sdpa", self._attend)

    def _attend(self, module: Any, query: Any, key: Any, value: Any, *arguments: Any, **named: Any) -> Any:
        if scales := self.scales.get(getattr(module, "layer_idx", None)):
            key, value = _through_e4m3(key, scales[0]), _through_e4m3(value, scales[1])
        return sdpa_attention_forward(module, query, key, value, *arguments, **named)


def _through_e4m3(values: torch.Tensor, scale: float) -> torch.Tensor:
    most = torch.finfo(torch.float8_e4m3fn).max
    stored = (values / scale).clamp(-most, most).to(torch.float8_e4m3fn)
    return stored.to(values.dtype) * scale


class Bench:
    """The baseline with what it answers, and the drift of changed models from it."""

    @torch.no_grad()
    def __init__(self, model: Any, layers: Sequence[str], answers: Sequence[Answer]) -> None:
        self._model = model.eval()
        self._layers = [model.get_submodule(name) for name in layers]
        self._answers = answers
        self._cache = FloatCache()
        self._calls: list[list[tuple[Any, Any]]] = []
        self._first: list[torch.Tensor] = []
        self._exact = [self._recorded(answer) for answer in answers]
        self._at, self._entering = 0, self._first

    def agreement(self) -> float:
        """Share of the answers' tokens that the baseline itself would choose: 1 where the answers are its own."""
        chosen = [
            exact.argmax(-1).cpu() == torch.tensor(answer.answer)
            for exact, answer in zip(self._exact, self._answers, strict=True)
        ]
        return float(torch.cat(chosen).float().mean())

    @torch.no_grad()
    def drift(
        self, changes: Sequence[Change], kv_scales: Mapping[int, tuple[float, float]] | None = None
    ) -> list[Drift]:
        """Drift of each answer when ``changes`` are made; the model is left as it was.

        :param kv_scales: scales of an FP8 KV cache by layer; None: the cache is not quantized.
        """
        first = 0 if kv_scales else min((change.layer for change in changes), default=len(self._layers))
        states = self._baseline_until(first)
        with patch.object(self._cache, "scales", dict(kv_scales or {})):
            for index in range(first, len(self._layers)):
                with self._changed([change for change in changes if change.layer == index]):
                    states = self._through(index, states)
            with self._changed([change for change in changes if change.layer == len(self._layers)]):
                return [
                    _compared(exact, self._ending(answer, state))
                    for answer, state, exact in zip(self._answers, states, self._exact, strict=True)
                ]

    def _recorded(self, answer: Answer) -> torch.Tensor:
        """The baseline's log-probabilities; notes how each layer is called."""
        calls: list[tuple[Any, Any]] = []

        def note(_module: Any, arguments: Any, named: Any) -> None:
            if not calls:
                self._first.append(arguments[0])
            calls.append((arguments[1:], named))

        with ExitStack() as stack:
            for layer in self._layers:
                stack.callback(layer.register_forward_pre_hook(note, with_kwargs=True).remove)
            found = self._log_probs(answer)
        self._calls.append(calls)
        return found

    def _baseline_until(self, layer: int) -> list[torch.Tensor]:
        """What the baseline hands to ``layer``; layers are best asked for in their order."""
        if layer < self._at:
            self._at, self._entering = 0, self._first
        while self._at < layer:
            self._entering = self._through(self._at, self._entering)
            self._at += 1
        return self._entering

    def _through(self, index: int, states: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        layer = self._layers[index]
        passed = []
        for state, calls in zip(states, self._calls, strict=True):
            arguments, named = calls[index]
            out = layer(state, *arguments, **named)
            passed.append(out[0] if isinstance(out, tuple) else out)
        return passed

    def _ending(self, answer: Answer, state: torch.Tensor) -> torch.Tensor:
        """Log-probabilities from what the last layer gave: the model runs with layers that return just that."""
        with ExitStack() as stack:
            for layer in self._layers:
                stack.enter_context(patch.object(layer, "forward", lambda *_arguments, **_named: state))
            return self._log_probs(answer)

    def _log_probs(self, answer: Answer) -> torch.Tensor:
        """Log-probabilities [answer tokens, vocabulary] at the positions that predict the answer's tokens."""
        ids = torch.tensor([answer.prompt + answer.answer[:-1]], device=self._model.device)
        logits = self._model(ids, use_cache=False, logits_to_keep=len(answer.answer)).logits[0]
        return torch.log_softmax(logits.float(), dim=-1)

    @contextmanager
    def _changed(self, changes: Sequence[Change]) -> Iterator[None]:
        with ExitStack() as stack:
            for change in changes:
                modules, plain = change.exchanged()
                for name, module in modules.items():
                    parent, _, last = name.rpartition(".")
                    owner = self._model.get_submodule(parent)
                    stack.callback(setattr, owner, last, getattr(owner, last))
                    setattr(owner, last, module)
                for name, value in plain.items():
                    parameter = self._model.get_parameter(name)
                    stack.callback(setattr, parameter, "data", parameter.data)
                    parameter.data = value.to(parameter.device, parameter.dtype)
            yield


def _compared(exact: torch.Tensor, other: torch.Tensor) -> Drift:
    """Mean of KL(exact || other) over positions, in nats."""
    nats = (exact.exp() * (exact - other)).sum(dim=-1).mean()
    return Drift(float(nats), bool((exact.argmax(-1) == other.argmax(-1)).all()))
