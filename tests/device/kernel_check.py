"""Runs a bundle that `kernel_bundle` wrote on this machine's GPU; needs NumPy and the driver, nothing of this package.

Outputs and the arena start poisoned. Exit code 1 where a result is wrong.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

POISON = 0x5A
MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


class Driver:
    """The CUDA driver on its first GPU; RuntimeError names a call that failed."""

    def __init__(self, kernels: list[tuple[bytes, str, int, int]]) -> None:
        self.library, self.kernels = ctypes.CDLL("libcuda.so.1"), kernels
        self.functions: dict[int, ctypes.c_void_p] = {}
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.library, name)(*args)
        if code:
            raise RuntimeError(f"{name} gives error {code}")

    def buffer(self, data: bytes) -> int:
        """The address of a copy of `data` on the GPU."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 1)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def read(self, address: int, count: int) -> bytes:
        data = ctypes.create_string_buffer(max(count, 1))
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(count))
        return data.raw[:count]

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def copy(self, source: int, target: int, count: int) -> None:
        self.call("cuMemcpyDtoD_v2", ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(count))

    def launch(self, number: int, tasks: int, pointers: list[int], sizes: list[int]) -> None:
        """Parameters: pointers, sizes, and Triton's two scratch pointers, which no kernel here uses."""
        if not tasks:
            return
        _, _, warps, shared = self.kernels[number]
        values = [ctypes.c_int64(v) for v in (*pointers, *sizes, 0, 0)]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self.call("cuLaunchKernel", self.function(number), tasks, 1, 1, 32 * warps, 1, 1, shared, None, addresses, None)

    def function(self, number: int) -> ctypes.c_void_p:
        if number not in self.functions:
            cubin, entry, _, shared = self.kernels[number]
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(module), cubin)
            self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
            if shared > 48 * 1024:
                self.call("cuFuncSetAttribute", function, MAX_SHARED, shared)
            self.functions[number] = function
        return self.functions[number]


def run(driver: Driver, case: dict[str, Any]) -> list[bytes]:
    """The bytes of each output."""
    memory = {
        "input": [driver.buffer(data) for data in case["inputs"]],
        "const": [driver.buffer(data) for data in case["constants"]],
        "output": [driver.buffer(bytes([POISON]) * len(data)) for data, _, _ in case["outputs"]],
        "temp": [driver.buffer(bytes([POISON]) * case["arena"])],
    }

    def at(place: tuple[str, int, int]) -> int:
        kind, index, offset = place
        return memory[kind][index] + offset

    for step in case["steps"]:
        if step[0] == "copy":
            driver.copy(at(step[1]), at(step[2]), step[3])
        else:
            driver.launch(step[1], step[2], [at(place) for place in step[3]], step[4])
    driver.call("cuCtxSynchronize")
    found = [driver.read(place, len(data)) for place, (data, _, _) in zip(memory["output"], case["outputs"])]
    for address in (a for group in memory.values() for a in group):
        driver.free(address)
    return found


def numbers(data: bytes, dtype: str) -> np.ndarray[Any, Any]:
    """Floats as f64, anything else as it is; NumPy alone has no bfloat16."""
    if dtype == "bfloat16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    found = np.frombuffer(data, dtype)
    return found.astype(np.float64) if found.dtype.kind == "f" else found


def difference(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], dtype: str, ulps: int) -> str:
    """What is wrong, '' for nothing: NaN and infinities in place, floats within `ulps` of the value or the median."""
    if dtype not in EPSILON or not ulps:
        same = np.array_equal(got, want, equal_nan=dtype in EPSILON)
        return "" if same else "not equal"
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
    bundle = pickle.loads(Path(sys.argv[1]).read_bytes())
    driver = Driver(bundle["kernels"])
    wrong = 0
    for case in bundle["cases"]:
        for got, (data, _, dtype), ulps in zip(run(driver, case), case["outputs"], case["ulps"]):
            said = difference(numbers(got, dtype), numbers(data, dtype), dtype, ulps)
            if said:
                wrong += 1
                print(f"{case['name']}: {said}")
    print(f"{len(bundle['cases'])} cases, {len(bundle['kernels'])} kernels, {wrong} wrong outputs")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
