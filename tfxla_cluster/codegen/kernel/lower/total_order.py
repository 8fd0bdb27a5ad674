"""Keys of the total order: integers that compare as the values do (-NaN < -inf < ... < -0 < 0 < ... < NaN)."""

from __future__ import annotations

from ....ir.dtype import DTYPES, DType
from ..builder import KernelBuilder
from ..ir import Var


def ordered(dtype: DType) -> bool:
    """Whether values of this dtype have a key."""
    return (dtype.kind in ("int", "uint") and dtype.bits >= 8) or (dtype.is_float and dtype.bits in (16, 32, 64))


def signed_key(b: KernelBuilder, value: Var) -> Var:
    """An integer of the value's width, signed but for unsigned values, in the order of the values."""
    if not value.dtype.is_float:
        return value
    return _turned(b, b.op("bitcast-convert", value, dtype=DTYPES[f"s{value.dtype.bits}"]))


def _turned(b: KernelBuilder, bits: Var) -> Var:
    """The bits of a float, of negative ones all but the sign inverted; twice gives them back."""
    dtype = bits.dtype
    sign = b.op("shift-right-arithmetic", bits, b.const(dtype.bits - 1, dtype))
    return b.op("xor", bits, b.op("and", sign, b.const((1 << (dtype.bits - 1)) - 1, dtype)))


def unsigned_key(b: KernelBuilder, value: Var, descending: bool) -> Var:
    """An unsigned integer of the value's width in the order of the values, or in the reverse."""
    key, dtype = signed_key(b, value), DTYPES[f"u{value.dtype.bits}"]
    if key.dtype.kind == "int":
        key = b.op("bitcast-convert", key, dtype=dtype)
        key = b.op("xor", key, b.const(1 << (dtype.bits - 1), dtype))
    return b.op("not", key) if descending else key


def value_of_key(b: KernelBuilder, key: Var, dtype: DType, descending: bool) -> Var:
    """The value of `dtype` whose `unsigned_key` it is."""
    if descending:
        key = b.op("not", key)
    if dtype.kind == "uint":
        return key
    signed = DTYPES[f"s{dtype.bits}"]
    bits = b.op("bitcast-convert", b.op("xor", key, b.const(1 << (dtype.bits - 1), key.dtype)), dtype=signed)
    if not dtype.is_float:
        return bits
    return b.op("bitcast-convert", _turned(b, bits), dtype=dtype)
