"""Where the time of a step on a GPU goes: what TensorFlow's profiler saw of each kernel, beside the least that its
bytes and operations take.

Kernels of this package are told by the names in kernels.json of a dump directory, all others by their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster.bench import gpu_tensorflow

# Of an H200, for what a kernel takes at least: bytes a second that copies reach, operations of bf16 products.
BYTES, OPERATIONS = 4.1e12, 7.9e14
_FUNCTION = re.compile(r"^kernel_\d+_")  # what a symbol has in place of the name of the kernel's function


@dataclass(frozen=True)
class KernelTime:
    """Of one kernel in a step: runs, milliseconds of all of them, and the least that they could take (0: unknown).
    `what`: the instruction that it was made for and the first that it computes."""

    name: str
    runs: float
    ms: float
    least_ms: float = 0.0
    what: str = ""


@dataclass(frozen=True)
class Profile:
    """Of a step: milliseconds from the first kernel's start to the last one's end, those in which the GPU was busy,
    and its kernels, the longest first."""

    ms: float
    busy_ms: float
    kernels: tuple[KernelTime, ...]

    def lines(self, count: int) -> list[str]:
        """A table for people."""
        launches = sum(kernel.runs for kernel in self.kernels)
        found = [f"step {self.ms:.2f} ms, busy {self.busy_ms:.2f} ms, {launches:.0f} kernels and copies"]
        found.append(f"{'ms':>8} {'runs':>6} {'least':>8}  kernel")
        for k in self.kernels[:count]:
            found += [f"{k.ms:8.3f} {k.runs:6.1f} {k.least_ms:8.3f}  {k.name[:70]}  {k.what}"]
        rest = self.kernels[count:]
        found.append(f"{sum(k.ms for k in rest):8.3f} {sum(k.runs for k in rest):6.1f} {'':8}  {len(rest)} others")
        return found


def of_steps(step: Callable[[], object], steps: int, dump: Path | None = None) -> Profile:
    """The profile of `step`, which waits for what it starts, as the mean of `steps` runs; `dump`: a dump directory
    with its kernels."""

    def run() -> None:
        for _ in range(steps):
            step()

    _, work = gpu_tensorflow.profiled(run)
    return summed(work, steps, known_kernels(dump) if dump else {})


def known_kernels(dump: Path) -> dict[str, tuple[float, str]]:
    """Kernel -> (least milliseconds of a run, what it computes), of all modules of a dump directory; of
    functions of one name that of the last module."""
    found: dict[str, tuple[float, str]] = {}
    for path in sorted(dump.glob("*.kernels.json")):
        for row in json.loads(path.read_text()):
            least = max(row["bytes"] / BYTES, row["flops"] / OPERATIONS if _product(row) else 0.0)
            found[_FUNCTION.sub("tfxla_", row["symbol"])] = (
                least * 1e3,
                f"{row['instr']}: {' '.join(row['instrs'][:6])}",
            )
    return found


def _product(row: dict[str, object]) -> bool:
    """Whether its operations are mostly those of the matrix units."""
    return any(word in str(row["instrs"]) for word in ("dot", "convolution")) or row["opcode"] in ("dot", "convolution")


def summed(
    work: Iterable[tuple[str, float, float]], steps: int, known: dict[str, tuple[float, str]] | None = None
) -> Profile:
    """The Profile of `steps` steps from spans (kernel, start, end) in microseconds."""
    ordered = sorted(work, key=lambda span: span[1:])
    assert ordered, "nothing ran on the GPU"
    totals: dict[str, tuple[int, float]] = {}
    busy, reached = 0.0, ordered[0][1]
    for name, start, end in ordered:
        runs, took = totals.get(name, (0, 0.0))
        totals[name] = (runs + 1, took + end - start)
        busy += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    kernels = []
    for name, (runs, took) in sorted(totals.items(), key=lambda item: -item[1][1]):
        least, what = (known or {}).get(name, (0.0, ""))
        kernels.append(KernelTime(name, runs / steps, took / steps / 1e3, least * runs / steps, what))
    return Profile((reached - ordered[0][1]) / steps / 1e3, busy / steps / 1e3, tuple(kernels))
