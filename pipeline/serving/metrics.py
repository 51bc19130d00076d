"""What a running vLLM tells of itself at ``/metrics``, before, during and after a load."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from pipeline.errors import LoadError, ServerError
from pipeline.serving.clients import local_client
from pipeline.serving.server import Server

POLL_S = 0.5
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+-?\d+)?$")
_GAUGES = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_cache_use": "vllm:kv_cache_usage_perc",
}
_COUNTERS = {
    "preemptions": "vllm:num_preemptions_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "rejected": "vllm:admission_rejections_total",
    "queue_s": "vllm:request_queue_time_seconds_sum",
    "queued": "vllm:request_queue_time_seconds_count",
}
_ENDED = "vllm:request_success_total"
_WELL = ("stop", "length", "repetition")
"""Reasons with which a request ends well; others (abort, error) are failures."""


def parse(text: str) -> dict[str, float]:
    """Samples by name, added up over their labels; of ended requests also those that failed, as ``failed``.

    The Prometheus text format: https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    samples: defaultdict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if line.startswith("#") or not (found := _SAMPLE.match(line.strip())):
            continue
        name, labels, value = found.groups()
        samples[name] += float(value)
        if name == _ENDED and not any(f'finished_reason="{reason}"' in (labels or "") for reason in _WELL):
            samples["failed"] += float(value)
    return dict(samples)


def demand_all(samples: Mapping[str, float]) -> None:
    """Refuse figures without one that is read here: what is not counted must not pass for none.

    :raises LoadError: names what is missing.
    """
    if missing := [name for name in (*_GAUGES.values(), *_COUNTERS.values(), _ENDED) if name not in samples]:
        raise LoadError(
            f"the engine's /metrics tells nothing of {', '.join(missing)}",
            "Load tests need the metrics of vLLM 0.32; is another version installed, or --disable-log-stats set?",
        )


class Watch:
    """Scrapes a server while something else puts load on it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self._most: dict[str, float | None] = dict.fromkeys(_GAUGES)
        self._before = self._scrape()
        self._after = self._before
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _scrape(self) -> dict[str, float]:
        try:
            with local_client(30) as client:
                samples = parse(client.get(f"{self._server.url}/metrics").raise_for_status().text)
        except httpx.HTTPError as error:
            self._server.check()
            raise ServerError(
                f"{self._server.url}/metrics does not answer: {error!r}", f"See {self._server.log}."
            ) from error
        demand_all(samples)
        return samples

    def _poll(self) -> None:
        while not self._over.wait(POLL_S):
            try:
                samples = self._scrape()
            except Exception:  # noqa: BLE001 - looked at again at the end, where it is an error
                continue
            for name, sample in _GAUGES.items():
                self._most[name] = max(self._most[name] or 0.0, samples[sample])

    def facts(self) -> dict[str, float | None]:
        """Most of each gauge (None: never seen), and what each counter grew by; shares and seconds.

        :raises LoadError: requests failed or were rejected, by the server's own count.
        """
        grown = {name: self._after[sample] - self._before[sample] for name, sample in _COUNTERS.items()}
        failed = self._after.get("failed", 0.0) - self._before.get("failed", 0.0)
        if failed or grown["rejected"]:
            raise LoadError(
                f"the server counts {failed:.0f} failed and {grown['rejected']:.0f} rejected requests under load",
                f"See {self._server.log}, or lower the load in configs/slo.yaml.",
            )
        queries, queued = grown["prefix_cache_queries"], grown["queued"]
        return {
            **{f"most_{name}": value for name, value in self._most.items()},
            "preemptions": grown["preemptions"],
            "prefix_cache_hit_rate": grown["prefix_cache_hits"] / queries if queries else 0.0,
            "mean_queue_s": grown["queue_s"] / queued if queued else 0.0,
            "failed": failed,
            "rejected": grown["rejected"],
        }


@contextmanager
def watching(server: Server) -> Iterator[Watch]:
    """Watch a server during the block; its :meth:`Watch.facts` are to be asked after it."""
    watch = Watch(server)
    watch._thread.start()
    try:
        yield watch
    finally:
        watch._over.set()
        watch._thread.join()
    watch._after = watch._scrape()


def forget_prefixes(server: Server) -> None:
    """Empty the server's prefix cache; it must run with ``VLLM_SERVER_DEV_MODE=1``.

    :raises ServerError: it cannot.
    """
    try:
        with local_client(60) as client:
            answer: Any = client.post(f"{server.url}/reset_prefix_cache")
            answer.raise_for_status()
    except httpx.HTTPError as error:
        raise ServerError(f"the server cannot empty its prefix cache: {error!r}", f"See {server.log}.") from error
