"""What lies on a device for executables: kernels, and constants; equal ones of several executables once."""

from __future__ import annotations

import ctypes
import hashlib
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ...errors import InternalError
from ...locks import ForkSafeLock
from .driver import Device
from .libraries.on_device import Call
from .record_layout import KERNEL

_MAX_SHARED, _CARVEOUT = 8, 9  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, _PREFERRED_SHARED_MEMORY_CARVEOUT
_STATIC_SHARED = 48 * 1024  # bytes of shared memory that every kernel may have
_ENTRY = re.compile(rb"\0\.nv\.constant0\.([^\0]+)\0")  # the section of a kernel's parameters
_ATTRIBUTE_WORDS = 9  # of a CUlaunchAttribute: u32 id, padding, 64 bytes of value
# CUlaunchAttributeID, with the value of the first words.
_COOPERATIVE, _CLUSTER, _CLUSTER_POLICY, _OVERLAP = 2, 4, 5, 6
_SPREAD = 1  # CU_CLUSTER_SCHEDULING_POLICY_SPREAD
_WARP = 32

T = TypeVar("T")


class Module:
    """A cubin in a device's context, unloaded with this object."""

    def __init__(self, device: Device, cubin: bytes) -> None:
        self._image = ctypes.create_string_buffer(cubin, len(cubin))
        with device.current():
            handle = device.driver.number("cuModuleLoadData", self._image, kind=ctypes.c_void_p)
        weakref.finalize(self, device.release, "cuModuleUnload", handle).atexit = False
        self.function = _function(device, handle, entry_of(cubin))
        if device.driver.has("cuFuncLoad"):  # else its first launch does, which must not be while one is captured
            with device.current():
                device.driver.call("cuFuncLoad", ctypes.c_void_p(self.function))


class Constant:
    """Bytes in a device's memory, freed with this object. They are there once the device's stream is through."""

    def __init__(self, device: Device, data: bytes) -> None:
        self._data = data
        with device.current():
            self.address = device.driver.number(
                "cuMemAlloc_v2", ctypes.c_size_t(max(len(data), 1)), kind=ctypes.c_void_p
            )
            weakref.finalize(self, device.release, "cuMemFree_v2", self.address).atexit = False
            place, count, stream = (
                ctypes.c_void_p(self.address),
                ctypes.c_size_t(len(data)),
                ctypes.c_void_p(device.stream),
            )
            device.driver.call("cuMemcpyHtoDAsync_v2", place, data, count, stream)


def entry_of(cubin: bytes) -> str:
    """The name of the one kernel in a cubin; InternalError where it has none or several."""
    names = set(_ENTRY.findall(cubin))
    if len(names) != 1:
        raise InternalError(f"a cubin with {len(names)} kernels, expected one")
    return str(names.pop().decode())


def _function(device: Device, module: int, name: str) -> int:
    with device.current():
        return device.driver.number("cuModuleGetFunction", ctypes.c_void_p(module), name.encode(), kind=ctypes.c_void_p)


class Kernel:
    """The words of KERNEL for a launch with `params`, at `address`."""

    def __init__(self, device: Device, module: Module, params: Mapping[str, int]) -> None:
        self._module = module
        shared, ctas = params.get("shared_bytes", 0), params.get("num_ctas", 1)
        if shared > _STATIC_SHARED:
            with device.current():
                device.driver.call("cuFuncSetAttribute", ctypes.c_void_p(module.function), _MAX_SHARED, shared)
        self._attributes = _attributes(params)
        self.words = np.zeros(len(KERNEL), np.int64)
        values = {
            "function": module.function,
            "threads": params["num_warps"] * _WARP,
            "shared_bytes": shared,
            "ctas": ctas,
            "attributes": self._attributes.ctypes.data,
            "attribute_count": len(self._attributes),
            "scratch_bytes": params.get("global_scratch_bytes", 0),
            "grid_y": params.get("grid_y", 1),
            "grid_z": params.get("grid_z", 1),
        }
        for name, value in values.items():
            self.words[KERNEL[name]] = value
        self.address = self.words.ctypes.data


class Routine:
    """The words of KERNEL for a library routine at `code`, at `address`."""

    def __init__(self, code: int, result_bytes: int) -> None:
        self.words = np.zeros(len(KERNEL), np.int64)
        self.words[KERNEL["routine"]] = code
        self.words[KERNEL["result_bytes"]] = result_bytes
        self.address = self.words.ctypes.data


class LibraryCall:
    """The words of KERNEL for a call of a library, at `address`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.words = np.zeros(len(KERNEL), np.int64)
        self.words[KERNEL[call.word]] = call.address
        self.address = self.words.ctypes.data


def _attributes(params: Mapping[str, int]) -> np.ndarray:
    """An array of CUlaunchAttribute, one a row."""
    rows = []
    ctas = params.get("num_ctas", 1)
    if ctas > 1:
        rows.append([_CLUSTER, ctas | 1 << 32, 1])
        rows.append([_CLUSTER_POLICY, _SPREAD, 0])
    if params.get("cooperative", 0):
        rows.append([_COOPERATIVE, 1, 0])
    if params.get("launch_pdl", 0):
        rows.append([_OVERLAP, 1, 0])
    table = np.zeros((len(rows), _ATTRIBUTE_WORDS), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


_lock = ForkSafeLock()
_modules: weakref.WeakValueDictionary[tuple[int, int, bytes], Module] = weakref.WeakValueDictionary()
_constants: weakref.WeakValueDictionary[tuple[int, int, bytes], Constant] = weakref.WeakValueDictionary()


def modules(device: Device, cubins: Sequence[bytes]) -> list[Module]:
    """Each cubin loaded on the device."""
    return [_shared(_modules, device, data, Module) for data in cubins]


def constants(device: Device, parts: Sequence[bytes]) -> list[Constant]:
    """The parts in the device's memory."""
    found = [_shared(_constants, device, data, Constant) for data in parts]
    if found:
        device.synchronize()
    return found


def _shared(
    table: weakref.WeakValueDictionary[tuple[int, int, bytes], T],
    device: Device,
    data: bytes,
    make: Callable[[Device, bytes], T],
) -> T:
    """The object that is there, else a new one."""
    key = (id(device), len(data), hashlib.sha256(data).digest())
    with _lock:
        found = table.get(key)
    if found is not None:
        return found
    made = make(device, data)  # outside the lock: it waits for the driver
    with _lock:
        return table.setdefault(key, made)
