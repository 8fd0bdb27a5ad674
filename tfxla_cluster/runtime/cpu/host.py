"""This machine, as a Target: the only place that probes it."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import llvmlite.binding as llvm

from ...target import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_DEFAULT_L2 = 512 << 10


@functools.cache
def target() -> Target:
    """The CPU this process runs on; `cores` are those that the process may use."""
    features = llvm.get_host_cpu_features()
    return Target(
        "cpu", llvm.get_host_cpu_name(), features.flatten(), _vector_bits(features), usable_cores(), _l2_bytes()
    )


def usable_cores() -> int:
    """Cores by affinity and by the container's quota, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text().split()
        return max(1, min(cores, -(-int(quota) // int(period))))
    except (OSError, ValueError):  # no cgroup, or its quota is "max"
        return cores


_COMPILE_THREADS = 16  # at most, where nobody says how many: a process that runs Triton holds some 300 MB


def compile_threads(asked: int) -> int:
    """Threads, for GPUs processes, that compile kernels: as asked for, or (0) as many as this process may use."""
    return asked or min(_COMPILE_THREADS, usable_cores())


def _vector_bits(features: dict[str, bool]) -> int:
    if features.get("avx512f") and features.get("avx512vl"):
        return 512
    return 256 if features.get("avx") else 128


def _l2_bytes() -> int:
    """Of a core's second-level cache, as far as the system says."""
    for index in sorted(_CACHES.glob("index*")):
        try:
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            if int(level) == 2:
                return int(size.removesuffix("K")) << 10
        except (OSError, ValueError):
            continue  # an entry this kernel fills differently
    return _DEFAULT_L2
