"""Helpers for literals: NumPy arrays (a tuple literal is a tuple of literals)."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from .dtype import DType, from_numpy
from .shape import Shape, array, tuple_of

Literal = Union[np.ndarray[Any, Any], tuple["Literal", ...]]

# Where the quiet bit and the mantissa of a float type lie: bits of the mantissa.
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52, "c64": 23, "c128": 52}
_UINT = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def shape_of(value: Literal) -> Shape:
    """The shape of a literal."""
    if isinstance(value, tuple):
        return tuple_of(*map(shape_of, value))
    return array(from_numpy(value.dtype), value.shape)


def freeze(value: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """A read-only, contiguous copy of `value` (an array or a scalar) of `dtype`."""
    made = np.array(value, dtype=None if dtype is None else dtype.numpy, order="C")
    made.setflags(write=False)
    return made


def equal_bits(a: Literal, b: Literal) -> bool:
    """Equal dtype, dims and bits: NaN equals itself, -0.0 differs from 0.0."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        return isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(map(equal_bits, a, b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def is_uniform(value: Literal) -> bool:
    """True when an array literal has elements and all have the same bits."""
    if isinstance(value, tuple) or value.size == 0:
        return False
    flat = np.ascontiguousarray(value).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((raw == raw[0]).all())


def nan_text(value: Any, dtype: DType) -> str:
    """`nan`, `-nan`, or with its payload `nan(0x1)` where that is not the usual one."""
    if dtype.name not in _MANTISSA:
        return "-nan" if np.signbit(value) else "nan"
    part: np.dtype[Any] = np.dtype({"c64": np.float32, "c128": np.float64}.get(dtype.name, dtype.numpy))
    width = part.itemsize
    raw = int(np.array(value, part).view(_UINT[width]))
    mantissa = _MANTISSA[dtype.name]
    payload = raw & ((1 << mantissa) - 1)
    sign = "-" if raw >> (8 * width - 1) else ""
    return f"{sign}nan" if payload == 1 << (mantissa - 1) else f"{sign}nan(0x{payload:x})"


def parse_nan(text: str, dtype: DType) -> Any:
    """The NaN that `[-]nan(0xPAYLOAD)` stands for. ValueError when it is not one."""
    head, _, payload = text.partition("(")
    if head not in ("nan", "-nan") or not payload.endswith(")"):
        raise ValueError(f"'{text}' is no number")
    if dtype.name not in _MANTISSA:
        return dtype.numpy.type(np.nan)
    width, mantissa = dtype.itemsize, _MANTISSA[dtype.name]
    exponent = (1 << (8 * width - 1 - mantissa)) - 1
    raw = (int(head[0] == "-") << (8 * width - 1)) | (exponent << mantissa) | int(payload[:-1], 16)
    return np.array(raw, _UINT[width]).view(dtype.numpy)[()]
