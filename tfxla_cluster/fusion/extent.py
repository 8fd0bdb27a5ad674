"""Algebra of extents: are two dims equal, does one divide another, whatever sizes symbols take."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.dim import Dim
from ..ir.polynomial import Monomial, Polynomial, as_dim, plus, polynomial, same, times


def same_all(a: Iterable[Dim], b: Iterable[Dim]) -> bool:
    left, right = tuple(a), tuple(b)
    return len(left) == len(right) and all(map(same, left, right))


def divide(a: Dim, b: Dim) -> Dim | None:
    """A dim q with a == q * b for all sizes, or None."""
    if a == b:
        return 1
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    left, divisor = polynomial(a), polynomial(b)
    if not divisor:
        return None
    quotient: Polynomial = {}
    first = max(divisor, key=_rank)
    while left:  # the highest term goes with each turn
        monomial = max(left, key=_rank)
        rest, coefficient = _without(monomial, first), left[monomial]
        if rest is None or coefficient % divisor[first]:
            return None
        quotient[rest] = coefficient // divisor[first]
        left = plus(left, times({rest: quotient[rest]}, divisor), -1)
    return as_dim(quotient)


def _rank(monomial: Monomial) -> tuple[int, list[str]]:
    """An order that products keep: by degree, then by the atoms, which are in their order."""
    return len(monomial), [str(atom) for atom in monomial]


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """`monomial` / `factors`, or None where it does not divide."""
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)
