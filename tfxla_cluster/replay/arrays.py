"""The arrays of a run: drawn, read from files, described and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputFileError, OutputError, UsageError
from ..ir import dim
from ..ir.dtype import DType
from ..ir.literal import freeze
from ..ir.node import Instr, Module
from ..ir.shape import Shape

# Element bits -> (relative, absolute) tolerance of a comparison.
_TOLERANCES = {64: (1e-9, 1e-12), 32: (1e-4, 1e-5), 16: (2e-2, 1e-2), 8: (0.5, 0.5)}


def drawn(shape: Shape, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Floats normal, integers 0 to 9, preds even; a symbolic size at its sample."""
    dims, dtype = shape.sample_dims, shape.element_type
    if dtype.kind == "pred":
        return freeze(rng.integers(0, 2, dims), dtype)
    if dtype.is_integer:
        return freeze(np.asarray(rng.integers(0, 8 if dtype.bits == 4 else 10, dims)).astype(dtype.numpy))
    values = np.asarray(rng.normal(size=dims))
    if dtype.kind == "complex":
        values = values + 1j * rng.normal(size=dims)
    return freeze(np.asarray(values).astype(dtype.numpy))


def inputs(module: Module, files: Sequence[str], seed: int) -> list[np.ndarray[Any, Any]]:
    """One a parameter: those in .npy `files`, or drawn. UsageError where files are too few or a parameter is no array,
    InputFileError where one cannot be read or does not fit."""
    params = module.entry.params
    if not files:
        rng = np.random.default_rng(seed)
        return [drawn(_array_shape(p), rng) for p in params]
    if len(files) != len(params):
        raise UsageError(f"{module.name} has {len(params)} parameters, --input was given {len(files)} times")
    return [_load(name, p) for name, p in zip(files, params)]


def _load(name: str, param: Instr) -> np.ndarray[Any, Any]:
    shape = _array_shape(param)
    dims, dtype = shape.sample_dims, shape.element_type
    value = _read(name)
    if value.dtype.kind == "V" and value.dtype.names is None and value.dtype.itemsize == dtype.itemsize:
        value = value.view(dtype.numpy)  # NumPy writes bf16 and the like as raw bytes
    if dtype.bits < 8 and dtype.is_integer and value.dtype.kind in "iu":
        value = _narrow(name, value, dtype)
    if value.shape != dims or value.dtype != dtype.numpy:
        got = f"{value.dtype}{list(value.shape)}"
        raise InputFileError(f"{name}: parameter {param.name} is {param.shape}, the file holds {got}")
    return np.asarray(value)


def _read(name: str) -> np.ndarray[Any, Any]:
    """The array in a .npy file; InputFileError where it cannot be read or holds something else."""
    try:
        with open(name, "rb") as file:
            if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
                raise InputFileError(f"{name} is no .npy file", "Write it with numpy.save")
            file.seek(0)
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except OSError as error:
        raise InputFileError(f"cannot read {name}: {error.strerror}") from None
    except (ValueError, EOFError) as error:
        objects = "Object arrays" in str(error)
        problem = "it holds Python objects, not numbers" if objects else "it is not whole, or its header is damaged"
        raise InputFileError(f"cannot read {name} as .npy: {problem}", "Write it with numpy.save") from None


def _narrow(name: str, value: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Integers as those of less than eight bits, for which NumPy has no type of its own."""
    low = -(1 << dtype.bits - 1) if dtype.kind == "int" else 0
    high = low + (1 << dtype.bits) - 1
    if value.size and not (low <= value.min() and value.max() <= high):
        raise InputFileError(f"{name}: {dtype.name} holds {low} to {high}, the file {value.min()} to {value.max()}")
    return value.astype(dtype.numpy)


def _array_shape(param: Instr) -> Shape:
    if not param.shape.is_array or param.shape.dtype is None:
        problem = f"parameter {param.name} is a {param.shape.kind}"
        raise UsageError(problem, "Only array parameters can be fed")
    return param.shape.with_dims(tuple(dim.sample(d) for d in param.shape.dims))


def describe(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An output in a few numbers."""
    row: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16],
    }
    if array.size and array.dtype.kind != "c":
        wide = array.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        row.update(nans=int(np.isnan(wide).sum()), infs=int(np.isinf(wide).sum()))
        if finite.size:
            row.update(minimum=float(np.min(finite)), maximum=float(np.max(finite)))
    return row


def compare(mine: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], rtol: float | None = None) -> dict[str, Any]:
    """Largest errors among finite elements, how many elements are outside the tolerance, and the first of them."""
    if mine.shape != expected.shape or mine.dtype != expected.dtype:
        return {
            "mismatches": max(mine.size, 1),
            "max_abs": None,
            "max_rel": None,
            "reason": f"{mine.dtype}{list(mine.shape)} against {expected.dtype}{list(expected.shape)}",
        }
    kind = np.complex128 if mine.dtype.kind == "c" else np.float64
    exact = mine.dtype.kind in "biu"
    a, b = mine.astype(kind), expected.astype(kind)
    bits = mine.dtype.itemsize * 8 // (2 if mine.dtype.kind == "c" else 1)
    relative, absolute = (0.0, 0.0) if exact else _TOLERANCES[bits]
    close = np.isclose(a, b, rtol=relative if rtol is None else rtol, atol=absolute, equal_nan=True)
    if exact:
        close = mine == expected
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(a - b), 0.0)
    scale = np.where(finite, np.abs(b), 1.0)
    ratio = error / np.where(scale == 0, 1.0, scale)
    found: dict[str, Any] = {
        "mismatches": int((~close).sum()),
        "max_abs": float(np.max(error, initial=0.0)),
        "max_rel": float(np.max(ratio, initial=0.0)),
    }
    if found["mismatches"]:
        at = tuple(int(i) for i in np.unravel_index(int(np.argmin(close)), mine.shape))
        found["first"] = {"at": list(at), "is": str(mine[at]), "expected": str(expected[at])}
    return found


def flat(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays in nested tuples, in order."""
    return [leaf for v in values for leaf in (flat(v) if isinstance(v, tuple) else [np.asarray(v)])]


def save(
    directory: Path, inputs: Sequence[np.ndarray[Any, Any]], outputs: Sequence[np.ndarray[Any, Any]] = ()
) -> list[str]:
    """Writes input.N.npy and output.N.npy into `directory`; the names of the inputs' files. OutputError where it cannot
    be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, arrays in (("input", inputs), ("output", outputs)):
            for number, array in enumerate(arrays):
                np.save(directory / f"{name}.{number}.npy", array)
    except OSError as error:
        raise OutputError(f"cannot write {directory}: {error.strerror}") from None
    return [str(directory / f"input.{number}.npy") for number in range(len(inputs))]
