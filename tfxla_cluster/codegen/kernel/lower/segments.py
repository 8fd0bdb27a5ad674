"""The innermost loop cut where conditions on its variable change, so that none is tested inside.

A concatenate or pad along the innermost dimension asks of each element on which side of a number it
lies. Between two such numbers the answer is known: each stretch is a loop of its own, without masks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ....fusion.index import Computed, Cond, Seq
from ....fusion.program import Group, Program
from ..ir import Var
from .emit import Emitter
from .grid import extent, minimum

MAX_SEGMENTS = 6
MAX_INSTRS = 60  # of a body that is written several times


def shifted(seq: Seq, group: Group) -> int | None:
    """The number n with value of `seq` = loop variable + n; None where it is not of that form."""
    if seq == group:
        return 0
    if len(seq) == 1 and isinstance(seq[0], Computed) and seq[0].kind == "affine":
        atom = seq[0]
        if atom.seq == group and atom.scale == 1 and isinstance(atom.offset, int):
            return atom.offset
    return None


def cuts(program: Program, group: Group) -> list[int]:
    """Where the loop over `group` is cut: its ends and the numbers between; ends only where that is not
    worth it or not known."""
    stop = extent(group)
    if not isinstance(stop, int) or stop == 0:
        return []
    found = {0, stop}
    for access in program.accesses:
        for cond in access.mask:
            offset = shifted(cond.seq, group)
            if offset is not None:
                found.update(b - offset for b in (cond.low, cond.high) if isinstance(b, int))
    inner = sorted(n for n in found if 0 <= n <= stop)
    worth = 2 < len(inner) <= MAX_SEGMENTS + 1 and len(program.instrs) <= MAX_INSTRS
    return inner if worth else []


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
        first = b.index(low) if start is zero else b.op("maximum", start, b.index(low))
        last = b.index(high) if stop is whole else minimum(b, stop, b.index(high))
        e.facts = _decide(group, low, high)
        with b.loop(first, last, "vector") as i:
            e.bind(group, i)
            body()
    e.facts = None


def _decide(group: Group, low: int, high: int) -> Callable[[Cond], bool | None]:
    """What is known of a condition where low <= loop variable < high."""

    def decide(cond: Cond) -> bool | None:
        offset = shifted(cond.seq, group)
        if offset is None or not isinstance(cond.low, int | None) or not isinstance(cond.high, int | None):
            return None
        first, last = low + offset, high + offset
        if (cond.low is not None and last <= cond.low) or (cond.high is not None and first >= cond.high):
            return False
        inside = (cond.low is None or first >= cond.low) and (cond.high is None or last <= cond.high)
        return True if inside and cond.step == 1 else None

    return decide
