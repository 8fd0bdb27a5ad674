"""Rough scalar operations of an element of each opcode."""

from __future__ import annotations

_HEAVY = (
    "exponential",
    "log",
    "tanh",
    "logistic",
    "erf",
    "exponential-minus-one",
    "log-plus-one",
    "sine",
    "cosine",
    "power",
    "tan",
    "atan2",
    "cbrt",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "sinh",
    "cosh",
)
_MIDDLE = ("divide", "sqrt", "rsqrt", "remainder", "gather", "dynamic-slice")
_FREE = ("parameter", "constant", "broadcast", "reshape", "bitcast", "tuple", "get-tuple-element", "reduce", "copy")
_WEIGHTS = {**dict.fromkeys(_HEAVY, 12), **dict.fromkeys(_MIDDLE, 4), **dict.fromkeys(_FREE, 0)}


def weight(opcode: str) -> int:
    return _WEIGHTS.get(opcode, 1)
