"""Matrix products by cuBLASLt: which algorithms it has for one, and the words by which machine code calls it.

cuBLASLt's matrices lie by columns: ours are their transposes, so that it computes result' = right' left'.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ....codegen.kernel.library_product import Algorithm, Product, version_text
from ..driver import Device
from ..record_layout import PRODUCT
from .cublaslt import (
    ALIGNMENTS,
    BATCH_COUNT,
    BATCH_STEP,
    MOST_WORKSPACE,
    REDUCTION_COMPUTE_TYPE,
    REDUCTIONS,
    TRANSPOSE_A,
    TRANSPOSE_B,
    CublasLt,
    Heuristic,
)

MOST_ALGORITHMS = 8  # that are offered for a product
WORKSPACE_BYTES = 32 << 20  # at most, what NVIDIA recommends for sm_90
_ALIGNED = 16  # bytes that the launcher's buffers are sure to lie at multiples of
_SCALES = {0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}


class Products:
    """A library.Library of a device."""

    def __init__(self, device: Device, library: CublasLt) -> None:
        self._device, self._library = device, library

    @functools.cached_property
    def _handle(self) -> int:
        """For ever, as the device's context."""
        with self._device.current():
            return self._library.made("cublasLtCreate")

    @property
    def version(self) -> int:
        return self._library.version

    def algorithms(self, work: Product) -> Sequence[Algorithm]:
        described = _Described(self._library, work)
        found, count = (Heuristic * MOST_ALGORITHMS)(), ctypes.c_int()
        with self._device.current(), _preference(self._library) as preference:
            status = self._library.status(
                "cublasLtMatmulAlgoGetHeuristic",
                self._handle,
                *described.handles,
                described.result,
                preference,
                MOST_ALGORITHMS,
                found,
                ctypes.byref(count),
            )
        usable = [] if status else [one for one in found[: count.value] if one.state == 0]
        return [Algorithm(self.version, int(one.workspace), tuple(one.words), work.result) for one in usable]

    def refusal(self, work: Product, algorithm: Algorithm) -> str:
        if algorithm.version != self.version:
            made_by, here = version_text(algorithm.version), version_text(self.version)
            return f"it is an algorithm of cuBLASLt {made_by}, and this is {here}"
        described, words, found = _Described(self._library, work), _words(algorithm), Heuristic()
        with self._device.current():
            given = (*described.handles, described.result, words.ctypes.data, ctypes.byref(found))
            status = self._library.status("cublasLtMatmulAlgoCheck", self._handle, *given)
        if status:
            return "cuBLASLt does not multiply these matrices by this algorithm"
        if not 0 <= algorithm.workspace <= WORKSPACE_BYTES:
            return f"{algorithm.workspace} bytes are no workspace: it has from 0 to {WORKSPACE_BYTES}"
        if found.workspace > algorithm.workspace:
            return f"the algorithm takes {found.workspace} bytes of workspace, not {algorithm.workspace}"
        return ""

    def call(self, product: Product, algorithm: Algorithm) -> Call:
        """One product, to be called any number of times at once."""
        return Call(self._library, self._handle, product, algorithm)


class Call:
    """The words of PRODUCT, at `address`."""

    word = "product"  # of KERNEL

    def __init__(self, library: CublasLt, handle: int, product: Product, algorithm: Algorithm) -> None:
        self._described = _Described(library, product)
        self._algorithm = _words(algorithm)
        self._factors = np.array([1, 0], _SCALES[product.scale])
        operation, right, left, result = self._described.handles
        self.words = np.zeros(len(PRODUCT), np.int64)
        values = {
            "function": library.addresses["cublasLtMatmul"],
            "handle": handle,
            "operation": operation,
            "one": self._factors.ctypes.data,
            "zero": self._factors[1:].ctypes.data,
            "left": left,
            "right": right,
            "result": result,
            "algorithm": self._algorithm.ctypes.data,
            "workspace_bytes": algorithm.workspace,
        }
        for name, value in values.items():
            self.words[PRODUCT[name]] = value
        self.address = self.words.ctypes.data


class _Described:
    """The library's descriptors of a product. `handles`: of the operation, of right', left' and result'."""

    def __init__(self, library: CublasLt, product: Product) -> None:
        p, self._library, self._made = product, library, list[tuple[str, int]]()
        weakref.finalize(self, _destroy, library, self._made).atexit = False
        operation = self._new("MatmulDesc", p.compute, p.scale)
        self._set("MatmulDesc", operation, TRANSPOSE_A, ctypes.c_int32(1 - p.right_turned))
        self._set("MatmulDesc", operation, TRANSPOSE_B, ctypes.c_int32(p.left_turned))
        right = (p.cols, p.depth) if p.right_turned else (p.depth, p.cols)
        left = (p.rows, p.depth) if p.left_turned else (p.depth, p.rows)
        self.result = self._matrix(p.result, (p.cols, p.rows), p.cols, p.batch, p.rows * p.cols)
        self.handles = (
            operation,
            self._matrix(p.factor, right, p.right_stride, p.batch, p.right_step),
            self._matrix(p.factor, left, p.left_stride, p.batch, p.left_step),
            self.result,
        )

    def _matrix(self, kind: int, extents: tuple[int, int], stride: int, batch: int, step: int) -> int:
        layout = self._new("MatrixLayout", kind, *extents, stride)
        self._set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32(batch))
        self._set("MatrixLayout", layout, BATCH_STEP, ctypes.c_int64(step))
        return layout

    def _new(self, kind: str, *args: int) -> int:
        made = self._library.made(f"cublasLt{kind}Create", *args)
        self._made.append((kind, made))
        return made

    def _set(self, kind: str, handle: int, attribute: int, value: ctypes.c_int32 | ctypes.c_int64) -> None:
        place, count = ctypes.byref(value), ctypes.sizeof(value)
        self._library.call(f"cublasLt{kind}SetAttribute", handle, attribute, place, count)


def _destroy(library: CublasLt, made: Sequence[tuple[str, int]]) -> None:
    for kind, handle in made:
        library.status(f"cublasLt{kind}Destroy", handle)


@contextmanager
def _preference(library: CublasLt) -> Iterator[int]:
    """What algorithms may do: no sums in an order that changes, no more workspace, no addresses that lie better than
    ours."""
    made = library.made("cublasLtMatmulPreferenceCreate")
    rules = {MOST_WORKSPACE: ctypes.c_uint64(WORKSPACE_BYTES), REDUCTIONS: ctypes.c_uint32(REDUCTION_COMPUTE_TYPE)}
    rules |= {number: ctypes.c_uint32(_ALIGNED) for number in ALIGNMENTS}
    try:
        for number, value in rules.items():
            place, count = ctypes.byref(value), ctypes.sizeof(value)
            library.call("cublasLtMatmulPreferenceSetAttribute", made, number, place, count)
        yield made
    finally:
        library.status("cublasLtMatmulPreferenceDestroy", made)


def _words(algorithm: Algorithm) -> np.ndarray:
    return np.array(algorithm.words, np.int64)
