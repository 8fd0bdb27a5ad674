"""Arithmetic. Floats: only what gives the same bits (NaN payloads aside)."""

from __future__ import annotations

import math

import numpy as np

from ...ir.literal import is_uniform
from ...ir.node import Instr
from ..base import Rule
from ..match import dtype_of, is_exact, is_float, is_value, make, splat, value_of


def _binary(like: Instr, opcode: str, x: Instr, y: Instr) -> Instr:
    return make(like, opcode, x.shape, (x, y))


def multiply_one(i: Instr) -> Instr | None:
    """x * 1 --> x"""
    x, y = i.operands
    return x if is_value(y, 1) else y if is_value(x, 1) else None


def multiply_zero(i: Instr) -> Instr | None:
    """x * 0 --> 0 of integers"""
    x, y = i.operands
    if not is_exact(i) or dtype_of(i).kind == "pred":
        return None
    return splat(i, 0, i.shape) if is_value(x, 0) or is_value(y, 0) else None


def multiply_negated(i: Instr) -> Instr | None:
    """(-x) * (-y) --> x * y"""
    x, y = i.operands
    if x.opcode == "negate" and y.opcode == "negate":
        return _binary(i, "multiply", x.operands[0], y.operands[0])
    return None


def add_zero(i: Instr) -> Instr | None:
    """x + 0 --> x of integers; x + -0.0 --> x of floats (+0.0 would turn -0.0 around)"""
    zero = -0.0 if is_float(i) else 0
    if dtype_of(i).kind == "complex":
        return None
    x, y = i.operands
    return x if is_value(y, zero) else y if is_value(x, zero) else None


def add_negated(i: Instr) -> Instr | None:
    """x + -y --> x - y"""
    x, y = i.operands
    if dtype_of(i).kind == "pred":
        return None
    if y.opcode == "negate":
        return _binary(i, "subtract", x, y.operands[0])
    return _binary(i, "subtract", y, x.operands[0]) if x.opcode == "negate" else None


def subtract_zero(i: Instr) -> Instr | None:
    """x - 0 --> x"""
    return i.operands[0] if dtype_of(i).kind != "complex" and is_value(i.operands[1], 0) else None


def subtract_negated(i: Instr) -> Instr | None:
    """x - -y --> x + y"""
    x, y = i.operands
    return _binary(i, "add", x, y.operands[0]) if y.opcode == "negate" else None


def subtract_itself(i: Instr) -> Instr | None:
    """x - x --> 0 of integers"""
    return splat(i, 0, i.shape) if is_exact(i) and i.operands[0] is i.operands[1] else None


def divide_one(i: Instr) -> Instr | None:
    """x / 1 --> x"""
    return i.operands[0] if is_value(i.operands[1], 1) else None


def divide_power_of_two(i: Instr) -> Instr | None:
    """x / 2^k --> x * 2^-k of floats, where 2^-k is a normal number: both round the same real number"""
    value = value_of(i.operands[1]) if is_float(i) and dtype_of(i).bits >= 16 else None
    if value is None or not np.isfinite(value) or value == 0:
        return None
    fraction, exponent = math.frexp(float(value))
    if abs(fraction) != 0.5 or abs(exponent) > (13 if dtype_of(i).name == "f16" else 120):
        return None
    return _binary(i, "multiply", i.operands[0], splat(i, 1 / float(value), i.operands[1].shape))


def small_power(i: Instr) -> Instr | None:
    """x ** 1 --> x, x ** 2 --> x * x, x ** 3 --> x * x * x, x ** -1 --> 1 / x, of floats"""
    x, y = i.operands
    if not is_float(i):
        return None
    if is_value(y, 1):
        return x
    if is_value(y, 2):
        return _binary(i, "multiply", x, x)
    if is_value(y, 3):
        return _binary(i, "multiply", _binary(i, "multiply", x, x), x)
    return _binary(i, "divide", splat(i, 1, i.shape), x) if is_value(y, -1) else None


def twice(i: Instr) -> Instr | None:
    """-(-x) --> x, not(not(x)) --> x"""
    (x,) = i.operands
    return x.operands[0] if x.opcode == i.opcode else None


def same_sign(i: Instr) -> Instr | None:
    """abs(-x) --> abs(x), abs(abs(x)) --> abs(x) of floats"""
    (x,) = i.operands
    if not is_float(i) or not is_float(x) or x.opcode not in ("negate", "abs"):
        return None
    return x if x.opcode == "abs" else make(i, "abs", i.shape, x.operands)


def both_equal(i: Instr) -> Instr | None:
    """max(x, x) --> x, and the like"""
    return i.operands[0] if i.operands[0] is i.operands[1] else None


def no_shift(i: Instr) -> Instr | None:
    """x << 0 --> x"""
    return i.operands[0] if is_value(i.operands[1], 0) else None


def one_element_iota(i: Instr) -> Instr | None:
    """iota along a dimension of size 1 --> 0"""
    return splat(i, 0, i.shape) if i.shape.dims[i.attrs["iota_dimension"]] == 1 else None


def uniform_constant(i: Instr) -> Instr | None:
    """a literal that repeats one value --> broadcast of a scalar"""
    literal = i.attrs["literal"]
    if isinstance(literal, tuple) or literal.ndim == 0 or literal.size < 2 or not is_uniform(literal):
        return None
    return splat(i, literal.reshape(-1)[0], i.shape)


RULES: dict[str, list[Rule]] = {
    "multiply": [multiply_one, multiply_zero, multiply_negated],
    "add": [add_zero, add_negated],
    "subtract": [subtract_zero, subtract_itself, subtract_negated],
    "divide": [divide_one, divide_power_of_two],
    "power": [small_power],
    "negate": [twice],
    "not": [twice],
    "abs": [same_sign],
    "maximum": [both_equal],
    "minimum": [both_equal],
    "shift-left": [no_shift],
    "shift-right-logical": [no_shift],
    "shift-right-arithmetic": [no_shift],
    "iota": [one_element_iota],
    "constant": [uniform_constant],
}
