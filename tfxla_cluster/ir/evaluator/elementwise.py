"""Elementwise opcodes. Floats narrower than 32 bits compute in f32 and round once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..dtype import DType, from_numpy
from ..node import Instr
from .convert import convert, reduce_precision, total_order_key
from .core import Array, Evaluator, Meaning

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _wide(x: Array) -> Array:
    """`x`, as f32 when it is a narrower float, as int64 when it is a 4-bit integer."""
    dtype = from_numpy(x.dtype)
    if dtype.is_float and dtype.bits < 32:
        return x.astype(np.float32)
    return x.astype(np.int64) if dtype.bits == 4 else x


def _back(x: Array, like: Array) -> Array:
    return np.asarray(x).astype(like.dtype)


def _float(fn: Callable[..., Any]) -> Meaning:
    """An operation on floats (and complex) that NumPy has."""
    return lambda ev, instr, args: _back(fn(*map(_wide, args)), args[0])


def _integer(fn: Callable[[Array, Array], Any]) -> Meaning:
    return lambda ev, instr, args: _back(fn(args[0], args[1]), args[0])


def _kind(x: Array) -> str:
    return from_numpy(x.dtype).kind


def _is_int(x: Array) -> bool:
    return _kind(x) in ("int", "uint")


# --- integers: wrap-around, and XLA's answers where C has none -----------------------------------


def _int_divide(x: Array, y: Array) -> Array:
    """Truncating; x/0 = -1 (all ones), MIN/-1 = MIN."""
    x, y = np.broadcast_arrays(x, y)
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if _kind(x) == "uint":
        return np.where(y == 0, np.array(-1).astype(x.dtype), x // safe)
    overflow = (safe == -1) & (x == np.iinfo(x.dtype).min)
    safe = np.where(overflow, 1, safe).astype(x.dtype)
    quotient = x // safe
    quotient = quotient + ((x % safe != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, -1, quotient)


def _int_remainder(x: Array, y: Array) -> Array:
    """Sign of x; x%0 = x, MIN%-1 = 0."""
    x, y = np.broadcast_arrays(x, y)
    quotient = _int_divide(x, y).astype(x.dtype)
    return np.where(y == 0, x, x - quotient * y)


def _int_power(x: Array, y: Array) -> Array:
    """By squaring with wrap-around; a negative exponent gives 0 but for bases 1 and -1."""
    x, y = np.broadcast_arrays(x, y)
    result, base = np.ones(x.shape, x.dtype), x.copy()
    exponent = y.astype(np.uint64)
    for _ in range(x.dtype.itemsize * 8):
        result = np.where(exponent & np.uint64(1), result * base, result).astype(x.dtype)
        base, exponent = (base * base).astype(x.dtype), exponent >> np.uint64(1)
    if _kind(x) == "uint":
        return result
    sign = np.where(y % 2 == 0, 1, -1)
    return np.where(y < 0, np.where(x == 1, 1, np.where(x == -1, sign, 0)), result)


def _either(on_float: Callable[..., Any], on_int: Callable[..., Any]) -> Meaning:
    def meaning(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
        fn = on_int if _is_int(args[0]) else on_float
        return _back(fn(*map(_wide, args)), args[0])

    return meaning


def _nibble(x: Array, signed: bool) -> Array:
    """The four bits of each element as a number of eight, with its sign or without."""
    low = (x.astype(np.int8) & 15).astype(np.int8)
    return np.asarray((low ^ 8) - 8 if signed else low.astype(np.uint8))


def _shift(fn: Callable[[Array, Array], Any], fill: Callable[[Array], Any], read_as: Mapping[int, Any]) -> Meaning:
    """`fn` on the bits read as `read_as`, or `fill` where the amount (read as unsigned) is at least the width."""

    def meaning(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
        x, amount = np.broadcast_arrays(*args)
        bits = from_numpy(x.dtype).bits
        unsigned = _UNSIGNED[x.dtype.itemsize]
        count = amount.view(unsigned) if bits >= 8 else amount.astype(np.uint8) & 15
        inside = np.minimum(count, bits - 1)
        operand = x.view(read_as[x.dtype.itemsize]) if bits >= 8 else _nibble(x, read_as is _SIGNED)
        moved = fn(_wide(operand), inside.astype(_wide(operand).dtype)).astype(operand.dtype)
        result = np.where(count >= bits, np.asarray(fill(operand)).astype(operand.dtype), moved)
        return result.view(x.dtype) if bits >= 8 else convert(result, from_numpy(x.dtype))

    return meaning


def _count_leading_zeros(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    (x,) = args
    bits = from_numpy(x.dtype).bits
    rest = x.view(_UNSIGNED[x.dtype.itemsize]) if bits >= 8 else x.astype(np.uint8) & 15
    count = np.full(x.shape, bits)
    for _ in range(bits):
        count = count - (rest != 0)
        rest = rest >> 1
    return count.astype(x.dtype)


def _popcnt(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    x: Array = args[0]
    raw = x.view(_UNSIGNED[x.dtype.itemsize])
    ones: Array = np.bitwise_count(raw if from_numpy(x.dtype).bits >= 8 else raw & 15)
    return ones.astype(x.dtype)


def _not(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return (
        np.logical_not(args[0])
        if _kind(args[0]) == "pred"
        else np.asarray(np.invert(_wide(args[0]))).astype(args[0].dtype)
    )


# --- floats ------------------------------------------------------------------------------------


def _sign(x: Array) -> Array:
    """-0.0 and NaN stay; a complex number is divided by its size."""
    if _kind(x) == "complex":
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size))
    return np.where((x == 0) | np.isnan(x), x, np.sign(x)) if _kind(x) == "float" else np.sign(x)


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole).astype(x.dtype)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _clamp(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    low, x, high = map(_wide, args)
    return _back(np.minimum(np.maximum(low, x), high), args[1])


def _select(ev: Evaluator, instr: Instr, args: list[Array]) -> Array:
    return np.where(args[0], args[1], args[2])


def _compare(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    x, y = args
    if instr.attrs["type"] == "TOTALORDER" and _kind(x) == "float":
        x, y = total_order_key(x), total_order_key(y)
    compare = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }[instr.attrs["direction"]]
    return np.asarray(compare(_wide(x), _wide(y)))


def _complex(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    out = np.empty(np.broadcast(*args).shape, np.complex64 if args[0].dtype == np.float32 else np.complex128)
    out.real, out.imag = args
    return out


def _part(fn: Callable[[Array], Any]) -> Meaning:
    return lambda ev, instr, args: np.array(fn(args[0]))


def _abs(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return np.abs(args[0]) if _kind(args[0]) == "complex" else _back(np.abs(_wide(args[0])), args[0])


def _convert(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return convert(args[0], instr.shape.element_type)


def _reduce_precision(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return reduce_precision(args[0], instr.attrs["exponent_bits"], instr.attrs["mantissa_bits"])


def _bitcast_convert(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    x, dtype = np.ascontiguousarray(args[0]), instr.shape.element_type
    have = from_numpy(x.dtype)
    if have.bits == 4 and dtype.bits > 4:
        return _packed(x).view(dtype.numpy)[..., 0]
    if dtype.bits == 4 and have.bits > 4:
        return _unpacked(x.reshape(*np.shape(args[0]), 1).view(np.uint8), dtype)
    if dtype.bits == have.bits:
        return x.view(dtype.numpy).reshape(np.shape(args[0]))  # ascontiguousarray gave a scalar a dimension
    if dtype.bits > have.bits:
        return x.view(dtype.numpy)[..., 0]
    return x.reshape(*np.shape(args[0]), 1).view(dtype.numpy)


def _packed(x: Array) -> Array:
    """Two numbers of 4 bits a byte, the first in the low bits; NumPy has a byte for each."""
    low = x.view(np.uint8) & 15
    return np.ascontiguousarray(low[..., 0::2] | low[..., 1::2] << 4)


def _unpacked(x: Array, dtype: DType) -> Array:
    """The two numbers of 4 bits of each byte."""
    both = np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])
    signed = np.where(both > 7, both.astype(np.int16) - 16, both) if dtype.kind == "int" else both
    return signed.astype(np.int8 if dtype.kind == "int" else np.uint8).astype(dtype.numpy)


def _map(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    return ev.apply(instr.attrs["to_apply"], args)


MEANINGS: dict[str, Meaning] = {
    "abs": _abs,
    "acos": _float(np.arccos),
    "acosh": _float(np.arccosh),
    "asin": _float(np.arcsin),
    "asinh": _float(np.arcsinh),
    "atan": _float(np.arctan),
    "atanh": _float(np.arctanh),
    "cbrt": _float(np.cbrt),
    "ceil": _float(np.ceil),
    "cosine": _float(np.cos),
    "cosh": _float(np.cosh),
    "erf": _float(_erf),
    "exponential": _float(np.exp),
    "exponential-minus-one": _float(np.expm1),
    "floor": _float(np.floor),
    "log": _float(np.log),
    "log-plus-one": _float(np.log1p),
    "logistic": _float(_logistic),
    "negate": _float(np.negative),
    "round-nearest-afz": _float(_round_half_away),
    "round-nearest-even": _float(np.rint),
    "rsqrt": _float(lambda x: 1 / np.sqrt(x)),
    "sign": _float(_sign),
    "sine": _float(np.sin),
    "sinh": _float(np.sinh),
    "sqrt": _float(np.sqrt),
    "tan": _float(np.tan),
    "tanh": _float(np.tanh),
    "copy": lambda ev, instr, args: args[0],
    "is-finite": lambda ev, instr, args: np.asarray(np.isfinite(_wide(args[0]))),
    "add": _float(np.add),
    "subtract": _float(np.subtract),
    "multiply": _float(np.multiply),
    "divide": _either(np.divide, _int_divide),
    "remainder": _either(np.fmod, _int_remainder),
    "power": _either(np.power, _int_power),
    "atan2": _float(np.arctan2),
    "maximum": _float(np.maximum),
    "minimum": _float(np.minimum),
    "and": _integer(np.bitwise_and),
    "or": _integer(np.bitwise_or),
    "xor": _integer(np.bitwise_xor),
    "not": _not,
    "shift-left": _shift(np.left_shift, lambda x: 0, _UNSIGNED),
    "shift-right-logical": _shift(np.right_shift, lambda x: 0, _UNSIGNED),
    "shift-right-arithmetic": _shift(np.right_shift, lambda x: np.where(x < 0, -1, 0), _SIGNED),
    "count-leading-zeros": _count_leading_zeros,
    "popcnt": _popcnt,
    "clamp": _clamp,
    "select": _select,
    "compare": _compare,
    "complex": _complex,
    "real": _part(np.real),
    "imag": _part(np.imag),
    "convert": _convert,
    "reduce-precision": _reduce_precision,
    "bitcast-convert": _bitcast_convert,
    "map": _map,
}
