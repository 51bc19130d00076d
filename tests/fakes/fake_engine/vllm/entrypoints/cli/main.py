"""The FAKE engine's command line. ``FAKE_ENGINE`` may hold:

die_early       end with code 3 before listening, after an error line
refuse_flag     end as argparse does for an unknown flag
never_ready     do not listen at all
ignore_sigterm  and so do the children
children        start a child, and a grandchild in a session of its own
die_on_request  end with code 5 at the first chat request
wrong_model     say that another model is served
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from openai_server import FakeServer

CONFIG = (
    "Initializing a V1 LLM engine (v9.9.9) with config: model='x', speculative_config=None, dtype=torch.bfloat16, "
    "max_seq_len=8192, load_format=auto, quantization=None, enforce_eager=True, kv_cache_dtype=auto, "
    "device_config=cpu, seed=0, served_model_name=gate, enable_prefix_caching=True, enable_chunked_prefill=True"
)
"""In the form of vLLM 0.32's line (v1/engine/core.py, VllmConfig.__str__)."""
SLEEPER = "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
PARENT = f"import subprocess,sys\nsubprocess.Popen([sys.executable,'-c',{SLEEPER!r}],start_new_session=True)\n{SLEEPER}"


class DyingServer(FakeServer):
    def action_for(self, body: dict[str, object]) -> str:
        print("RuntimeError: scripted death", file=sys.stderr, flush=True)
        os._exit(5)


def main() -> None:
    modes = os.environ.get("FAKE_ENGINE", "").split(",")
    arguments = sys.argv[1:]
    model, port = arguments[1], int(arguments[arguments.index("--port") + 1])
    print("non-default args:", {"port": port}, flush=True)
    if "die_early" in modes:
        print("ValueError: scripted fault while loading", file=sys.stderr)
        sys.exit(3)
    if "refuse_flag" in modes:
        print("usage: vllm serve\nvllm: error: unrecognized arguments: --nonsense", file=sys.stderr)
        sys.exit(2)
    if "children" in modes:
        subprocess.Popen([sys.executable, "-c", PARENT])
    if "never_ready" in modes:
        time.sleep(600)
    kind = DyingServer if "die_on_request" in modes else FakeServer
    kind(port=port, model="elsewhere" if "wrong_model" in modes else model)
    print(CONFIG, "CPU KV cache size: 1,000 tokens", sep="\n", flush=True)
    ignore = "ignore_sigterm" in modes
    signal.signal(signal.SIGTERM, signal.SIG_IGN if ignore else lambda *_: sys.exit(0))
    while True:
        time.sleep(0.05)
