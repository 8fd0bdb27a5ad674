"""What can be proven of sizes, for all values they may have: a <= b, and that a number divides.

A proof of `p >= 0` takes apart what is not a polynomial (`max(q, 0)` is q or 0; `q // c` is `(q - rest) / c` for some
rest below c), counts each size from its least or from its most, and looks at the coefficients. False says that no
proof was found: a size may still be so whenever the program runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf
from typing import cast

from .dim import Dim, DimExpr, is_produced, sym
from .polynomial import Monomial, Polynomial, atom_bounds, bounds, is_free, plus, polynomial, times

_MOST_ATOMS = 6  # taken apart in one proof
_MOST_BOUNDED = 4  # sizes that are counted from both ends


def at_most(a: Dim, b: Dim) -> bool:
    """Is a <= b proven?"""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return not_negative(plus(polynomial(b), polynomial(a), -1))


def divides(divisor: int, dim: Dim) -> bool:
    """Is `dim` proven a multiple of `divisor`, which is not 0?"""
    if isinstance(dim, int):
        return dim % divisor == 0
    return all(c % divisor == 0 for c in polynomial(dim).values())


def not_negative(poly: Polynomial, steps: int = _MOST_ATOMS) -> bool:
    """Is the polynomial proven at least 0?"""
    if bounds(poly)[0] >= 0:
        return True
    if bounds(poly)[1] < 0:
        return False
    atoms = {a.op: a for m in poly for a in m if _is_case(a)}
    if not atoms:
        found = any(_covered(shifted) for shifted in _shifted(poly))
    else:
        op = next(op for op in _CASES if op in atoms)
        found = steps > 0 and _CASES[op](poly, atoms[op], steps - 1)
    return found or (steps > 0 and _from_bounds(poly, steps - 1))


def _from_bounds(poly: Polynomial, steps: int) -> bool:
    """A size that an instruction produces, at most an expression, counted down from that."""
    for atom in {a: None for m in poly for a in m if is_produced(a) and not isinstance(a.bound, int)}:
        below = plus(polynomial(atom.bound), {(sym(f"{atom} from its bound", 0),): 1}, -1)
        if not_negative(_substituted(poly, atom, below), steps):
            return True
    return False


def _is_case(atom: DimExpr) -> bool:
    return atom.op in _CASES and not is_free(atom) and isinstance(atom.operands[1], int)


def _max_cases(poly: Polynomial, atom: DimExpr, steps: int) -> bool:
    """max(q, 0) is q or 0; where more of it makes the polynomial larger, one of them is enough: not where it comes
    squared, for the square of a negative q is more than 0."""
    found = (not_negative(_substituted(poly, atom, value), steps) for value in (polynomial(atom.operands[0]), {}))
    having = {m: c for m, c in poly.items() if atom in m}
    grows = all(c > 0 and m.count(atom) == 1 and bounds(_without(m, atom))[0] >= 0 for m, c in having.items())
    return any(found) if grows else all(found)


def _floordiv_cases(poly: Polynomial, atom: DimExpr, steps: int) -> bool:
    """For q // c the polynomial times a power of c, with q - rest in place of each c * (q // c). As it is a multiple of
    that power, it is at least 0 where it is above the negative of it."""
    whole, divisor = cast("tuple[Dim, int]", atom.operands)
    rest = sym(f"rest of {atom}", 0, 0, divisor - 1)
    value = plus(polynomial(whole), {(rest,): 1}, -1)
    power = max(m.count(atom) for m in poly)
    scaled = {m: c * divisor ** (power - m.count(atom)) for m, c in poly.items()}
    return not_negative(plus(_substituted(scaled, atom, value), {(): divisor**power - 1}), steps)


_CASES = {"max": _max_cases, "floordiv": _floordiv_cases}


def _without(monomial: Monomial, atom: DimExpr) -> Polynomial:
    return {tuple(a for a in monomial if a != atom): 1}


def _substituted(poly: Polynomial, atom: DimExpr, value: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for monomial, coefficient in poly.items():
        term: Polynomial = {tuple(a for a in monomial if a != atom): coefficient}
        for _ in range(monomial.count(atom)):
            term = times(term, value)
        total = plus(total, term)
    return total


def _shifted(poly: Polynomial) -> Iterator[Polynomial]:
    """The polynomial in how far each size is above its least, or below its most."""
    sizes = {a: atom_bounds(a) for m in poly for a in m if is_free(a)}
    bounded = [a for a, (_, high) in sizes.items() if high != inf][:_MOST_BOUNDED]
    for from_top in product((False, True), repeat=len(bounded)):
        ends = dict(zip(bounded, from_top))
        shifted = poly
        for atom, (low, high) in sizes.items():
            far = sym(f"{atom} from its end", 0, 0, None if high == inf else int(high - low))
            if ends.get(atom):
                shifted = _substituted(shifted, atom, {(): int(high), (far,): -1})
            else:
                shifted = _substituted(shifted, atom, {(): int(low), (far,): 1})
        yield shifted


def _covered(poly: Polynomial) -> bool:
    """Is every negative term covered by a positive one that is as large whenever it is not 0, as n by n * n, where n is
    not negative?"""
    rest = dict(poly)
    for monomial in [m for m, c in poly.items() if c < 0 and m and all(atom_bounds(a)[0] >= 0 for a in m)]:
        for other in [m for m, c in rest.items() if c > 0 and len(m) > len(monomial)]:
            if set(other) == set(monomial) and all(other.count(a) >= monomial.count(a) for a in monomial):
                taken = min(rest[other], -rest[monomial])
                rest[other] -= taken
                rest[monomial] += taken
    return bounds({m: c for m, c in rest.items() if c})[0] >= 0
