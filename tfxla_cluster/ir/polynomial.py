"""Dims as polynomials over their symbols, so that `B*S` from a shape and the product of `S` and `B` are one.

`floordiv`, `mod`, `max` and `min` of anything are opaque atoms, as symbols are.
"""

from __future__ import annotations

from functools import lru_cache

from .dim import Dim, DimExpr

Monomial = tuple[DimExpr, ...]  # atoms in a fixed order
Polynomial = dict[Monomial, int]  # the coefficient of each monomial, none of them 0


def polynomial(dim: Dim) -> Polynomial:
    return dict(_terms(dim))


@lru_cache(maxsize=4096)
def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, int):
        return (((), dim),) if dim else ()
    if dim.op not in ("add", "mul"):
        return (((dim,), 1),)
    left, right = map(_terms, dim.operands)
    total: Polynomial = {}
    if dim.op == "add":
        for monomial, coefficient in left + right:
            total[monomial] = total.get(monomial, 0) + coefficient
    else:
        for m1, c1 in left:
            for m2, c2 in right:
                monomial = tuple(sorted(m1 + m2, key=str))
                total[monomial] = total.get(monomial, 0) + c1 * c2
    return tuple((m, c) for m, c in total.items() if c)
