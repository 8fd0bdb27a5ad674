"""Which size that the run produces is which, where dimensions are reshaped into each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir import dim as dims_
from ..ir.dim import Dim, capacity, has_produced
from ..ir.polynomial import same
from ..ir.size_proofs import at_most


def reshaped(before: Sequence[Dim], after: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """`after` with its produced sizes by the names in `before`; None where that is not clear.

    TensorFlow's bridge gives a size of bound 1 as 1, and 1 as a size of bound 1.
    """
    if len(before) == len(after) and all(same(capacity(a), capacity(b)) for a, b in zip(before, after)):
        return tuple(before)
    found = [capacity(d) for d in after]
    for mine, theirs in _groups(before, after):
        total = dims_.product(before[k] for k in mine)
        open_ = [k for k in theirs if has_produced(after[k])] or list(theirs)
        if not has_produced(total):
            continue
        if len(open_) != 1:
            return None
        fixed = _count(after, [k for k in theirs if k not in open_])
        found[open_[0]] = dims_.make("floordiv", total, fixed)
    ones = [k for k, d in enumerate(after) if capacity(d) == 1] or [0]
    for dim in (d for d in before if has_produced(d) and capacity(d) == 1):
        if not after:
            return ()
        k = ones.pop(0) if len(ones) > 1 else ones[0]
        found[k] = dims_.make("mul", found[k], dim)
    return tuple(found)


def _groups(before: Sequence[Dim], after: Sequence[Dim]) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of dimensions, those of 1 left out, that a reshape turns into each other."""
    mine, theirs = ([k for k, d in enumerate(dims) if capacity(d) != 1] for dims in (before, after))
    while mine and theirs:
        a, b = [mine.pop(0)], [theirs.pop(0)]
        while not same(have := _count(before, a), want := _count(after, b)):
            rest, group = (mine, a) if at_most(have, want) else (theirs, b)
            if not rest:
                return
            group.append(rest.pop(0))
        yield a, b


def _count(dims: Sequence[Dim], where: Sequence[int]) -> Dim:
    """The elements of some dimensions at their bounds."""
    return dims_.product(capacity(dims[k]) for k in where)
