"""What is read out of /proc/cpuinfo."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline.processor as module
from pipeline.processor import cpu_flags, description, lacks_avx512

ZEN3 = "model name\t: AMD EPYC 7543\nflags\t\t: fpu sse2 fma avx avx2 bmi2\n"
ZEN4 = "model name\t: AMD EPYC 9554\nflags\t\t: fpu avx2 avx512f avx512dq avx512bw avx512vl avx512_bf16\n"
KNIGHTS_LANDING = "model name\t: Intel Xeon Phi 7250\nflags\t\t: fpu avx2 avx512f avx512pf avx512er avx512cd\n"
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU part\t: 0xd40\n"


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(("text", "lacks"), [(ZEN3, True), (ZEN4, False), (KNIGHTS_LANDING, True), (GRAVITON, False)])
def test_whether_avx512_is_missing(text: str, lacks: bool, cpuinfo: Path) -> None:
    cpuinfo.write_text(text)
    assert lacks_avx512() is lacks


def test_description_names_what_selects_kernels(cpuinfo: Path) -> None:
    cpuinfo.write_text(ZEN4 * 2)
    assert description().startswith("AMD EPYC 9554 (avx2, avx512f, avx512_bf16), ")
    cpuinfo.write_text(GRAVITON)
    assert cpu_flags() == frozenset()
    assert description().startswith("unknown processor (), ")
