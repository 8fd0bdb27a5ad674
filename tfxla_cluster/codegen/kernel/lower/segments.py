"""The innermost loop cut where conditions on its variable change, so that none is tested inside.

A concatenate or pad along the innermost dimension asks of each element on which side of a number it
lies. Between two such numbers the answer is known: each stretch is a loop of its own, without masks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ....fusion.index import Computed, Cond, Seq
from ....fusion.program import Group, Program
from ....ir.dim import Dim, make
from ....ir.polynomial import as_dim, polynomial, same
from ....ir.size_proofs import at_most
from ..ir import Var
from .emit import Emitter
from .grid import extent, minimum

MAX_SEGMENTS = 6
MAX_INSTRS = 60  # of a body that is written several times


def shifted(seq: Seq, group: Group) -> Dim | None:
    """The number n with value of `seq` = loop variable + n; None where it is not of that form."""
    if seq == group:
        return 0
    if len(seq) == 1 and isinstance(seq[0], Computed) and seq[0].kind == "affine":
        atom = seq[0]
        if atom.seq == group and atom.scale == 1:
            return atom.offset
    return None


def cuts(program: Program, group: Group) -> list[Dim]:
    """Where the loop over `group` is cut: its ends and the numbers between, in an order that is proven for all sizes;
    none where that is not worth it or not known."""
    stop = extent(group)
    if stop == 0:
        return []
    found: list[Dim] = [0, stop]
    for access in program.accesses:
        for cond in access.mask:
            offset = shifted(cond.seq, group)
            if offset is not None:
                found += [_difference(b, offset) for b in (cond.low, cond.high) if b is not None]
    inner = _ordered([n for n in found if not at_most(n, -1) and not at_most(_sum(stop, 1), n)])
    worth = 2 < len(inner) <= MAX_SEGMENTS + 1 and len(program.instrs) <= MAX_INSTRS
    return inner if worth and inner[0] == 0 and same(inner[-1], stop) else []


def _sum(a: Dim, b: Dim) -> Dim:
    return as_dim(polynomial(make("add", a, b)))


def _difference(a: Dim, b: Dim) -> Dim:
    return _sum(a, make("mul", b, -1))


def _ordered(dims: list[Dim]) -> list[Dim]:
    """Each once, rising; nothing where the order of two is not proven."""
    found: list[Dim] = []
    for dim in dims:
        below = [other for other in found if at_most(other, dim)]
        if any(same(other, dim) for other in below):
            continue
        if not all(at_most(dim, other) for other in found[len(below) :]) or below != found[: len(below)]:
            return []
        found.insert(len(below), dim)
    return found


def vector_loop(e: Emitter, group: Group, start: Var, stop: Var, body: Callable[[], None]) -> None:
    """The loop over `group` from `start` to `stop` in lanes, in segments where that saves conditions."""
    b, points = e.b, cuts(e.program, group)
    if not points:
        with b.loop(start, stop, "vector") as i:
            e.bind(group, i)
            body()
        return
    zero, whole = b.index(0), b.size(extent(group))
    for low, high in itertools.pairwise(points):
        first, last = (b.index(n) if isinstance(n, int) else b.size(n) for n in (low, high))
        first = first if start is zero else b.op("maximum", start, first)
        last = last if stop is whole else minimum(b, stop, last)
        e.facts = _decide(group, low, high)
        with b.loop(first, last, "vector") as i:
            e.bind(group, i)
            body()
    e.facts = None


def _decide(group: Group, low: Dim, high: Dim) -> Callable[[Cond], bool | None]:
    """What is known of a condition where low <= loop variable < high."""

    def decide(cond: Cond) -> bool | None:
        offset = shifted(cond.seq, group)
        if offset is None:
            return None
        first, last = _sum(low, offset), _sum(high, offset)
        if (cond.low is not None and at_most(last, cond.low)) or (cond.high is not None and at_most(cond.high, first)):
            return False
        inside = (cond.low is None or at_most(cond.low, first)) and (cond.high is None or at_most(last, cond.high))
        return True if inside and cond.step == 1 else None

    return decide
