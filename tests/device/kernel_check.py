"""Runs a bundle that `kernel_bundle` wrote on this machine's GPU, by the launcher of launch plans.

Outputs, the arena and what else a plan writes start poisoned. Exit code 1 where a result is wrong.
"""

from __future__ import annotations

import ctypes
import lzma
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.errors import TfxlaError
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.prepared import Prepared

POISON = 0x5A
LAUNCHES = 4  # the third makes a graph, the fourth is one that is there
IN_A_ROW = 3  # then: with no wait between them, so that one kernel's memory is what another one still reads
GRAPHS: set[str] = set()  # cases that ran as one
EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


def run(
    bundle: dict[str, Any], case: dict[str, Any], driver: Driver | None = None, least_graph: int = 0
) -> list[np.ndarray[Any, Any]]:
    """The outputs of the last of some launches on the first GPU, before which all that they write is poisoned: kernels
    by themselves, or as CUDA graphs of that size or more."""
    code = Code(tuple(bundle["cubins"][n] for n in case["cubins"]))
    executable = Executable(plan_json.loads(case["plan"]), code, driver=driver, least_graph=least_graph)
    return results(executable, case["name"], case["inputs"])


def results(executable: Executable, name: str, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The outputs of the last of some launches, as `run`."""
    with executable.prepare(inputs) as prepared:
        for _ in range(LAUNCHES):
            prepared.launch()
            prepared.wait()
            if executable.graphs().get("replayed"):
                GRAPHS.add(name)
            _poison(prepared)
        for _ in range(IN_A_ROW):
            prepared.launch()
        return prepared.results()


def _poison(prepared: Prepared) -> None:
    """In the order of the launches: a stream of its own would not be waited for."""
    stream = ctypes.c_void_p(prepared.stream)
    with prepared.device.current():
        for address, count in prepared.written():
            place, size = ctypes.c_void_p(address), ctypes.c_size_t(count)
            prepared.device.driver.call("cuMemsetD8Async", place, ctypes.c_ubyte(POISON), size, stream)


def difference(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], ulps: int) -> str:
    """What is wrong, '' for nothing: NaN and infinities in place, floats within `ulps` of the value or the median."""
    dtype = want.dtype.name
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)}, not {dtype}{list(want.shape)}"
    if want.dtype.kind == "c":
        return difference(got.real, want.real, ulps) or difference(got.imag, want.imag, ulps)
    if dtype not in EPSILON or not ulps:
        if "float" in dtype:  # NumPy knows of no NaN in types of 8 bits
            got, want = got.astype(np.float64), want.astype(np.float64)
        return "" if np.array_equal(got, want, equal_nan="float" in dtype) else "not equal"
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return "NaN elsewhere"
    finite = np.isfinite(want)
    rest = ~finite & ~np.isnan(want)
    if not np.array_equal(got[rest], want[rest]):
        return "infinities differ"
    sizes = np.abs(want[finite])
    if not sizes.size:
        return ""
    off = np.abs(got[finite] - want[finite]) - ulps * EPSILON[dtype] * np.maximum(sizes, np.median(sizes))
    return "" if off.max() <= 1e-300 else f"off by {off.max()} more than {ulps} ulps"


def main() -> int:
    bundle = pickle.loads(lzma.decompress(Path(sys.argv[1]).read_bytes()))
    wrong = 0
    for case in bundle["cases"]:
        for least_graph in (0, 1):
            for said in problems(bundle, case, least_graph):
                wrong += 1
                print(f"{case['name']}{' as a graph' if least_graph else ''}: {said}")
    count = len(bundle["cases"])
    print(f"{count} cases, {len(bundle['cubins'])} cubins, {len(GRAPHS)} as CUDA graphs too, {wrong} wrong outputs")
    return int(wrong > 0)


def problems(bundle: dict[str, Any], case: dict[str, Any], least_graph: int) -> list[str]:
    """What is wrong with a case's outputs."""
    try:
        found = run(bundle, case, least_graph=least_graph)
    except (TfxlaError, MemoryError) as error:
        return [str(error)]
    rows = zip(found, case["outputs"], case["ulps"], strict=False)
    return list(filter(None, (difference(got, np.asarray(want), ulps) for got, want, ulps in rows)))


if __name__ == "__main__":
    sys.exit(main())
