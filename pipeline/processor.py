"""What this machine's processor is and can do, from ``/proc/cpuinfo``."""

from __future__ import annotations

import os
import re
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
"""What oneDNN needs for BF16 products on x86 (its documentation, "Data Types"), and vLLM for its INT4 kernel."""
_NAMED = ("avx2", "avx512f", "avx512_bf16", "amx_tile")


def cpu_flags() -> frozenset[str]:
    """Names of the instruction sets; empty where the kernel does not list them as on x86."""
    listed = re.search(r"^flags\s*: (.*)$", _cpuinfo(), re.MULTILINE)
    return frozenset(listed[1].split() if listed else ())


def lacks_avx512() -> bool:
    """Whether this is an x86 processor on which BF16 products and INT4 kernels are missing."""
    flags = cpu_flags()
    return bool(flags) and not flags >= _AVX512


def cores() -> int:
    """Physical cores that this process may use."""
    siblings = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(topology.read_text(encoding="ascii") if topology.is_file() else str(cpu))
    return max(1, len(siblings))


def description() -> str:
    """The model, with the instruction sets that select kernels and the number of cores."""
    model = re.search(r"^model name\s*: (.*)$", _cpuinfo(), re.MULTILINE)
    known = [name for name in _NAMED if name in cpu_flags()]
    return f"{model[1] if model else 'unknown processor'} ({', '.join(known)}), {cores()} cores"


def _cpuinfo() -> str:
    return _CPUINFO.read_text(encoding="utf-8", errors="replace")
