"""A double of cuBLASLt: its C functions as callbacks, which multiply with NumPy on the memory of the driver's double.

It is as strict as the library: descriptors are read as they were made, an algorithm is taken by the version and for the
types that it was given out for, workspaces are counted, and a product runs when its stream does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tfxla_cluster.runtime.gpu.driver import Device
from tfxla_cluster.runtime.gpu.libraries.cublaslt import SIGNATURES, CublasLt, Heuristic
from tfxla_cluster.runtime.gpu.libraries.products import Products

from .gpu_double import Library
from .library_double import LibraryDouble, Status

NOT_SUPPORTED, INVALID, INTERNAL = 15, 7, 14
DTYPES = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
    4: np.dtype(np.complex64),
    5: np.dtype(np.complex128),
    14: np.dtype(ml_dtypes.bfloat16),
}
SUMS = {(68, 0): 0, (77, 0): 0, (68, 4): 4, (70, 1): 1, (70, 5): 5}  # cublasComputeType_t and type of the factor 1
WORKSPACES = (0, 4096, 100)  # of the algorithms there are, in the order of the heuristic


@dataclass
class Thing:
    """A descriptor: what it was made with, and its attributes."""

    made: tuple[int, ...] = ()
    attributes: dict[int, bytes] = field(default_factory=dict)

    def number(self, attribute: int, default: int = 0) -> int:
        return int.from_bytes(self.attributes.get(attribute, default.to_bytes(8, "little")), "little", signed=True)


class CublasDouble(LibraryDouble):
    """`workspaces`: those that products were given; `things`: descriptors that are not destroyed yet."""

    def __init__(self, driver: Library, version: int = 130100) -> None:
        super().__init__(driver, SIGNATURES, ("cublasLt",), INTERNAL, 0x9000)
        self.version = version
        self.workspaces: list[int] = []
        self.things: dict[int, Thing] = {}
        self.cublasLtGetVersion = ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: version)

    # --- descriptors ---
    def _new(self, place: int, *made: int) -> None:
        number = next(self.numbers)
        self.things[number] = Thing(made)
        ctypes.c_int64.from_address(place).value = number

    def _destroy(self, number: int) -> None:
        del self.things[number]

    def _set(self, number: int, attribute: int, place: int, count: int) -> None:
        self.things[number].attributes[attribute] = ctypes.string_at(place, count)

    def _Create(self, place: int) -> None:
        assert self.driver.context
        ctypes.c_int64.from_address(place).value = 0x77

    _MatmulDescCreate = _MatrixLayoutCreate = _MatmulPreferenceCreate = _new
    _MatmulDescDestroy = _MatrixLayoutDestroy = _MatmulPreferenceDestroy = _destroy
    _MatmulDescSetAttribute = _MatrixLayoutSetAttribute = _MatmulPreferenceSetAttribute = _set

    # --- algorithms: number, version, types ---
    def _words(self, number: int, described: tuple[int, ...]) -> list[int]:
        kinds = [self.things[d].made[0] for d in described]
        return [number, self.version, *kinds, -(1 << 63) + number, 7, 0][:8]

    def _MatmulAlgoGetHeuristic(self, handle: int, *rest: int) -> None:
        *described, preference, count, place, found = rest
        assert handle == 0x77
        most, reductions = (self.things[preference].number(n, 7) for n in (1, 3))
        assert reductions & 1 == 0
        assert all(self.things[preference].number(n, 256) <= 16 for n in (5, 6, 7, 8))
        results = (Heuristic * count).from_address(place)
        fitting = [n for n, workspace in enumerate(WORKSPACES) if workspace <= most][:count]
        for result, number in zip(results, fitting):
            result.words[:] = self._words(number, tuple(described[:4]))
            result.workspace, result.state = WORKSPACES[number], 0
        ctypes.c_int.from_address(found).value = len(fitting)

    def _MatmulAlgoCheck(self, handle: int, *rest: int) -> None:
        *described, algorithm, place = rest
        Heuristic.from_address(place).workspace = WORKSPACES[self._checked(algorithm, described)]

    def _checked(self, algorithm: int, described: list[int] | tuple[int, ...]) -> int:
        words = list((ctypes.c_int64 * 8).from_address(algorithm))
        if not 0 <= words[0] < len(WORKSPACES) or words != self._words(words[0], tuple(described[:4])):
            raise Status(NOT_SUPPORTED)
        return int(words[0])

    # --- products ---
    def _Matmul(self, handle: int, operation: int, one: int, *rest: int) -> None:
        a, a_layout, b, b_layout, zero, c, c_layout, d, d_layout, algorithm, workspace, count, stream = rest
        assert handle == 0x77
        assert (c, c_layout) == (d, d_layout)
        compute, scale = self.things[operation].made
        number = self._checked(algorithm, (operation, a_layout, b_layout, c_layout))
        if count < WORKSPACES[number] or (count and workspace % 256):
            raise Status(INVALID)
        total = DTYPES[SUMS[compute, scale]]
        assert np.frombuffer(ctypes.string_at(one, total.itemsize), total)[0] == 1
        assert np.frombuffer(ctypes.string_at(zero, total.itemsize), total)[0] == 0
        turned = [self.things[operation].number(n) for n in (3, 4)]
        matrices = [self._matrix(p, layout) for p, layout in ((a, a_layout), (b, b_layout), (d, d_layout))]
        device = self.driver.device()
        self.workspaces.append(count)

        def multiply() -> None:
            first, second = (m().astype(total) for m in matrices[:2])
            left, right = (m.swapaxes(1, 2) if t else m for m, t in zip((first, second), turned))
            target = matrices[2]()
            target[...] = (left @ right).astype(target.dtype)
            if count:
                self.driver.at(workspace, device)[:count] = 0xEE

        self.driver._queue(stream, multiply)

    def _matrix(self, address: int, number: int) -> Callable[[], np.ndarray]:
        """The matrices of a layout, [batch, row, column], when the stream runs."""
        kind, rows, cols, stride = self.things[number].made
        dtype, batch, step = DTYPES[kind], self.things[number].number(5, 1), self.things[number].number(6)
        if stride < rows or address % 16:
            raise Status(INVALID)
        device = self.driver.device()

        def array() -> np.ndarray:
            last = (batch - 1) * step + (cols - 1) * stride + rows
            memory = self.driver.at(address, device)[: last * dtype.itemsize].view(dtype)
            steps = [n * dtype.itemsize for n in (step, 1, stride)]
            return np.lib.stride_tricks.as_strided(memory, (batch, rows, cols), steps)

        return array


def libraries(driver: Library, device: Device, version: int = 130100) -> tuple[Products, CublasDouble]:
    """The double on a device of the driver's double."""
    double = CublasDouble(driver, version)
    return Products(device, CublasLt(double)), double
