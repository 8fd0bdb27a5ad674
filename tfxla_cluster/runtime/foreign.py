"""C functions of other packages that library steps call: where they lie, and the calls made from Python.

LAPACK's are SciPy's, by the capsules of `scipy.linalg.cython_lapack`, its interface for other compiled code. Fourier
transforms of a line are the inner loops of NumPy's own ufuncs, which is pocketfft in C++.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.kernel.foreign_call import ARGUMENTS, KINDS, LAPACK, POCKETFFT
from ..errors import UnsupportedError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_SET_THREADS = "scipy_openblas_set_num_threads"
_NAMES = {number: name for name, number in KINDS.items()}


def is_foreign(routine: str) -> bool:
    return routine.startswith((LAPACK, POCKETFFT))


@functools.cache
def function(routine: str) -> tuple[int, int]:
    """The addresses of a routine and of its data (0 where it has none); UnsupportedError where it is not there."""
    if routine.startswith(LAPACK):
        return _lapack(routine.removeprefix(LAPACK)), 0
    return _pocketfft(*routine.removeprefix(POCKETFFT).split("."))


def _lapack(name: str) -> int:
    try:
        from scipy.linalg import cython_lapack
    except ImportError as error:
        raise UnsupportedError(f"LAPACK's {name} comes with SciPy, which cannot be imported: {error}") from None
    _keep_to_one_thread(Path(cython_lapack.__file__).parents[2] / "scipy.libs")
    capsule = cython_lapack.__pyx_capi__.get(name)
    if capsule is None:
        raise UnsupportedError(f"this SciPy's LAPACK has no {name}")
    api = ctypes.pythonapi
    title = api.PyCapsule_GetName
    title.restype, title.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = api.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, title(capsule)))


@functools.cache
def _keep_to_one_thread(folder: Path) -> None:
    """OpenBLAS of SciPy's wheel, whose libraries lie in `folder`, works in its caller's thread alone from here on.

    Matrices of a batch are shared among our own threads. Its own spin: beside other work a QR of 256x256 took 1.7 s
    with two of them, 35 ms with one. And sums in parts for threads would depend on the machine.
    """
    for path in folder.glob("libscipy_openblas*.so*"):
        library = ctypes.CDLL(str(path))  # SciPy has loaded it
        if hasattr(library, _SET_THREADS):
            getattr(library, _SET_THREADS)(1)


class _Ufunc(ctypes.Structure):
    """The head of NumPy's PyUFuncObject (numpy/ufuncobject.h), which its ABI keeps."""

    _fields_ = (
        ("refcnt", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


def _pocketfft(name: str, types: str) -> tuple[int, int]:
    """The loop of the ufunc `name` for `types` (as `ufunc.types` has them) and its data."""
    try:
        ufunc = _ufunc(name)
        number = ufunc.types.index(types)
    except (ImportError, AttributeError, ValueError) as error:
        reason = f"Fourier transforms are NumPy's, and NumPy {np.__version__} does not have them as ufuncs ({error})"
        raise UnsupportedError(reason) from None
    head = _Ufunc.from_address(id(ufunc))
    if (head.nin, head.nout, head.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        raise UnsupportedError(f"the ufuncs of NumPy {np.__version__} lie in memory in a way that is not known")
    return int(head.functions[number] or 0), int((head.data[number] if head.data else 0) or 0)


def _ufunc(name: str) -> Any:
    from numpy.fft import _pocketfft_umath  # type: ignore[attr-defined]  # compiled code, without stubs

    return getattr(_pocketfft_umath, name)


def call(routine: str, inputs: Sequence[Bytes], outputs: Sequence[Bytes], sizes: Sequence[int], tasks: int) -> None:
    """What the routine in machine code does, from Python. `inputs`, `outputs`: arrays of bytes; `sizes`: the step's."""
    address, data = function(routine)
    calls, words, rows = sizes[0], sizes[1], np.array(sizes[2:], np.int64).reshape(-1, 4).tolist()
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * ARGUMENTS)(address)
    frame = np.zeros(max(words, ARGUMENTS), np.int64)
    for task in range(tasks):
        for number in range(task * calls // tasks, (task + 1) * calls // tasks):
            for word, (kind, a, b, c) in enumerate(rows):
                frame[word] = _word(_NAMES[kind], (a, b, c), (task, number), (inputs, outputs), (frame, data))
            entry(*frame[:ARGUMENTS].tolist())


def _word(
    kind: str,
    numbers: tuple[int, int, int],
    place: tuple[int, int],
    buffers: tuple[Sequence[Bytes], Sequence[Bytes]],
    frame: tuple[np.ndarray, int],
) -> int:
    """The word that `kind` and its numbers say, in the task and call of `place`."""
    (a, b, c), (task, call_number) = numbers, place
    if kind == "number":
        return a
    if kind == "address":
        return frame[0].ctypes.data + 8 * a
    if kind == "count":
        return min(a, b - call_number * a)
    if kind == "data":
        return frame[1]
    arrays, step = (
        (buffers[0], call_number) if kind == "input" else (buffers[1], task if kind == "work" else call_number)
    )
    return arrays[a].ctypes.data + step * b + c
