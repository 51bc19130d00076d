"""Speed and peak memory of inspecting a checkpoint, beside reading its bytes with `sha256sum` and `cat`.

Usage: python benchmarks/inspect_speed.py [LAYERS] [DIRECTORY]   (default 6 layers in a temporary directory)

The checkpoints are of random weights in the shapes of an 8B Llama's layers (hidden 4096, inner 14336) with a vocabulary
of 32000: about 0.44 GB of BF16 a layer, candidates in FP8 per channel and in INT4 with groups of 128, in shards. Each
way of reading runs three times, in turn, over the same files; the medians are compared. `cat` from a warm page cache is
the speed of memory; `sha256sum` is what the gate spends on the same files when it takes their digest.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import TensorSpec, serialize_file

from pipeline.capacity.model import read_model
from pipeline.capacity.shapes import expected_tensors

GROUP = 128
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}
Stored = tuple[str, np.ndarray]
LAYER = "model.layers.0."
REPEATS = 3

MEASURED = """
import json, re, sys, time
from pathlib import Path
from pipeline.inspection import inspect_artifact, load_hardware
def peak():  # of this program; getrusage() counts what the process was before it became this program
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
hardware = load_hardware()
before = peak()
started = time.perf_counter()
found = inspect_artifact(Path(sys.argv[1]), Path(sys.argv[2]), hardware_targets=hardware)
print(json.dumps({"seconds": time.perf_counter() - started, "before": before, "peak": peak(),
                  "findings": [f"{f.check}: {f.text[:200]}" for f in found]}))
"""


def bf16(values: np.ndarray) -> Stored:
    """Cut to the upper half of a float32."""
    return "bfloat16", (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def fp8(weight: np.ndarray) -> dict[str, Stored]:
    """Nearest of the 127 magnitudes of E4M3, one scale a row."""
    values = np.array(
        [(1 + m / 8) * 2.0 ** (e - 7) if e else m / 8 * 2.0**-6 for e in range(16) for m in range(8)][:-1]
    )
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    scale = (np.abs(weight).max(1, keepdims=True) / 448).astype(np.float32)
    code = np.searchsorted(middles, np.abs(weight) / scale).astype(np.uint8)
    return {
        "weight": ("float8_e4m3fn", code | np.where(weight < 0, 128, 0).astype(np.uint8)),
        "weight_scale": ("float32", scale),
    }


def int4(weight: np.ndarray) -> dict[str, Stored]:
    """Rounded to nearest in groups, packed as compressed-tensors packs."""
    grouped = weight.reshape(len(weight), -1, GROUP)
    scale = (np.abs(grouped).max(2) / 7.5).astype(np.float32)
    code = (np.clip(np.rint(grouped / scale[:, :, None]), -8, 7) + 8).astype(np.uint32).reshape(len(weight), -1, 8)
    words = sum(code[:, :, n] << np.uint32(4 * n) for n in range(8))
    return {"weight_packed": ("int32", np.asarray(words).view(np.int32)), "weight_scale": ("float32", scale)}


DECLARED = {
    "fp8": (fp8, "float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    "int4": (int4, "pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP}),
}


def write(folder: Path, layer: dict[str, Stored], rest: dict[str, Stored], config: dict[str, Any], layers: int) -> None:
    """A checkpoint of ``layers`` equal layers, one a shard."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    index = {}
    parts = [rest, *({f"model.layers.{n}.{name}": stored for name, stored in layer.items()} for n in range(layers))]
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        specs = {
            name: TensorSpec(dtype=kind, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes)
            for name, (kind, a) in part.items()
        }
        serialize_file(specs, folder / file)
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def build(root: Path, layers: int) -> None:
    """A baseline and its candidates."""
    draw = np.random.default_rng(0).standard_normal
    (root / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 1}))
    shapes = {tensor.name: tensor.shape for tensor in expected_tensors(read_model(root))}
    drawn = {n: 0.02 * draw(s, np.float32) if len(s) > 1 else np.ones(s, np.float32) for n, s in shapes.items()}
    inside = {name.removeprefix(LAYER): values for name, values in drawn.items() if name.startswith(LAYER)}
    rest = {name: bf16(values) for name, values in drawn.items() if not name.startswith(LAYER)}
    norms = {name: bf16(values) for name, values in inside.items() if values.ndim == 1}
    weights = {name.removesuffix(".weight"): values for name, values in inside.items() if values.ndim > 1}
    write(root / "baseline", norms | {f"{n}.weight": bf16(w) for n, w in weights.items()}, rest, CONFIG, layers)
    for name, (how, form, scheme) in DECLARED.items():
        layer = norms | {f"{n}.{part}": stored for n, w in weights.items() for part, stored in how(w).items()}
        group = {"targets": ["Linear"], "weights": {"symmetric": True, **scheme}, "input_activations": None}
        declared = {
            "quant_method": "compressed-tensors",
            "format": form,
            "config_groups": {"group_0": group},
            "ignore": ["lm_head"],
        }
        write(root / name, layer, rest, {**CONFIG, "quantization_config": declared}, layers)


def timed(command: list[str]) -> float:
    """Seconds that a command takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Build, read in turn, and print."""
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        root = Path(folder)
        build(root, layers)
        for name in DECLARED:
            files = [str(f) for side in ("baseline", name) for f in sorted((root / side).glob("*.safetensors"))]
            size = sum(Path(f).stat().st_size for f in files)
            seconds: dict[str, list[float]] = {"cat": [], "sha256sum": [], "inspect": []}
            for _ in range(REPEATS):
                seconds["cat"].append(timed(["cat", *files]))
                seconds["sha256sum"].append(timed(["sha256sum", *files]))
                command = [sys.executable, "-c", MEASURED, str(root / name), str(root / "baseline")]
                done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                seconds["inspect"].append(done["seconds"])
                if done["findings"]:
                    raise SystemExit(f"{name}: findings on a whole checkpoint: {done['findings']}")
            median = {way: statistics.median(values) for way, values in seconds.items()}
            print(f"{name}: {size / 1e9:.2f} GB of weights on both sides, {layers} layers")
            for way, value in median.items():
                spread = f"{min(seconds[way]):.1f}-{max(seconds[way]):.1f}"
                print(f"  {way:<10}{value:7.1f} s ({spread}), {size / 1e9 / value:.2f} GB/s")
            print(
                f"  inspect runs at {median['sha256sum'] / median['inspect']:.2f} of sha256sum's speed and "
                f"{median['cat'] / median['inspect']:.2f} of cat's; peak memory {done['peak'] / 1024:.0f} MiB, "
                f"{(done['peak'] - done['before']) / 1024:.0f} MiB of it while inspecting"
            )


if __name__ == "__main__":
    main()
