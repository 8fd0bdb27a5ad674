"""cuBLASLt by its C interface.

Functions and numbers: cublasLt.h.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ....errors import TfxlaError, UnsupportedError
from .opening import opened

_SONAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_POINTER, _INT, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
_SET = (_POINTER, _INT, _POINTER, _SIZE)  # of a descriptor's attribute: which, where its value lies, bytes
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (_POINTER,),
    "cublasLtMatmulDescCreate": (_POINTER, _INT, _INT),
    "cublasLtMatmulDescDestroy": (_POINTER,),
    "cublasLtMatmulDescSetAttribute": _SET,
    "cublasLtMatrixLayoutCreate": (_POINTER, _INT, _NUMBER, _NUMBER, ctypes.c_int64),
    "cublasLtMatrixLayoutDestroy": (_POINTER,),
    "cublasLtMatrixLayoutSetAttribute": _SET,
    "cublasLtMatmulPreferenceCreate": (_POINTER,),
    "cublasLtMatmulPreferenceDestroy": (_POINTER,),
    "cublasLtMatmulPreferenceSetAttribute": _SET,
    "cublasLtMatmulAlgoGetHeuristic": (*[_POINTER] * 7, _INT, _POINTER, _POINTER),
    "cublasLtMatmulAlgoCheck": (_POINTER,) * 8,
    "cublasLtMatmul": (*[_POINTER] * 14, _SIZE, _POINTER),
}
_STATUS = {
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    15: "NOT_SUPPORTED",
}
OUT_OF_MEMORY = 3
# Of descriptors: cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t.
TRANSPOSE_A, TRANSPOSE_B = 3, 4
BATCH_COUNT, BATCH_STEP = 5, 6
MOST_WORKSPACE, REDUCTIONS, ALIGNMENTS = 1, 3, (5, 6, 7, 8)
REDUCTION_COMPUTE_TYPE = 2  # partial sums are kept in the type of the sum and added in order


class Heuristic(ctypes.Structure):
    """A cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("words", ctypes.c_int64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """`library` has the functions as attributes: the shared object, or a test's double of it. `version`: as in
    cublasLtGetVersion, 120900 is 12.9.0. `addresses`: of each function."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.addresses = {name: ctypes.cast(getattr(library, name), _POINTER).value or 0 for name in SIGNATURES}
        self._functions = {n: ctypes.CFUNCTYPE(_INT, *kinds)(self.addresses[n]) for n, kinds in SIGNATURES.items()}
        version = ctypes.cast(library.cublasLtGetVersion, _POINTER).value or 0
        self.version = int(ctypes.CFUNCTYPE(_SIZE)(version)())

    def status(self, name: str, *args: Any) -> int:
        """The cublasStatus_t of a call."""
        return int(self._functions[name](*args))

    def call(self, name: str, *args: Any) -> None:
        """MemoryError where device memory is out, TfxlaError for any other failure."""
        code = self.status(name, *args)
        if code == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: the GPU has no memory for it")
        if code:
            raise TfxlaError(f"{name}: {text(code)}")

    def made(self, name: str, *args: Any) -> int:
        """What the function puts where its first argument points."""
        result = _POINTER()
        self.call(name, ctypes.byref(result), *args)
        return int(result.value or 0)


def text(code: int) -> str:
    """Number and name of a cublasStatus_t."""
    return f"cuBLAS status {code}, CUBLAS_STATUS_{_STATUS.get(code, 'UNKNOWN')}"


def library() -> CublasLt:
    """This process's; UnsupportedError where the machine has none."""
    found = _library()
    if found is None:
        raise UnsupportedError(
            f"there is no cuBLASLt ({' or '.join(_SONAMES)})", "pip install 'tensorflow[and-cuda]' brings one"
        )
    return found


@functools.cache
def _library() -> CublasLt | None:
    found = opened(_SONAMES)
    return None if found is None else CublasLt(found)
