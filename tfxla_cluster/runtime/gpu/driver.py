"""The CUDA driver (libcuda.so.1) by its C interface: no other library of CUDA, no compiler.

Functions and numbers: CUDA Driver API, cuda.h.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ...decision import YES, Decision, no
from ...errors import TfxlaError, UnsupportedError
from .record_layout import CAPTURE_STREAMS, CUDA_OUT_OF_MEMORY, DRIVER_CALLS, HOST_SLOTS

_LIBRARY = "libcuda.so.1"
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the legacy stream
_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
_SLOT_BYTES = 64
# Of cuDeviceGetAttribute.
_MULTIPROCESSORS, _MAJOR, _MINOR, _L2_BYTES = 16, 75, 76, 38
_CORE_KHZ, _MEMORY_KHZ, _MEMORY_BITS = 13, 36, 37


class Driver:
    """`library` has the driver's functions as attributes: the shared object, or a test's double of it."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.call("cuInit", 0)
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in DRIVER_CALLS]
        self.table = np.array(addresses, np.int64)
        self._devices: dict[int, Device] = {}

    def has(self, name: str) -> bool:
        """Whether the driver is new enough for a function."""
        return hasattr(self._library, name)

    def call(self, name: str, *args: Any) -> None:
        """Call a function; MemoryError where device memory is out, TfxlaError for any other failure."""
        code = getattr(self._library, name)(*args)
        if code:
            raise self.error(code, name)

    def error(self, code: int, doing: str) -> Exception:
        """The exception for a CUresult that is not 0."""
        if code == CUDA_OUT_OF_MEMORY:
            return MemoryError(f"{doing}: the GPU has no memory for it")
        return TfxlaError(f"{doing}: {self.text(code)}")

    def text(self, code: int) -> str:
        """Name and meaning of a CUresult."""
        said = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            getattr(self._library, function)(code, ctypes.byref(text))
            said.append((text.value or b"unknown").decode())
        return f"CUDA error {code}, {said[0]}: {said[1]}"

    def number(self, name: str, *args: Any, kind: Any = ctypes.c_int) -> int:
        """What the function puts where its first argument points."""
        result = kind()
        self.call(name, ctypes.byref(result), *args)
        return int(result.value or 0)

    def device_count(self) -> int:
        return self.number("cuDeviceGetCount")

    def device(self, ordinal: int) -> Device:
        """UnsupportedError where there is none of this number."""
        if ordinal not in self._devices:
            count = self.device_count()
            if not 0 <= ordinal < count:
                raise UnsupportedError(f"there is no GPU {ordinal}: the driver has {count}")
            self._devices.setdefault(ordinal, Device(self, ordinal))
        return self._devices[ordinal]


class Device:
    """A GPU and its primary context, the one that TensorFlow and the CUDA runtime use too."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.driver, self.ordinal = driver, ordinal
        self._handle = driver.number("cuDeviceGet", ordinal)
        self.context = driver.number("cuDevicePrimaryCtxRetain", self._handle, kind=ctypes.c_void_p)
        with self.current():
            self.stream = driver.number("cuStreamCreate", _NON_BLOCKING, kind=ctypes.c_void_p)

    def attribute(self, number: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", number, self._handle)

    @property
    def arch(self) -> str:
        """e.g. 'sm_90'."""
        return f"sm_{self.attribute(_MAJOR)}{self.attribute(_MINOR)}"

    @property
    def multiprocessors(self) -> int:
        return self.attribute(_MULTIPROCESSORS)

    @property
    def l2_bytes(self) -> int:
        return self.attribute(_L2_BYTES)

    @property
    def core_khz(self) -> int:
        return self.attribute(_CORE_KHZ)

    @property
    def memory_khz(self) -> int:
        return self.attribute(_MEMORY_KHZ)

    @property
    def memory_bits(self) -> int:
        """Of its bus."""
        return self.attribute(_MEMORY_BITS)

    @contextmanager
    def current(self) -> Iterator[None]:
        """The device's context is the thread's inside the block."""
        driver = self.driver
        before = driver.number("cuCtxGetCurrent", kind=ctypes.c_void_p)
        driver.call("cuCtxSetCurrent", ctypes.c_void_p(self.context))
        try:
            yield
        finally:
            driver.call("cuCtxSetCurrent", ctypes.c_void_p(before))

    @functools.cached_property
    def host_slots(self) -> np.ndarray:
        """HOST_SLOTS addresses of page-locked memory, for numbers that steps read; machine code takes them and puts
        them back."""
        count = ctypes.c_size_t(HOST_SLOTS * _SLOT_BYTES)
        with self.current():
            base = self.driver.number("cuMemHostAlloc", count, 0, kind=ctypes.c_void_p)
        return base + _SLOT_BYTES * np.arange(HOST_SLOTS, dtype=np.int64)

    @functools.cached_property
    def capture_streams(self) -> np.ndarray:
        """CAPTURE_STREAMS streams, taken and put back as the slots."""
        with self.current():
            kind = ctypes.c_void_p
            made = [self.driver.number("cuStreamCreate", _NON_BLOCKING, kind=kind) for _ in range(CAPTURE_STREAMS)]
        return np.array(made, np.int64)

    @functools.cached_property
    def pool(self) -> int:
        """The device's memory pool, which keeps what is freed for whoever asks next."""
        pool = self.driver.number("cuDeviceGetDefaultMemPool", self._handle, kind=ctypes.c_void_p)
        everything = ctypes.c_uint64(2**64 - 1)
        self.driver.call("cuMemPoolSetAttribute", ctypes.c_void_p(pool), _RELEASE_THRESHOLD, ctypes.byref(everything))
        return pool

    def release(self, function: str, handle: int) -> None:
        """Destroy a thing that lies on the device, once all executions are done with it. Where the device has failed
        nothing is left to destroy, and finalizers have nobody to tell."""
        with suppress(TfxlaError, MemoryError), self.current():
            self.driver.call("cuCtxSynchronize")
            self.driver.call(function, ctypes.c_void_p(handle))

    def synchronize(self) -> None:
        """Wait until what was given to `stream` is done; raises as `Driver.call`."""
        with self.current():
            self.driver.call("cuStreamSynchronize", ctypes.c_void_p(self.stream))


@functools.cache
def driver() -> Driver:
    """This process's; UnsupportedError where the machine has none or it does not start."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise UnsupportedError(f"there is no CUDA driver ({_LIBRARY})", "Install NVIDIA's driver") from None
    try:
        return Driver(library)
    except (TfxlaError, AttributeError) as error:
        raise UnsupportedError(f"the CUDA driver does not work: {error}", "Look at nvidia-smi") from None


def available(ordinal: int = 0, opened: Callable[[], Driver] = driver) -> Decision:
    """Whether a plan can run on the GPU of this number."""
    try:
        opened().device(ordinal)
    except (UnsupportedError, MemoryError) as error:
        return no("gpu-driver", str(error))
    return YES
