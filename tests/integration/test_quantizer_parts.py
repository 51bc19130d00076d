"""What the workers change about llm-compressor and AutoAWQ, against the libraries themselves and hand calculations."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline import environments
from pipeline.errors import EnvironmentMissing
from pipeline.quantizers.worker import SCRIPTS


def computed(environment: str, code: str, tmp_path: Path) -> dict[str, Any]:
    """Run ``code``, which fills ``found``, in an environment that has the workers' modules; return ``found``."""
    try:
        python = environments.python_of(environment)
    except EnvironmentMissing as error:
        pytest.skip(f"no {environment} environment: {error.message}")
    script = tmp_path / "script.py"
    script.write_text(f"import json\nfound = {{}}\n{code}\nprint('\\n' + json.dumps(found))\n", encoding="utf-8")
    done = subprocess.run(
        [python, script], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(SCRIPTS)}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


HESSIANS = """
import torch
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.gptq.helpers import accumulate_hessian, make_empty_hessian
from shared_hessian import BLOCK, SharedHessianGPTQ, mirror
torch.manual_seed(0)
width = 2 * BLOCK + 88
q, k, other = (torch.nn.Linear(width, 8, bias=False) for _ in range(3))
ours, theirs, counts = SharedHessianGPTQ(), {}, {}
for length in (31, 57):
    x = torch.randn(1, length, width).bfloat16()
    y = torch.randn(1, length, width).bfloat16()
    for module, seen in ((q, x), (k, x), (other, y)):
        ours.calibrate_module(module, (seen,), None)
        start = theirs.get(module, make_empty_hessian(module)), counts.get(module, torch.zeros(()))
        theirs[module], counts[module] = accumulate_hessian(seen, module, *start)
found["shared"] = ours._hessians[q] is ours._hessians[k] and ours._hessians[q] is not ours._hessians[other]
for hessian in {id(h): h for h in ours._hessians.values()}.values():
    mirror(hessian)
found["worst"] = max(
    float((ours._hessians[m] - theirs[m]).abs().max() / theirs[m].abs().max()) for m in (q, k, other)
)
found["samples"] = [float(ours._num_samples[m]) for m in (q, k, other)]
found["expected"] = [float(counts[m]) for m in (q, k, other)]
ours._module_names[k] = "k"
ours.calibrate_module(q, (x,), None)
try:
    ours.calibrate_module(k, (y,), None)
except RuntimeError as error:
    found["error"] = str(error)
"""


def test_shared_hessians_are_llm_compressors(tmp_path: Path) -> None:
    found = computed("quantize", HESSIANS, tmp_path)
    assert found["shared"]
    assert found["worst"] < 1e-6  # a few roundings in float32
    assert found["samples"] == found["expected"] == [2.0, 2.0, 2.0]
    assert found["error"] == "k reads another tensor than in the sample before"


PRODUCTS = """
import torch
torch.manual_seed(0)
x, y = torch.randn(2, 60, 70).bfloat16(), torch.randn(2, 70, 80).bfloat16()
exact = {
    "matmul": x.double() @ y.double(),
    "linear": x.double() @ y[0].double() + 1,
    "attention": torch.softmax(x.double() @ x.double().transpose(1, 2) / 70**0.5, -1) @ x.double(),
}
import bf16_products
torch.ops.mkldnn._is_mkldnn_bf16_supported = lambda: False
bf16_products.multiply_in_float32()
ours = {
    "matmul": torch.matmul(x, y),
    "linear": torch.nn.functional.linear(x, y[0].T, torch.ones(80).bfloat16()),
    "attention": torch.nn.functional.scaled_dot_product_attention(x, x, x),
}
found["worst"] = {name: float(((ours[name].double() - e) / e).abs().max()) for name, e in exact.items()}
found["dtypes"] = [str(each.dtype) for each in ours.values()]
wide = []
plain = bf16_products._matmul
bf16_products._matmul = lambda a, b: wide.append(str(a.dtype)) or plain(a, b)
from transformers import LlamaConfig, LlamaForCausalLM
config = LlamaConfig(vocab_size=16, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=2, attn_implementation="eager")
LlamaForCausalLM(config).bfloat16()(torch.tensor([[1, 2, 3]]))
found["in attention"] = wide
"""


def test_bf16_products_by_way_of_float32_are_rounded_once(tmp_path: Path) -> None:
    found = computed("quantize", PRODUCTS, tmp_path)
    # BF16 keeps 8 bits: rounded to nearest, an exact product moves by at most 2^-9 of the next power of two, and sums
    # in float32 add a hundredth of that.
    assert all(worst < 1.01 * 2**-8 for worst in found["worst"].values()), found["worst"]
    assert found["dtypes"] == ["torch.bfloat16"] * 3
    assert found["in attention"] == ["torch.float32"] * 4  # two products a layer


SEARCH = """
import torch
from sampled_awq import FirstSamples
from sensitivity import divergences, round_to_nearest
from compressed_tensors.quantization import QuantizationArgs
cache = FirstSamples(2, None, None)
for n in range(3):
    cache.append({"x": torch.full((1,), float(n))})
for index in range(len(cache)):
    cache.pin_memory(index)
found["kept"] = [float(batch["x"]) for batch in cache]
int4 = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=4)
weight = torch.tensor([[0.9375, -0.9375, 0.26, 0.0, 1.875, 0.125, -0.375, -0.09]])
found["rounded"] = round_to_nearest(weight, int4).tolist()[0]
"""


def test_first_samples_and_rounding_to_nearest(tmp_path: Path) -> None:
    found = computed("quantize", SEARCH, tmp_path)
    assert found["kept"] == [0.0, 1.0]
    # By hand: scale = 2 * 0.9375 / 15 = 0.125 and 2 * 1.875 / 15 = 0.25, values -8..7. 7.5 rounds to 8 and is cut to 7;
    # -7.5 rounds to -8; 0.125 / 0.25 = 0.5 and -0.375 / 0.25 = -1.5 round to even; -0.09 / 0.25 rounds to 0.
    assert found["rounded"] == [0.875, -1.0, 0.25, 0.0, 1.75, 0.0, -0.5, 0.0]


LAYERS = """
import torch
from compressed_tensors.quantization import QuantizationArgs
from sensitivity import divergences
from transformers import LlamaConfig, LlamaForCausalLM
import worker_io
worker_io.advance = lambda done, total: found.__setitem__("told", [done, total])
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=3,
    num_attention_heads=2, num_key_value_heads=2))
names = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and "layers" in n]
layers = {f"model.layers.{i}": [n for n in names if f".{i}." in n] for i in range(3)}
with torch.no_grad():
    for name in layers["model.layers.1"]:  # zeros are on every grid: rounding changes nothing
        model.get_submodule(name).weight.zero_()
    for name in layers["model.layers.2"]:  # ten times the weights, ten times the rounding
        model.get_submodule(name).weight.mul_(10)
before = {n: p.clone() for n, p in model.named_parameters()}
int4 = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)
ids = [list(range(3, 60)), list(range(50, 2, -1))]
found["divergences"] = divergences(model, layers, ids, int4, "cpu")
found["unchanged"] = all(torch.equal(p, before[n]) for n, p in model.named_parameters())
"""


def test_layers_are_measured_one_at_a_time(tmp_path: Path) -> None:
    found = computed("quantize", LAYERS, tmp_path)
    first, second, third = found["divergences"].values()
    assert abs(second) < 1e-7 < first < third
    assert found["unchanged"]
    assert found["told"] == [3, 3]


MENDED = """
import torch
from awq.quantize.quantizer import AwqQuantizer
from mended_awq import MendedQuantizer
def make(kind):
    made = kind.__new__(kind)
    made.group_size, made.w_bit, made.zero_point, made.duo_scaling = 32, 4, True, True
    made.n_parallel_calib_samples, made.max_chunk_memory = None, 1 << 20
    return made
torch.manual_seed(0)
x = torch.randn(1, 200, 64) * torch.rand(64).mul(4).exp()
weight = torch.randn(256, 64)
for name, kind in (("stock", AwqQuantizer), ("mended", MendedQuantizer)):
    linear = torch.nn.Linear(64, 256, bias=False)
    linear.weight.data = weight.clone()
    quantizer = make(kind)
    with torch.no_grad():
        scales = quantizer._compute_best_scale(
            x, weight.abs().mean(0), x.abs().mean((0, 1)), linear, [linear], linear(x))
    found[name + " kept"] = bool(torch.equal(linear.weight.data, weight))
    found[name + " hooks"] = len(linear._state_dict_hooks)
    found[name + " clip"] = quantizer._compute_best_clip(weight, x, n_sample_token=50).flatten().tolist()
means = x.abs().mean((0, 1))
both = torch.cat((x, torch.randn(1, 200, 64) / means * 1e4))  # what is small in one is large in the other
def searched(inputs, blocks):
    linear = torch.nn.Linear(64, 256, bias=False)
    linear.weight.data = weight.clone()
    quantizer = make(MendedQuantizer)
    quantizer.search_blocks = blocks
    with torch.no_grad():
        return quantizer._compute_best_scale(
            inputs, weight.abs().mean(0), means, linear, [linear], linear(inputs)).tolist()
found["first of two"], found["first alone"] = searched(both, 1), searched(both[:1], None)
found["second alone"], found["both"], found["two"] = searched(both[1:], None), searched(both, None), searched(both, 2)
"""


def test_autoawq_is_mended_and_clips_as_before(tmp_path: Path) -> None:
    found = computed("autoawq", MENDED, tmp_path)
    assert not found["stock kept"]  # the fault: without it the mending is not needed any more
    assert found["mended kept"]
    assert found["mended hooks"] == 0
    assert len(found["mended clip"]) == 256 * 2
    assert len(set(found["mended clip"])) > 256
    same = sum(a == b for a, b in zip(found["mended clip"], found["stock clip"], strict=True))
    assert same >= 0.99 * 512  # two strengths of clipping may have the same error but for its last digits
    assert found["first of two"] == found["first alone"] != found["second alone"]
    assert found["two"] == found["both"]
