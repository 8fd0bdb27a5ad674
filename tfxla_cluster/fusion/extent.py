"""Algebra of extents: are two dims equal, does one divide another, whatever sizes symbols take.

Dims are compared as polynomials over their symbols (`floordiv`, `mod`, `max`, `min` are opaque
atoms), so that `B*S` from a shape and the product of `S` and `B` are the same extent.
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ..ir.dim import Dim, DimExpr, make

# A polynomial: for each monomial (a sorted tuple of atoms), its coefficient.
Polynomial = dict[tuple[DimExpr, ...], int]


def same(a: Dim, b: Dim) -> bool:
    """Equal for every value of their symbols (False also where that cannot be told)."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or polynomial(a) == polynomial(b)


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
    (factors, scale), = divisor.items()
    quotient: Polynomial = {}
    for monomial, coefficient in polynomial(a).items():
        rest = _without(monomial, factors)
        if rest is None or coefficient % scale:
            return None
        quotient[rest] = coefficient // scale
    return _dim(quotient)


@lru_cache(maxsize=4096)
def _polynomial(dim: Dim) -> tuple[tuple[tuple[DimExpr, ...], int], ...]:
    if isinstance(dim, int):
        return (((), dim),) if dim else ()
    if dim.op not in ("add", "mul"):
        return (((dim,), 1),)
    left, right = (dict(_polynomial(arg)) for arg in dim.args)
    total: Polynomial = {}
    if dim.op == "add":
        for part in (left, right):
            for monomial, coefficient in part.items():
                total[monomial] = total.get(monomial, 0) + coefficient
    else:
        for m1, c1 in left.items():
            for m2, c2 in right.items():
                monomial = tuple(sorted(m1 + m2, key=str))
                total[monomial] = total.get(monomial, 0) + c1 * c2
    return tuple((m, c) for m, c in total.items() if c)


def polynomial(dim: Dim) -> Polynomial:
    return dict(_polynomial(dim))


def _without(monomial: tuple[DimExpr, ...], factors: tuple[DimExpr, ...]) -> tuple[DimExpr, ...] | None:
    """`monomial` / `factors`, or None where it does not divide."""
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def _dim(poly: Polynomial) -> Dim:
    total: Dim = 0
    for monomial, coefficient in poly.items():
        term: Dim = coefficient
        for atom in monomial:
            term = make("mul", term, atom)
        total = make("add", total, term)
    return total
