"""Triton's names of element types, and constants of them as source text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...errors import UnsupportedError
from ...ir.dtype import DTYPES, DType
from ..kernel.narrow_floats import F8, FORMATS

# dtype -> (type of values in Triton's language, element type of a pointer in its signatures; pred is a byte). Floats of
# 8 bits are f32 that are rounded after each operation, and codes in memory; integers of 4 bits are bytes, in registers
# extended by sign or zeros.
_NAMES = {
    "pred": ("tl.int1", "i8"),
    "s8": ("tl.int8", "i8"),
    "s16": ("tl.int16", "i16"),
    "s32": ("tl.int32", "i32"),
    "s64": ("tl.int64", "i64"),
    "u8": ("tl.uint8", "u8"),
    "u16": ("tl.uint16", "u16"),
    "u32": ("tl.uint32", "u32"),
    "u64": ("tl.uint64", "u64"),
    "s4": ("tl.int8", "i8"),
    "u4": ("tl.uint8", "u8"),
    **dict.fromkeys(F8, ("tl.float32", "u8")),
    "f16": ("tl.float16", "fp16"),
    "bf16": ("tl.bfloat16", "bf16"),
    "f32": ("tl.float32", "fp32"),
    "f64": ("tl.float64", "fp64"),
}
# What users' kernels take pointers to, where that is another type.
_BYTE = 8  # bits
_POINTED = {"pred": "i1", "f8e4m3fn": "fp8e4nv", "f8e5m2": "fp8e5"}


def type_name(dtype: DType) -> str:
    """Triton's name of an element type; UnsupportedError where it has none."""
    return _row(dtype)[0]


def storage(dtype: DType) -> str:
    """The element type in memory, as Triton's signatures spell it."""
    return _row(dtype)[1]


def pointer(dtype: DType) -> str:
    """What a user's kernel takes a pointer to, as Triton's signatures spell it: loads of pred give booleans.
    UnsupportedError where Triton itself has no such type."""
    if dtype.name in _POINTED:
        return _POINTED[dtype.name]
    if dtype.name in F8 or dtype.bits < _BYTE:
        raise UnsupportedError(f"{dtype} has no Triton type")
    return storage(dtype)


def _row(dtype: DType) -> tuple[str, str]:
    if dtype.name not in _NAMES:
        raise UnsupportedError(f"{dtype} has no Triton type")
    return _NAMES[dtype.name]


def narrow(dtype: DType) -> bool:
    """A float that is computed with as f32 and rounded after each operation."""
    return dtype.is_float and dtype.bits < 32


def integer_type(bits: int, signed: bool) -> str:
    """Of values of so many bits; those of 4 have 8."""
    return f"tl.{'' if signed else 'u'}int{max(bits, 8)}"


def constant(value: Any, dtype: DType) -> str:
    """A scalar of `dtype`, every bit as NumPy has it: floats that text loses (-0.0, NaN) by their bits."""
    name = type_name(dtype)
    if dtype.name in F8:
        most = float(ml_dtypes.finfo(dtype.numpy).max)  # where there is no infinity, as neutral as one
        known = np.float32(value) if not FORMATS[dtype.name].finite else np.clip(np.float32(value), -most, most)
        return constant(known, DTYPES["f32"])
    if not dtype.is_float:
        return f"tl.full([], {int(value)}, {name})"
    exact = np.asarray(value).astype(dtype.numpy)
    if narrow(dtype):
        return f"{constant(float(exact), DTYPES['f32'])}.to({name})"
    number = float(exact)
    if not np.isfinite(number) or (number == 0 and np.signbit(number)):
        bits = int(exact.view(f"i{dtype.itemsize}"))
        return f"tl.full([], {bits}, {integer_type(dtype.bits, True)}).to({name}, bitcast=True)"
    return f"tl.full([], {number!r}, {name})"
