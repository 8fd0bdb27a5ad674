"""The operators of size expressions: one table of what each means, in Python, in NumPy and in machine code.

Sizes are integers. `floordiv` and `mod` round towards minus infinity, as Python's; by 0 both give 0, as NumPy's: what
divides by an empty extent is itself empty. Machine code has 64 bits: a sum or a product beyond them stays at the
limit, so that memory of that size is refused, where wrapping around would ask for too little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


class Writer(Protocol):
    """What the operators use of an LLVM builder, which the layers that generate code bring. Values are i64 or i1."""

    def sub(self, a: Any, b: Any) -> Any: ...
    def add(self, a: Any, b: Any) -> Any: ...
    def sdiv(self, a: Any, b: Any) -> Any: ...
    def srem(self, a: Any, b: Any) -> Any: ...
    def xor(self, a: Any, b: Any) -> Any: ...
    def and_(self, a: Any, b: Any) -> Any: ...
    def or_(self, a: Any, b: Any) -> Any: ...
    def select(self, condition: Any, yes: Any, no: Any) -> Any: ...
    def icmp_signed(self, relation: str, a: Any, b: Any) -> Any: ...
    def sadd_with_overflow(self, a: Any, b: Any) -> Any: ...
    def smul_with_overflow(self, a: Any, b: Any) -> Any: ...
    def extract_value(self, pair: Any, index: int) -> Any: ...


Emit = Callable[[Writer, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class SizeOperator:
    """fold: two integers to one. numpy: the ufunc that is the same on int64. emit: appends the machine code.

    infix: how text writes it; '' as a call of its name. commutative: operands may change places.
    """

    name: str
    infix: str
    commutative: bool
    fold: Callable[[int, int], int]
    numpy: np.ufunc
    emit: Emit


def _limited(w: Writer, pair: Any, negative: Any) -> Any:
    """The value of an operation `with overflow`; where it overflowed, the limit on the side of the true result."""
    value = w.extract_value(pair, 0)
    limit = w.select(negative, value.type(LOWEST), value.type(HIGHEST))
    return w.select(w.extract_value(pair, 1), limit, value)


def _emit_add(w: Writer, a: Any, b: Any) -> Any:
    return _limited(w, w.sadd_with_overflow(a, b), w.icmp_signed("<", a, a.type(0)))


def _emit_mul(w: Writer, a: Any, b: Any) -> Any:
    return _limited(w, w.smul_with_overflow(a, b), w.icmp_signed("<", w.xor(a, b), a.type(0)))


def _divided(w: Writer, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """(divisor, quotient towards 0, rest, does the quotient round up). The divisor is `b`, but 1 for 0 and -1, by
    which the processor does not divide every number."""
    odd = w.or_(w.icmp_signed("==", b, b.type(0)), w.icmp_signed("==", b, b.type(-1)))
    divisor = w.select(odd, b.type(1), b)
    rest = w.srem(a, divisor)
    up = w.and_(w.icmp_signed("!=", rest, a.type(0)), w.icmp_signed("<", w.xor(rest, divisor), a.type(0)))
    return divisor, w.sdiv(a, divisor), rest, up


def _emit_floordiv(w: Writer, a: Any, b: Any) -> Any:
    _, quotient, _, up = _divided(w, a, b)
    quotient = w.select(up, w.sub(quotient, a.type(1)), quotient)
    lowest = w.icmp_signed("==", a, a.type(LOWEST))
    negated = w.select(lowest, a.type(HIGHEST), w.sub(a.type(0), a))
    quotient = w.select(w.icmp_signed("==", b, b.type(-1)), negated, quotient)
    return w.select(w.icmp_signed("==", b, b.type(0)), a.type(0), quotient)


def _emit_mod(w: Writer, a: Any, b: Any) -> Any:
    divisor, _, rest, up = _divided(w, a, b)
    return w.select(up, w.add(rest, divisor), rest)


def _chosen(relation: str) -> Emit:
    return lambda w, a, b: w.select(w.icmp_signed(relation, a, b), a, b)


OPERATORS: dict[str, SizeOperator] = {
    row.name: row
    for row in (
        SizeOperator("add", "+", True, lambda a, b: a + b, np.add, _emit_add),
        SizeOperator("mul", "*", True, lambda a, b: a * b, np.multiply, _emit_mul),
        SizeOperator("floordiv", "//", False, lambda a, b: a // b if b else 0, np.floor_divide, _emit_floordiv),
        SizeOperator("mod", "%", False, lambda a, b: a % b if b else 0, np.remainder, _emit_mod),
        SizeOperator("max", "", True, max, np.maximum, _chosen(">")),
        SizeOperator("min", "", True, min, np.minimum, _chosen("<")),
    )
}
# What machine code calls them.
NUMBERS: dict[str, int] = {name: number for number, name in enumerate(OPERATORS)}
