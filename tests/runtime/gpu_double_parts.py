"""Parts of the double of the CUDA driver: signatures, kernels, memory blocks, streams."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

V, INT, N, U = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint
ATTRIBUTES = {75: 9, 76: 0, 16: 132, 38: 50 << 20, 13: 1_980_000, 36: 3_201_000, 37: 6144}
SIGNATURES = {
    "cuInit": (INT,),
    "cuGetErrorName": (INT, V),
    "cuGetErrorString": (INT, V),
    "cuDeviceGetCount": (V,),
    "cuDeviceGet": (V, INT),
    "cuDeviceGetAttribute": (V, INT, INT),
    "cuDeviceGetDefaultMemPool": (V, INT),
    "cuMemPoolSetAttribute": (V, INT, V),
    "cuDevicePrimaryCtxRetain": (V, INT),
    "cuCtxGetCurrent": (V,),
    "cuCtxSetCurrent": (V,),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (V, U),
    "cuStreamDestroy_v2": (V,),
    "cuStreamSynchronize": (V,),
    "cuMemHostAlloc": (V, N, U),
    "cuMemAlloc_v2": (V, N),
    "cuMemAllocAsync": (V, N, V),
    "cuMemAllocFromPoolAsync": (V, N, V, V),
    "cuMemFree_v2": (V,),
    "cuMemFreeAsync": (V, V),
    "cuMemcpyDtoDAsync_v2": (V, V, N, V),
    "cuMemcpyDtoHAsync_v2": (V, V, N, V),
    "cuMemcpyHtoDAsync_v2": (V, V, N, V),
    "cuMemsetD8_v2": (V, ctypes.c_ubyte, N),
    "cuMemsetD8Async": (V, ctypes.c_ubyte, N, V),
    "cuModuleLoadData": (V, V),
    "cuModuleUnload": (V,),
    "cuModuleGetFunction": (V, V, ctypes.c_char_p),
    "cuFuncSetAttribute": (V, INT, INT),
    "cuFuncLoad": (V,),
    "cuLaunchKernel": (V, U, U, U, U, U, U, U, V, V, V),
    "cuLaunchKernelEx": (V, V, V, V),
    "cuStreamBeginCapture_v2": (V, INT),
    "cuStreamEndCapture": (V, V),
    "cuGraphInstantiateWithFlags": (V, V, ctypes.c_uint64),
    "cuGraphExecUpdate_v2": (V, V, V),
    "cuGraphExecDestroy": (V,),
    "cuGraphDestroy": (V,),
    "cuGraphLaunch": (V, V),
    "cuEventCreate": (V, U),
    "cuEventDestroy_v2": (V,),
    "cuEventRecord": (V, V),
    "cuEventSynchronize": (V,),
    "cuEventElapsedTime": (V, V, V),
}

Run = Callable[[Sequence[np.ndarray], Sequence[int], int], None]


class Failure(Exception):
    """A CUresult that is not 0."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True)
class Kernel:
    """`run(arrays, sizes, tasks)` changes the arrays, each of which reaches from a pointer's place to the end of the
    memory it lies in; `dtypes` of the pointers, `sizes`: how many i64 follow them."""

    dtypes: tuple[np.dtype, ...]
    sizes: int
    run: Run


@dataclass(frozen=True)
class Launched:
    """What a launch asked for."""

    name: str
    blocks: int
    threads: int
    shared: int
    sizes: tuple[int, ...]
    scratch: int
    attributes: tuple[tuple[int, ...], ...] = ()
    grid: tuple[int, ...] = (1, 1)  # along the second and third axis


@dataclass
class Block:
    memory: np.ndarray
    device: int

    @property
    def start(self) -> int:
        return self.memory.ctypes.data


Work = Callable[[], None]


@dataclass
class Stream:
    device: int
    waiting: list[Work] = field(default_factory=list)
    captured: list[Work] | None = None


def image(name: str) -> bytes:
    """The double's cubin of the kernel `name`."""
    return b"\x7fELF\0.nv.constant0." + name.encode() + b"\0"


def put(address: int, value: int, kind: type = ctypes.c_int64) -> None:
    kind.from_address(address).value = value
