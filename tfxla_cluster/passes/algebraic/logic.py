"""Booleans, bits, comparisons, selection."""

from __future__ import annotations

from typing import Any

from ...ir.node import Instr
from ..base import Rule
from ..match import broadcast, dtype_of, is_exact, is_value, make, splat, value_of

# direction -> its value for equal operands
_EQUAL = {"EQ": True, "LE": True, "GE": True, "NE": False, "LT": False, "GT": False}


def _known(x: Instr) -> Any:
    """True or False when pred `x` is that everywhere, else None."""
    value = value_of(x)
    return None if value is None or dtype_of(x).kind != "pred" else bool(value)


def _is_ones(x: Instr) -> bool:
    value = value_of(x)
    if value is None:
        return False
    return bool(value) if dtype_of(x).kind == "pred" else int(value) in (-1, 2 ** dtype_of(x).bits - 1)


def _is_zero(x: Instr) -> bool:
    return _known(x) is False if dtype_of(x).kind == "pred" else is_value(x, 0)


def and_or(i: Instr) -> Instr | None:
    """x & ones --> x, x & 0 --> 0, x | 0 --> x, x | ones --> ones, x & x --> x"""
    x, y = i.operands
    if x is y:
        return x
    keeps, wins = (_is_ones, _is_zero) if i.opcode == "and" else (_is_zero, _is_ones)
    for one, other in ((x, y), (y, x)):
        if keeps(other):
            return one
        if wins(other):
            return other
    return None


def xor_zero(i: Instr) -> Instr | None:
    """x ^ 0 --> x, x ^ x --> 0"""
    x, y = i.operands
    if x is y:
        return splat(i, 0, i.shape)
    return x if _is_zero(y) else y if _is_zero(x) else None


def compare_itself(i: Instr) -> Instr | None:
    """x == x --> true, x < x --> false of integers"""
    x, y = i.operands
    return splat(i, _EQUAL[i.attrs["direction"]], i.shape) if x is y and is_exact(x) else None


def select_known(i: Instr) -> Instr | None:
    """select(true, x, y) --> x, select(p, x, x) --> x"""
    p, x, y = i.operands
    if x is y:
        return x
    known = _known(p)
    return None if known is None else x if known else y


def select_not(i: Instr) -> Instr | None:
    """select(not p, x, y) --> select(p, y, x)"""
    p, x, y = i.operands
    return make(i, "select", i.shape, (p.operands[0], y, x)) if p.opcode == "not" else None


def select_pred(i: Instr) -> Instr | None:
    """select(p, true, false) --> p"""
    p, x, y = i.operands
    if dtype_of(i).kind != "pred" or _known(x) is not True or _known(y) is not False:
        return None
    return p if p.shape.rank == i.shape.rank else broadcast(i, p, i.shape.dims)


RULES: dict[str, list[Rule]] = {
    "and": [and_or],
    "or": [and_or],
    "xor": [xor_zero],
    "compare": [compare_itself],
    "select": [select_known, select_not, select_pred],
}
