"""Rough scalar operations of an element of each opcode."""
from __future__ import annotations

_WEIGHTS = {
    **dict.fromkeys("""exponential log tanh logistic erf exponential-minus-one log-plus-one sine cosine power
        tan atan2 cbrt acos acosh asin asinh atan atanh sinh cosh""".split(), 12),
    **dict.fromkeys("divide sqrt rsqrt remainder gather dynamic-slice".split(), 4),
    **dict.fromkeys("""parameter constant broadcast reshape bitcast tuple get-tuple-element reduce
        copy""".split(), 0),
}


def weight(opcode: str) -> int:
    return _WEIGHTS.get(opcode, 1)
