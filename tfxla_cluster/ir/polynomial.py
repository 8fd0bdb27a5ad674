"""Dims as polynomials, so that `B*S` from a shape and the product of `S` and `B` are one: the algebra of sizes.

What is not a sum or a product of sizes is an atom in one form: `max(p, 0)`, `p // c` with nothing in p that c divides,
or a `//` or `%` by what is not a number. Of a size of one residue class, n with n % c == r, the atom is its quotient:
n is c * (n // c) + r, so that 2 * (n // 2) is n where n is even. Two dims of one polynomial are equal at all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import gcd, inf
from typing import cast

from .dim import Dim, DimExpr, is_produced, make, product

Monomial = tuple[DimExpr, ...]  # atoms in a fixed order
Polynomial = dict[Monomial, int]  # the coefficient of each monomial, none of them 0
Range = tuple[float, float]  # both ends may be reached; an int or an infinity each


def polynomial(dim: Dim) -> Polynomial:
    return dict(_terms(dim, tuple(_numbers(dim))))


def same(a: Dim, b: Dim) -> bool:
    """Equal at all sizes; False also where that cannot be told."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or polynomial(a) == polynomial(b)


def common_factor(dims: Iterable[Dim]) -> int:
    """A number that divides all of `dims`, whatever the sizes; 0 where all are 0."""
    return gcd(*(c for dim in dims for c in polynomial(dim).values()))


def is_free(atom: DimExpr) -> bool:
    """A size, or the quotient of one of a residue class: any number between its ends."""
    return atom.is_size or _is_quotient(atom)


def _quotient(size: DimExpr) -> DimExpr:
    return DimExpr("floordiv", (size, size.every))


def _is_quotient(atom: DimExpr) -> bool:
    whole = atom.args[0]
    return atom.op == "floordiv" and isinstance(whole, DimExpr) and whole.every > 1 and whole.every == atom.args[1]


def _with_sizes(poly: Polynomial) -> Polynomial:
    """With sizes of residue classes in place of multiples of their quotients: to be read, no normal form."""
    for monomial, coefficient in poly.items():
        for atom in filter(_is_quotient, monomial):
            size, others = atom.args[0], list(monomial)
            assert isinstance(size, DimExpr)
            if coefficient % size.every == 0:
                others.remove(atom)
                each = {tuple(others): coefficient // size.every}
                whole = plus(times(each, {(size,): 1}), each, -size.rest)
                return _with_sizes(plus(plus(poly, {monomial: coefficient}, -1), whole))
    return poly


def as_dim(poly: Polynomial) -> Dim:
    """The expression of a polynomial, its terms in a fixed order."""
    total: Dim = 0
    poly = _with_sizes(poly)
    for monomial in sorted(poly, key=lambda m: (-len(m), str(m))):
        total = make("add", total, make("mul", product(monomial), poly[monomial]))
    return total


def plus(a: Polynomial, b: Polynomial, times: int = 1) -> Polynomial:
    """a + b * times"""
    total = dict(a)
    for monomial, coefficient in b.items():
        total[monomial] = total.get(monomial, 0) + coefficient * times
    return {m: c for m, c in total.items() if c}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for m1, c1 in a.items():
        for m2, c2 in b.items():
            monomial = tuple(sorted(m1 + m2, key=str))
            total[monomial] = total.get(monomial, 0) + c1 * c2
    return {m: c for m, c in total.items() if c}


def number(poly: Polynomial) -> int | None:
    """The number it is, None where it has a size."""
    return poly.get((), 0) if not poly.keys() - {()} else None


def bounds(poly: Polynomial) -> Range:
    """Ends that hold at all sizes; sizes that are used together count as if each were free."""
    low: float = 0
    high: float = 0
    for monomial, coefficient in poly.items():
        ends: Range = (coefficient, coefficient)
        for atom in monomial:
            ends = _interval_product(ends, atom_bounds(atom))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _numbers(dim: Dim) -> Iterator[int | None]:
    """What equality of sizes does not see: samples and ranges. Part of the memory's key, for its terms hold sizes."""
    if isinstance(dim, int):
        return
    if dim.is_size:
        yield from (dim.number, dim.low, dim.high, dim.every, dim.rest)
        yield from () if dim.op == "sym" else _numbers(dim.bound)
        return
    for operand in dim.operands:
        yield from _numbers(operand)


@lru_cache(maxsize=4096)
def _terms(dim: Dim, _: tuple[int | None, ...]) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, int):
        return (((), dim),) if dim else ()
    if dim.is_size and dim.every > 1:
        return tuple(plus({(_quotient(dim),): dim.every}, {(): dim.rest}).items())
    if dim.is_size:
        return (((dim,), 1),)
    left, right = map(polynomial, dim.operands)
    return tuple(_NORMAL[dim.op](left, right).items())


def _atom(op: str, a: Polynomial, b: Polynomial) -> Polynomial:
    return {(DimExpr(op, (as_dim(a), as_dim(b))),): 1}


def _floordiv(a: Polynomial, b: Polynomial) -> Polynomial:
    divisor = number(b)
    if divisor is None:
        return _atom("floordiv", a, b) if a else {}
    if divisor < 0:
        return _floordiv(plus({}, a, -1), {(): -divisor})
    if divisor == 0:
        return {}
    whole = {m: c // divisor for m, c in a.items() if c // divisor}
    rest = {m: c % divisor for m, c in a.items() if c % divisor}
    return plus(whole, _fraction(rest, divisor))


def _fraction(a: Polynomial, divisor: int) -> Polynomial:
    """a // divisor, for coefficients of `a` from 1 to below `divisor`."""
    low, high = (_floor(end, divisor) for end in bounds(a))
    if low == high:
        return {(): int(low)} if low else {}
    for monomial, coefficient in a.items():
        inner = monomial[0] if len(monomial) == 1 else None
        if coefficient == 1 and inner is not None and _is_fraction(inner):
            by = cast("int", inner.operands[1])  # (x // by + y) // divisor = (x + y * by) // (by * divisor)
            outer = plus(a, {monomial: 1}, -1)
            return _floordiv(plus(polynomial(inner.operands[0]), outer, by), {(): by * divisor})
    shared = gcd(divisor, *(c for m, c in a.items() if m))
    if shared > 1:
        return _floordiv({m: c // shared for m, c in a.items() if c // shared}, {(): divisor // shared})
    return _atom("floordiv", a, {(): divisor})


def _is_fraction(atom: DimExpr) -> bool:
    return atom.op == "floordiv" and isinstance(atom.operands[1], int) and not _is_quotient(atom)


def _mod(a: Polynomial, b: Polynomial) -> Polynomial:
    divisor = number(b)
    if divisor is None:
        return _atom("mod", a, b) if a else {}
    return plus(a, _floordiv(a, b), -divisor) if divisor else {}


def positive_part(a: Polynomial) -> Polynomial:
    """max(a, 0)"""
    low, high = bounds(a)
    if low >= 0 or high <= 0:
        return a if low >= 0 else {}
    first = min((m for m in a if m), key=lambda m: (-len(m), str(m)))
    if a[first] < 0:
        return plus(a, positive_part(plus({}, a, -1)))
    shared = gcd(*a.values())
    return times({(): shared}, _atom("max", {m: c // shared for m, c in a.items()}, {}))


_NORMAL: dict[str, Callable[[Polynomial, Polynomial], Polynomial]] = {
    "add": plus,
    "mul": times,
    "floordiv": _floordiv,
    "mod": _mod,
    "max": lambda a, b: plus(b, positive_part(plus(a, b, -1))),
    "min": lambda a, b: plus(a, positive_part(plus(a, b, -1)), -1),
}


def _interval_product(a: Range, b: Range) -> Range:
    ends = [x * y if x and y else 0 for x in a for y in b]  # 0 * infinity is 0: a size is some number
    return min(ends), max(ends)


def atom_bounds(atom: DimExpr) -> Range:
    """The ends of an atom of a polynomial."""
    if is_produced(atom):
        return 0, bounds(polynomial(atom.bound))[1]
    if atom.is_size:
        return atom.low, inf if atom.high is None else atom.high
    if _is_quotient(atom):
        size, every = cast("tuple[DimExpr, int]", atom.operands)
        return -(-(size.low - size.rest) // every), inf if size.high is None else (size.high - size.rest) // every
    (low, high), (least, most) = (bounds(polynomial(d)) for d in atom.operands)
    if atom.op == "max":
        return max(low, 0), max(high, 0)
    if atom.op == "mod":
        return (0, max(most - 1, 0)) if least >= 0 else (-inf, inf)
    divisor = atom.operands[1]
    if isinstance(divisor, int):
        return _floor(low, divisor), _floor(high, divisor)
    if low >= 0 and least >= 0:
        return 0, _floor(high, max(least, 1))
    return -inf, inf


def _floor(a: float, b: float) -> float:
    return a if a in (inf, -inf) else a // b
