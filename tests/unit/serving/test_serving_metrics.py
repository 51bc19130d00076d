"""What a server's /metrics says, read as the Prometheus text format is written."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.errors import LoadError
from pipeline.serving import metrics
from pipeline.serving.metrics import Watch, demand_all, parse

TEXT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="gate"} 3.0
vllm:num_requests_running{engine="1",model_name="gate"} 2.0
vllm:prefix_cache_queries_total{engine="0",model_name="gate"} 1.2e+03
vllm:prefix_cache_hits_total{engine="0",model_name="gate"} 900.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="gate"} 7.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="gate"} 2.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="gate"} 1.5
vllm:request_queue_time_seconds_count{engine="0",model_name="gate"} 9.0
vllm:num_preemptions_total{engine="0",model_name="ga{te} 1"} 4.0 1700000000000
vllm:num_requests_waiting{engine="0",model_name="gate"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="gate"} 0.1
vllm:admission_rejections_total{model_name="gate",reason="max_num_queued_reqs"} 0.0
process_start_time_seconds 1.7e+09
"""


def watch(before: str, after: str) -> Watch:
    made = object.__new__(Watch)
    made._before, made._after, made._most = parse(before), parse(after), {"running": 5.0, "waiting": None}
    made._server = SimpleNamespace(url="http://127.0.0.1:9", log=Path("/logs/server.log"))  # type: ignore[assignment]
    return made


def test_samples_are_added_up_over_engines() -> None:
    found = parse(TEXT)
    assert found["vllm:num_requests_running"] == 5
    assert found["vllm:prefix_cache_queries_total"] == 1200
    assert found["vllm:num_preemptions_total"] == 4
    assert found["failed"] == 2


def test_rates_are_those_of_the_load_alone() -> None:
    calm = "\n".join(line for line in TEXT.splitlines() if "abort" not in line)
    later = (
        calm.replace("1.2e+03", "2.2e+03").replace("900.0", "1700.0").replace("1.5\n", "3.5\n").replace(" 9.0", " 13.0")
    )
    facts = watch(calm, later).facts()
    assert facts["prefix_cache_hit_rate"] == pytest.approx(0.8)
    assert facts["mean_queue_s"] == pytest.approx(0.5)
    assert (facts["preemptions"], facts["failed"], facts["most_running"]) == (0, 0, 5)
    assert facts["most_waiting"] is None


@pytest.mark.parametrize(("text", "most"), [(TEXT, 5), ("", None)])
def test_only_polls_that_were_answered_count(text: str, most: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server too busy to answer is not known to have run nothing."""
    monkeypatch.setattr(metrics, "POLL_S", 0.01)
    answers = iter([TEXT, *[text] * 1000])

    def scrape(self: Watch) -> dict[str, float]:
        samples = parse(next(answers))
        demand_all(samples)
        return samples

    monkeypatch.setattr(Watch, "_scrape", scrape)
    with_load = Watch(SimpleNamespace())  # type: ignore[arg-type]
    with_load._thread.start()
    time.sleep(0.1)
    with_load._over.set()
    with_load._thread.join()
    assert with_load._most["running"] == most


def test_failures_by_the_servers_own_count_are_an_error() -> None:
    none = re.sub(r" \d+\.\d+$", " 0.0", TEXT, flags=re.MULTILINE)
    with pytest.raises(LoadError, match="counts 2 failed and 0 rejected") as raised:
        watch(none, TEXT).facts()
    assert "/logs/server.log" in raised.value.remedy
    refused = TEXT.replace('reqs"} 0.0', 'reqs"} 3.0')
    with pytest.raises(LoadError, match="counts 0 failed and 3 rejected"):
        watch(TEXT, refused).facts()


def test_what_is_not_counted_does_not_pass_for_none() -> None:
    demand_all(parse(TEXT))
    for name in ("vllm:admission_rejections_total", "vllm:request_success_total", "vllm:num_requests_waiting"):
        without = "\n".join(line for line in TEXT.splitlines() if not line.startswith(name))
        with pytest.raises(LoadError, match=f"tells nothing of {name}$"):
            demand_all(parse(without))
