"""Which expression over sizes a number is that varies from module to module: candidates, the likeliest first.

A vector is one number of the program as each module has it. Any candidate is right at all of them; that it is at
another size is for `prove` to say, so a wrong one costs a compilation and never a result.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from math import gcd
from types import MappingProxyType

from ..ir.dim import LEAST_GENERIC, Dim, DimExpr, evaluate, has_produced, make, product, sym
from ..ir.polynomial import is_free, polynomial, same
from ..size_spec import ANY, Size

Vector = tuple[int, ...]
SMALL = 2**15
"""The most of a size that was small so far: kernels may then keep a row of it at hand."""
MOST = 2**31 - 1  # of any dimension: what an s32, as TensorFlow hands sizes to programs, can say
_GIVEN = re.compile(r"[a-z]+\d+")  # names of sizes that are made
_DEGREE = 3  # of products of sizes
_MODEST = 8  # of factors and shifts that programs write
_STEEP = 64  # of a factor of one size beside another
_FEW = (1, 2, 3, -1, -2)  # factors of the other, or of a product of sizes
_LOWS = (3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32)  # from which modules may hold
_DIVISORS = (2, 3, 4, 5, 6, 7, 8, 16, 32)
_PARTS = tuple((a, c) for c in (3, 4, 5, 8, 10) for a in range(1, c))  # 2 * n // 3, int(0.9 * n)
_BLOCKS = (2, 4, 8, 16, 32, 64, 128, 3, 5, 6, 7, 10)  # to whose multiples programs pad and cut


@dataclass(frozen=True, slots=True)
class Assumed:
    """Of a size: what it is at least, and by what it always leaves the same."""

    least: int = LEAST_GENERIC
    every: int = 1


class Sizes:
    """The sizes of some modules: vectors and the expressions that stand for them."""

    def __init__(
        self,
        vectors: Sequence[Vector],
        assumed: Sequence[Assumed] = (),
        said: Mapping[Vector, Size] = MappingProxyType({}),
    ) -> None:
        """A size for each of the vectors, which differ, and what is assumed of each. `said`: by vector, what the user
        says about the size."""
        self.count = len(vectors[0])
        self.symbols: list[tuple[DimExpr, Vector]] = []
        self.known: dict[Vector, list[Dim]] = {}
        self.shapes: dict[tuple[Dim, ...], None] = {}
        for number, (vector, of) in enumerate(zip(vectors, assumed or [Assumed()] * len(vectors))):
            size = _symbol(number, vector, of, said.get(vector, ANY), {s.name for s, _ in self.symbols})
            self.symbols.append((size, vector))
            self.learn(size, vector)

    def environments(self) -> list[dict[str, int]]:
        """The sizes of each module by name."""
        return [{size.name: vector[k] for size, vector in self.symbols} for k in range(self.count)]

    def learn(self, dim: Dim, vector: Vector) -> None:
        """An expression that the program has: what comes later with these numbers is likely the same."""
        known = self.known.setdefault(vector, [])
        if not any(same(dim, other) for other in known):
            known.append(dim)

    def learn_shape(self, dims: tuple[Dim, ...]) -> None:
        """A shape that the program has: how many elements it has, in some of its dimensions, may be a number of it."""
        if any(isinstance(d, DimExpr) for d in dims) and not any(map(has_produced, dims)):
            self.shapes.setdefault(dims)

    def counts(self) -> list[Dim]:
        """Sizes, and products of the dimensions of shapes, that vary."""
        found: list[Dim] = []
        seen: set[Vector] = set()
        environments = self.environments()
        for dims in [(size,) for size, _ in self.symbols] + list(self.shapes):
            for length in range(1, len(dims) + 1):
                for chosen in combinations(dims, length):
                    dim = product(chosen)
                    vector = tuple(evaluate(dim, env) for env in environments)
                    if vector not in seen and len(set(vector)) > 1:
                        seen.add(vector)
                        found.append(dim)
        return found

    def candidates(self, vector: Vector, near: Sequence[Dim] = ()) -> Iterator[Dim]:
        """Expressions with these values; `near`: those that stand beside the number, which it most likely is."""
        if len(set(vector)) == 1:
            yield vector[0]
            return
        found: list[Dim] = []
        for dim in self._all(vector, near):
            if not any(same(dim, other) for other in found):
                found.append(dim)
                yield dim

    def _all(self, vector: Vector, near: Sequence[Dim]) -> Iterator[Dim]:
        environments = self.environments()
        named = [dim for dim in near if isinstance(dim, DimExpr) and not has_produced(dim)]
        beside = [(dim, tuple(evaluate(dim, env) for env in environments)) for dim in named]
        yield from (dim for dim, values in beside if values == vector)
        yield from self.known.get(vector, ())
        bases = [*beside, *self.symbols, *self.products()]
        for way in (_multiple, _near_multiple, _divided, _moved, _cut, _rounded, _part, _limited, _linear, _at_least):
            made = [dim for base, values in bases if (dim := way(base, values, vector)) is not None]
            yield from sorted(made, key=_weight)
        yield from self._sums(vector)
        yield from (make("floordiv", dim, 2) for dim in self._sums(tuple(2 * number for number in vector)))

    def _sums(self, wanted: Vector) -> Iterator[Dim]:
        """a * dim + b * size + c of small numbers, where `dim` is a size or a product of two: n + m, n * (n - 1)."""
        for dim, values in [*self.symbols, *self.products(2)]:
            for factor in _FEW:
                rest = tuple(w - factor * v for v, w in zip(values, wanted))
                for size, numbers in self.symbols:
                    found = _slope(numbers, rest) if size is not dim else None
                    if found is not None and abs(found[0]) <= _STEEP and abs(found[1]) <= _MODEST:
                        yield make("add", make("mul", dim, factor), _sum(size, found))

    def follows(self, vector: Vector, shifted: bool) -> bool:
        """Is it a number of times a size, or a product of some; `shifted`: or a modest number more or less?"""
        bases, ways = [*self.symbols, *self.products()], (_multiple, _near_multiple)[: 1 + shifted]
        return any(way(dim, values, vector) is not None for way in ways for dim, values in bases)

    def products(self, most: int = _DEGREE) -> Iterator[tuple[Dim, Vector]]:
        """Products of two sizes, to `most` of them."""
        for degree in range(2, most + 1):
            for chosen in combinations_with_replacement(self.symbols, degree):
                values = [1] * self.count
                for _, vector in chosen:
                    values = [a * b for a, b in zip(values, vector)]
                yield product(size for size, _ in chosen), tuple(values)


def _symbol(number: int, vector: Vector, of: Assumed, said: Size, taken: Container[str]) -> DimExpr:
    """The size called as the user does; else, and where that may be a name that is given here, by its number."""
    own = said.name and said.name not in taken and not _GIVEN.fullmatch(said.name)
    high = said.max if said.max is not None else SMALL if max(vector) <= SMALL // 4 else MOST
    name, low = said.name if own else f"s{number}", max(of.least, said.min or 0)
    return sym(name, max(vector), low, min(high, MOST), of.every, vector[0] % of.every)


def assumptions(vectors: Sequence[Vector]) -> Iterator[list[Assumed]]:
    """What may have to be assumed of sizes for one module to hold, the least first: nothing, that they are no smaller
    than they were; then for each divisor that they are of the residue class that they were of, where it is one."""
    spans = [gcd(*(n - vector[0] for n in vector)) for vector in vectors]
    for divisor in (1, *_DIVISORS):
        every = [divisor if span % divisor == 0 else 1 for span in spans]
        if max(every) == divisor:
            yield [Assumed(every=e) for e in every]
            yield [Assumed(min(vector), e) for vector, e in zip(vectors, every)]


def weaker_assumptions(kept: Sequence[Assumed]) -> Iterator[list[Assumed]]:
    """Less than `kept`, which is read anew for each: sizes from a smaller one on until some hold, then one after
    another of no residue class."""
    for low in _LOWS:
        if low < max(of.least for of in kept):
            yield [replace(of, least=min(of.least, low)) for of in kept]
    for number in range(len(kept)) if len(kept) > 1 else ():
        if kept[number].every > 1:
            yield [*kept[:number], replace(kept[number], every=1), *kept[number + 1 :]]


def is_guess(dim: Dim) -> bool:
    """May other expressions have the numbers of two modules just as well? So they may where sizes are rounded or
    limited, and where a constant is added that programs seldom write."""
    poly = polynomial(dim)
    return abs(poly.get((), 0)) > _MODEST or not all(is_free(atom) for monomial in poly for atom in monomial)


def _weight(dim: Dim) -> int:
    """The less, the likelier."""
    return sum(map(abs, polynomial(dim).values()))


def _multiple(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """c * dim"""
    if values[0] == 0:
        return None
    factor = wanted[0] // values[0]
    return make("mul", dim, factor) if factor and all(w == factor * v for v, w in zip(values, wanted)) else None


def _near_multiple(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """a * dim + b, both small"""
    found = _slope(values, wanted)
    return _sum(dim, found) if found is not None and 0 < found[0] <= _MODEST and abs(found[1]) <= _MODEST else None


def _linear(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """a * dim + b"""
    found = _slope(values, wanted)
    return None if found is None else _sum(dim, found)


def _sum(dim: Dim, slope: tuple[int, int]) -> Dim:
    return make("add", make("mul", dim, slope[0]), slope[1])


def _slope(values: Vector, wanted: Vector) -> tuple[int, int] | None:
    """(a, b) with wanted = a * values + b, a not 0."""
    pair = next(((k, m) for k in range(len(values)) for m in range(k) if values[k] != values[m]), None)
    if pair is None:
        return None
    k, m = pair
    slope, rest = divmod(wanted[k] - wanted[m], values[k] - values[m])
    shift = wanted[k] - slope * values[k]
    holds = not rest and slope and all(w == slope * v + shift for v, w in zip(values, wanted))
    return (slope, shift) if holds else None


def _divided(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """(dim + b) // c; b is as near to 0 as it can be."""
    for divisor in _DIVISORS:
        rests = [w * divisor - v for v, w in zip(values, wanted)]
        least, most = max(rests), min(rests) + divisor - 1
        if least <= most and most >= -_MODEST and least <= divisor * _MODEST:
            return make("floordiv", make("add", dim, max(least, 0) if most >= 0 else most), divisor)
    return None


def _moved(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """dim + b and b - dim: what is more, or left of a constant."""
    found = _slope(values, wanted)
    return None if found is None or abs(found[0]) != 1 else _sum(dim, found)


def _part(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """a * dim // c, rounded down or up"""
    for factor, divisor in _PARTS:
        for shift in (0, divisor - 1):
            if all(w == (v * factor + shift) // divisor for v, w in zip(values, wanted)):
                return make("floordiv", make("add", make("mul", dim, factor), shift), divisor)
    return None


def _cut(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """min(dim, c) where more than one module tells c."""
    return _limited(dim, values, wanted) if wanted.count(max(wanted)) > 1 else None


def _limited(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """min(dim, c), and dim without it: what is a part of a constant length at most."""
    for rest in (False, True):
        part = tuple(v - w for v, w in zip(values, wanted)) if rest else wanted
        most = max(part)
        if most > 0 and len(set(part)) > 1 and all(p == min(v, most) for v, p in zip(values, part)):
            beyond = make("max", make("add", dim, -most), 0)
            return beyond if rest else make("add", dim, make("mul", beyond, -1))
    return None


def _at_least(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """max(dim + b, c), both small where one module alone tells b: what trims leave, and where they end."""
    least = min(wanted)
    moved = [w - v for v, w in zip(values, wanted) if w > least]
    if any(w != max(v + moved[0], least) for v, w in zip(values, wanted)):
        return None
    is_told = len(moved) > 1 or max(abs(moved[0]), abs(least)) <= _MODEST
    return make("max", make("add", dim, moved[0]), least) if is_told else None


def _rounded(dim: Dim, values: Vector, wanted: Vector) -> Dim | None:
    """dim rounded up or down to a multiple of c, and by how much."""
    for block in _BLOCKS:
        for shift in (0, block - 1):
            near = [(v + shift) // block * block for v in values]
            made = make("mul", make("floordiv", make("add", dim, shift), block), block)
            if all(n == w for n, w in zip(near, wanted)):
                return made
            if all(abs(n - v) == w for n, v, w in zip(near, values, wanted)):
                larger, smaller = (made, dim) if shift else (dim, made)
                return make("add", larger, make("mul", smaller, -1))
    return None
