"""Conversions between element types, reduced precision, total order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtype import DType, from_numpy
from .core import Array

_UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_INT = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
# float type -> (exponent bits, mantissa bits)
_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def convert(x: Array, to: DType) -> Array:
    """`x` as another type, as XLA converts.

    float to integer truncates and saturates, NaN gives 0; integer to integer wraps; anything to pred
    is x != 0; complex to real drops the imaginary part; to a narrower float rounds to nearest even.
    """
    have = from_numpy(x.dtype)
    if have == to:
        return x
    if have.kind == "complex" and to.kind != "complex":
        return convert(np.array(x.real), to) if to.kind != "pred" else np.asarray(x != 0)
    if to.kind == "pred":
        return np.asarray(_widened(x, have) != 0)
    if have.is_float and to.is_integer:
        return _saturate(x.astype(np.float64), to)
    if to.is_integer:
        wide = x.astype(np.int64) if have.name != "u64" else x
        return _wrap(wide, to)
    if to.is_float and to.bits < 16 and have.is_float:
        return x.astype(np.float32).astype(to.numpy)
    if to.is_float and to.bits < 32 and not have.is_float:
        return x.astype(np.float32 if have.bits < 64 else np.float64).astype(to.numpy)
    return np.asarray(x.astype(to.numpy))


def _widened(x: Array, dtype: DType) -> Array:
    return x.astype(np.float32) if dtype.is_float and dtype.bits < 32 else x


def _wrap(x: Array, to: DType) -> Array:
    if to.bits == 4:
        low = np.asarray(x).astype(np.uint8) & 15
        return np.asarray((low if to.kind == "uint" else (low.astype(np.int8) ^ 8) - 8).astype(to.numpy))
    return np.asarray(x.astype(to.numpy))


def _saturate(x: Array, to: DType) -> Array:
    low, high = (0, 2**to.bits - 1) if to.kind == "uint" else (-(2 ** (to.bits - 1)), 2 ** (to.bits - 1) - 1)
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    inside = np.where((whole > low) & (whole < float(high)), whole, 0)
    wide = inside.astype(np.uint64 if to.kind == "uint" else np.int64)
    bound = wide.dtype.type
    wide = np.where(whole >= float(high), bound(high), np.where(whole <= low, bound(low), wide))
    return np.asarray(wide.astype(to.numpy))


def reduce_precision(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a float of the given format, in the type of `x`: overflow to inf, underflow to zero of the sign."""
    dtype = from_numpy(x.dtype)
    if dtype.bits < 16:
        return reduce_precision(x.astype(np.float32), exponent_bits, mantissa_bits).astype(x.dtype)
    exponents, mantissas = _FORMATS[dtype.name]
    uint = _UINT[x.dtype.itemsize]
    bits: Any = np.atleast_1d(x).view(uint).astype(np.uint64)
    nan = np.isnan(np.atleast_1d(x).astype(np.float64))
    drop = mantissas - mantissa_bits
    if drop > 0:
        last = (bits >> np.uint64(drop)) & np.uint64(1)
        bits = bits + last + np.uint64((1 << (drop - 1)) - 1)
        bits = bits & ~np.uint64((1 << drop) - 1)
    sign = bits & np.uint64(1 << (8 * x.dtype.itemsize - 1))
    if exponent_bits < exponents:
        bias, small = (1 << (exponents - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = (bits & np.uint64(((1 << exponents) - 1) << mantissas)) >> np.uint64(mantissas)
        infinity = np.uint64(((1 << exponents) - 1) << mantissas)
        bits = np.where(exponent > bias + small, sign | infinity, bits)
        bits = np.where(exponent <= max(bias - small, 0), sign, bits)
    out = bits.astype(uint).view(x.dtype).reshape(x.shape)
    return np.where(nan.reshape(x.shape), x, out).astype(x.dtype)


def total_order_key(x: Array) -> Array:
    """Integers that order as IEEE totalOrder does: -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN."""
    bits = np.atleast_1d(x).view(_INT[x.dtype.itemsize])
    key = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return np.asarray(key.reshape(x.shape))
