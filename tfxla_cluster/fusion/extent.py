"""Algebra of extents: are two dims equal, does one divide another, whatever sizes symbols take."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.dim import Dim
from ..ir.polynomial import Monomial, Polynomial, as_dim, polynomial, same


def same_all(a: Iterable[Dim], b: Iterable[Dim]) -> bool:
    left, right = tuple(a), tuple(b)
    return len(left) == len(right) and all(map(same, left, right))


def divide(a: Dim, b: Dim) -> Dim | None:
    """A dim q with a == q * b for all sizes, or None."""
    if a == b:
        return 1
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    divisor = polynomial(b)
    if len(divisor) != 1:
        return 1 if same(a, b) else None
    ((factors, scale),) = divisor.items()
    quotient: Polynomial = {}
    for monomial, coefficient in polynomial(a).items():
        rest = _without(monomial, factors)
        if rest is None or coefficient % scale:
            return None
        quotient[rest] = coefficient // scale
    return as_dim(quotient)


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """`monomial` / `factors`, or None where it does not divide."""
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)
