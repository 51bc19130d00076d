"""Two plain prompts, a short and a long one, that any working language model goes on with sensibly.

They are asked before the golden turns: a model whose numbers overflow, or whose kernels read the wrong bytes, says the
same token again and again, or nothing that has a probability.
"""

from __future__ import annotations

import math
from typing import Any

import httpx

from pipeline.serving.clients import local_client
from pipeline.serving.plan import SERVED_NAME

PROMPTS = {
    "short": "The capital of France is",  # a handful of tokens: the path for few rows
    "long": ", ".join(map(str, range(1, 300))) + ",",  # over a thousand tokens: the path for many
}
TOKENS = 16
TIMEOUT_S = 300.0


def ask(url: str) -> dict[str, dict[str, Any]]:
    """The engine's replies by prompt: ``tokens``, whether all log-probabilities are ``finite``, and an ``error``.

    Never raises: an engine that cannot answer is judged by what it did with the golden turns.
    """
    with local_client(TIMEOUT_S) as client:
        return {name: _ask(client, url, prompt) for name, prompt in PROMPTS.items()}


def _ask(client: httpx.Client, url: str, prompt: str) -> dict[str, Any]:
    body = {"model": SERVED_NAME, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "logprobs": 1}
    try:
        answer = client.post(f"{url}/v1/completions", json=body)
        answer.raise_for_status()
        told = answer.json()["choices"][0]["logprobs"]
        values = [float("nan") if value is None else float(value) for value in told["token_logprobs"]]
        return {"tokens": [str(token) for token in told["tokens"]], "finite": all(map(math.isfinite, values))}
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
        return {"tokens": [], "finite": False, "error": f"{type(error).__name__}: {error}"[:200]}
