"""What launching costs: chains of dependent kernels, one by one and as CUDA graphs.

    python -m tests.device.launch_cost BUNDLE --make sm_90    # here, with no GPU
    python -m tests.device.launch_cost BUNDLE                 # there: needs the driver, not Triton nor TensorFlow

Microseconds, medians: of the host until the call returns, with the addresses of before, and with others each time; of
the device for each of many executions in a row.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import lzma
import pickle
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.ir import text
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.prepared import Prepared

CHAINS = ((1, 1024), (2, 1024), (8, 1024), (8, 65536), (40, 65536), (200, 65536), (8, 1 << 24))  # kernels, elements
SETS = 7  # of addresses: more than an executable has graphs
ROUNDS = 50


def chain(kernels: int, elements: int) -> str:
    """A module of so many negations, each a kernel where nothing is fused or simplified."""
    lines = [f"x0 = f32[{elements}] parameter(0)"]
    lines += [f"x{n + 1} = f32[{elements}] negate(x{n})" for n in range(kernels)]
    return "HloModule chain\nENTRY e {\n" + "\n".join([*lines[:-1], f"ROOT {lines[-1]}"]) + "\n}\n"


def make(path: Path, arch: str) -> None:
    rows = []
    for kernels, elements in CHAINS:
        options = CompileOptions(passes=False, fusion=False)
        made = compiler.compile_module(text.parse(chain(kernels, elements)), gpu.described(arch), options)
        rows.append((kernels, elements, plan_json.dumps(made.plan), made.code.objects))
    path.write_bytes(lzma.compress(pickle.dumps(rows)))


class Call:
    """The entry with its arguments at hand: little of Python is in between."""

    def __init__(self, executable: Executable, prepared: Prepared) -> None:
        self.prepared = prepared
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)(executable.entry)
        self._arguments = [ctypes.c_void_p(a) for a in (executable.record, *prepared.arguments())]

    def __call__(self) -> None:
        self.prepared.rewind()
        if status := self._entry(*self._arguments):
            raise RuntimeError(f"status {status}")


def host(calls: list[Call]) -> float:
    """Microseconds of a call, one after the other, each of which the device has done before the next."""
    found = []
    for call in itertools.islice(itertools.cycle(calls), ROUNDS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
        call.prepared.wait()
    return statistics.median(found) * 1e6


def device(call: Callable[[], None], prepared: Prepared) -> float:
    """Microseconds of the stream for each of ROUNDS calls in a row, the median of some times."""
    found = []
    for _ in range(5):
        prepared.wait()
        start = time.perf_counter()
        for _ in range(ROUNDS):
            call()
        prepared.wait()
        found.append((time.perf_counter() - start) / ROUNDS)
    return statistics.median(found) * 1e6


def row(plan: str, cubins: tuple[bytes, ...], elements: int, least_graph: int) -> list[float]:
    executable = Executable(plan_json.loads(plan), Code(cubins), least_graph=least_graph)
    calls = []
    for _ in range(SETS):
        prepared = executable.prepare([np.ones(elements, np.float32)])
        calls.append(Call(executable, prepared))
    for call in calls * 2:
        call()
    found = [host(calls[:1]), host(calls), device(calls[0], calls[0].prepared)]
    for call in calls:
        call.prepared.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--make", metavar="ARCH", help="write the bundle, for sm_90 and the like")
    options = parser.parse_args()
    if options.make:
        make(options.bundle, options.make)
        return
    rows: list[Any] = pickle.loads(lzma.decompress(options.bundle.read_bytes()))
    print("kernels elements | one by one: host, other addresses, device | graph: host, other addresses, device")
    for kernels, elements, plan, cubins in rows:
        found = [*row(plan, cubins, elements, 0), *row(plan, cubins, elements, 1)]
        texts = [f"{number:9.1f}" for number in found]
        print(f"{kernels:7} {elements:8} |", *texts[:3], "|", *texts[3:], flush=True)


if __name__ == "__main__":
    main()
