"""Conversions. A conversion that rounds is never dropped."""

from __future__ import annotations

from ...ir.dtype import DType
from ...ir.node import Instr
from ..base import Rule
from ..match import dtype_of, make

# float type -> (exponent bits, mantissa bits), for those whose values lie in each other
_FORMATS = {"f8e5m2": (5, 2), "f8e4m3fn": (4, 3), "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def is_lossless(a: DType, b: DType) -> bool:
    """Every value of `a` is a value of `b` (NaN, infinities and signed zeros included)."""
    if a == b:
        return True
    if a.kind == "pred":
        return b.kind != "pred"
    if a.is_float and b.is_float:
        if a.name not in _FORMATS or b.name not in _FORMATS:
            return False
        return all(x <= y for x, y in zip(_FORMATS[a.name], _FORMATS[b.name]))
    if a.is_integer and b.is_integer:
        return b.bits > a.bits if a.kind == "uint" else b.kind == "int" and b.bits > a.bits
    if a.is_integer and b.name in _FORMATS:
        # Also the largest integer must be a value: f16 ends at 65504.
        return a.bits <= _FORMATS[b.name][1] + 1
    return False


def convert_nothing(i: Instr) -> Instr | None:
    """convert of a type to itself --> the operand"""
    return i.operands[0] if dtype_of(i.operands[0]) == dtype_of(i) else None


def convert_chain(i: Instr) -> Instr | None:
    """convert(convert(x as a wider type) as B) --> convert(x as B)"""
    (middle,) = i.operands
    if middle.opcode != "convert" or not is_lossless(dtype_of(middle.operands[0]), dtype_of(middle)):
        return None
    source = middle.operands[0]
    if dtype_of(source).is_integer and dtype_of(i).is_integer and dtype_of(middle).is_float:
        return None  # a float saturates where an integer wraps
    return source if dtype_of(source) == dtype_of(i) else make(i, "convert", i.shape, (source,))


def bitcast_chain(i: Instr) -> Instr | None:
    """bitcast-convert(bitcast-convert(x)) --> bitcast-convert(x), or x"""
    (x,) = i.operands
    if dtype_of(x) == dtype_of(i) and x.shape.dims == i.shape.dims:
        return x
    if x.opcode != "bitcast-convert" or x.shape.dims != x.operands[0].shape.dims or x.shape.dims != i.shape.dims:
        return None
    return make(i, "bitcast-convert", i.shape, x.operands)


RULES: dict[str, list[Rule]] = {"convert": [convert_nothing, convert_chain], "bitcast-convert": [bitcast_chain]}
