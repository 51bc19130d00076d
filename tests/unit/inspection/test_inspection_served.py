"""Warnings of the engine: messages are those in vLLM 0.32's source, in the form of a recorded log."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.inspection import Severity
from pipeline.inspection.served import canary_findings, log_findings

RECORDED = """\
(APIServer pid=29533) INFO 11-30 12:09:38 [model.py:664] Resolved architecture: LlamaForCausalLM
(APIServer pid=29533) WARNING 11-30 12:09:38 [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs, \
and JIT kernel warmup. This is equivalent to setting -cc.mode=none
(APIServer pid=29533) WARNING 11-30 12:09:38 [vllm.py:1727] Inductor compilation was disabled by user settings, \
optimizations settings that are only active during inductor compilation will be ignored.
(EngineCore pid=30044) WARNING 11-30 12:09:40 [cpu_worker.py:114] libiomp is not found in LD_PRELOAD.
"""


def logged(message: str, file: str = "x.py:1") -> str:
    return f"(EngineCore pid=31000) WARNING 11-30 13:00:00 [{file}] {message}\n"


@pytest.mark.parametrize(
    ("message", "topic"),
    [
        # vllm/model_executor/layers/quantization/kv_cache.py
        (
            "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling "
            "factors are properly set in the checkpoint.",
            "scale",
        ),
        ("Checkpoint does not provide a q scaling factor. Setting it to k_scale.", "scale"),
        # .../auto_awq.py, auto_gptq.py
        (
            "Layer 'model.layers.0.mlp.down_proj' is not supported by AutoAWQMarlin. Falling back to unoptimized AWQ "
            "kernels.",
            "kernel",
        ),
        ("Layer 'x' is not supported by GPTQMoeMarlin. Falling back to Moe WNA16 kernels.", "kernel"),
        # .../compressed_tensors/schemes/compressed_tensors_w4a4_nvfp4.py
        (
            "In NVFP4 linear, the weight global scale is different for parallel layers (e.g. q_proj, k_proj, v_proj).",
            "scale",
        ),
        # .../compressed_tensors_moe/compressed_tensors_moe_w4a4_mxfp4.py
        (
            "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. Weight-only "
            "FP4 compression will be used leveraging the Marlin kernel.",
            "kernel",
        ),
        # .../utils/marlin_utils.py
        ("Marlin requires thread-tile padding for some weight shapes in this model.", "kernel"),
        # vllm/model_executor/model_loader/weight_tying.py
        (
            "The config for m says the word embeddings are tied, but the checkpoint contains a different "
            "lm_head.weight, which has been used instead of tying.",
            "setting",
        ),
        # vllm/model_executor/kernels/linear/mxfp4/marlin.py
        ("the requested activation quantization (mxfp4) is ignored.", "setting"),
    ],
)
def test_warnings_of_one_side(message: str, topic: str) -> None:
    (found,) = log_findings(RECORDED, RECORDED + logged(message) * 2)
    assert (found.check, found.severity) == ("server-log", Severity.WARNING)
    assert topic in found.text.partition("on the candidate's side")[0] and message[:60] in found.text


def test_warnings_of_both_sides_are_the_same_for_both() -> None:
    message = "Overriding cudagraph_mode from FULL to PIECEWISE for 3 layers in /models/a"
    assert log_findings(RECORDED + logged(message), RECORDED + logged(message.replace("3", "5"))) == []
    other = "Overriding cudagraph_mode from FULL to PIECEWISE for 3 layers in /models/b/c"
    assert log_findings(RECORDED + logged(message), RECORDED + logged(other)) == []


def test_other_lines_are_nothing() -> None:
    assert log_findings("", RECORDED.replace("will be ignored", "stay")) == []
    information = "(EngineCore pid=1) INFO 11-30 12:09:48 [x.py:1] Falling back to nothing\n"
    assert log_findings("", information) == []


GOOD = {"tokens": [" Paris", ".", "\n", "It", " is", " the", " capital", "."], "finite": True}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"tokens": ["!"] * 16, "finite": True}, "'!' alone, 16 tokens"),
        ({"tokens": [".", ",", ".", "."] * 4, "finite": True}, "'.' and ',' alone"),
        ({**GOOD, "finite": False}, "not finite"),
        ({"tokens": [], "finite": False, "error": "HTTPStatusError: 500"}, "no answer (HTTPStatusError: 500)"),
    ],
)
def test_canaries_that_only_the_candidate_fails(reply: dict[str, Any], words: str) -> None:
    (found,) = canary_findings({"short": GOOD, "long": GOOD}, {"short": GOOD, "long": reply})
    assert (found.check, found.severity, found.where) == ("server-canary", Severity.FATAL, "the long canary")
    assert words in found.text
    assert canary_findings({"short": reply, "long": reply}, {"short": reply, "long": reply}) == []  # a weak baseline
    assert canary_findings({}, {"short": reply}) == []  # nothing to compare with


def test_canaries_may_differ_and_end_early() -> None:
    assert canary_findings({"short": GOOD}, {"short": {"tokens": [" Lyon", "."], "finite": True}}) == []
    assert canary_findings({"short": GOOD}, {"short": {"tokens": ["."], "finite": True}}) == []
