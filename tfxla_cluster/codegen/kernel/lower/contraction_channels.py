"""Kernels of a contraction with one row of columns a group (depthwise convolution): lanes run over groups.

With few depths (the taps of a window) each lane's sum stays in a register, the taps written out one by one;
with many (the gradient of the window) a row of sums in scratch is added to, depth by depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ....ir import dim as dims_
from ....ir.dim import Dim
from ..contraction import Contraction, Index
from ..contraction_ports import Ports
from ..ir import Var
from ..unit import Unit
from .contraction_loops import inside
from .contraction_walk import minimum
from .space import all_of, delinearize

_TAPS = 49  # up to so many depths are written out
_CHUNK = 64  # groups whose sums lie in scratch


def fits(c: Contraction) -> bool:
    """One column a group, operands that cut the depth alike, and enough groups to fill lanes."""
    alike = c.lhs.depth == c.rhs.depth and c.lhs.free == c.rows
    return alike and dims_.product(c.cols) == 1 and len(c.batch) == 1 and dims_.sample(c.batch[0]) >= 4


def build_channels(c: Contraction) -> Unit:
    """The kernel of `c` in any numeric dtype."""
    taps = dims_.product(c.depth)
    if isinstance(taps, int) and taps <= _TAPS:
        return _written_out(c, taps)
    return _summed(c)


def _written_out(c: Contraction, taps: int) -> Unit:
    """A task computes a line of rows (the innermost row dim), each for every group."""
    p = Ports(c.name)
    b = p.b
    zero = b.index(0)
    prefix = tuple(delinearize(b, b.task, c.rows[:-1]))
    with b.loop(zero, b.size(c.rows[-1])) as x:
        _row_of_taps(p, c, (*prefix, x), taps)
    work = dims_.product((c.batch[0], c.rows[-1], 3 * taps))
    return Unit((p.kernel(dims_.product(c.rows[:-1]), work),))


def _row_of_taps(p: Ports, c: Contraction, m: Index, taps: int) -> None:
    """One row of every group; a row whose taps are all inside skips the tests."""
    b, left, zero = p.b, m, p.b.index(0)
    n = (zero,) * len(c.cols)
    depths = [(_constant(p, tap, c.lhs.depth), _constant(p, tap, c.rhs.depth)) for tap in range(taps)]
    tests = [inside(p, c.lhs, (zero,), left, k) for k, _ in depths]

    def add(total: Var, t: Var, k: Index, right_k: Index) -> Var:
        term = b.op("multiply", c.lhs.value(p, (t,), left, k), c.rhs.value(p, (t,), n, right_k))
        return b.op("add", total, term)

    def add_if(test: Var | None, total: Var, t: Var, k: Index, right_k: Index) -> Var:
        if test is None:
            return add(total, t, k, right_k)
        return b.cond(test, lambda: (add(total, t, k, right_k),), lambda: (total,))[0]

    def row(tested: bool) -> tuple[Var, ...]:
        with b.loop(zero, b.size(c.batch[0]), "vector") as t:
            total = b.const(0, c.dtype)
            for depth, test in zip(depths, tests):
                total = add_if(test if tested else None, total, t, *depth)
            c.finish(p, total, (t,), m, n)
        return ()

    everywhere = all_of(b, tests)
    if everywhere is None:
        row(False)
    else:
        b.cond(everywhere, lambda: row(False), lambda: row(True))


def _constant(p: Ports, flat: int, dims: tuple[Dim, ...]) -> Index:
    """The index at position `flat`, as constants where the dims are numbers."""
    index: list[Var] = []
    for extent in reversed(dims):
        assert isinstance(extent, int)
        index.append(p.b.index(flat % extent))
        flat //= extent
    return tuple(reversed(index))


def _summed(c: Contraction) -> Unit:
    """A task computes one row of a chunk of groups: for each depth a vector loop over the chunk."""
    p = Ports(c.name)
    b = p.b
    zero, groups = b.index(0), c.batch[0]
    counts = (dims_.product(c.rows), dims_.ceil_div(groups, _CHUNK))
    row, part = delinearize(b, b.task, counts)
    left, m = tuple(delinearize(b, row, c.lhs.free)), tuple(delinearize(b, row, c.rows))
    n = (zero,) * len(c.cols)
    sums = b.scratch_buffer(c.dtype, _CHUNK)
    start = b.mul(part, b.index(_CHUNK))
    stop = minimum(b, b.add(start, b.index(_CHUNK)), b.size(groups))

    with b.loop(start, stop, "vector") as t:
        b.store(sums, b.op("subtract", t, start), b.const(0, c.dtype))
    with _nest(p, c.lhs.depth) as k:

        def add() -> tuple[Var, ...]:
            with b.loop(start, stop, "vector") as t:
                place = b.op("subtract", t, start)
                term = b.op("multiply", c.lhs.value(p, (t,), left, k), c.rhs.value(p, (t,), n, k))
                b.store(sums, place, b.op("add", b.load(sums, place), term))
            return ()

        test = inside(p, c.lhs, (zero,), left, k)
        if test is None:
            add()
        else:
            b.cond(test, add, lambda: ())
    with b.loop(start, stop, "vector") as t:
        c.finish(p, b.load(sums, b.op("subtract", t, start)), (t,), m, n)
    return Unit((p.kernel(dims_.product(counts), dims_.product((_CHUNK, 3, *c.depth))),))


@contextmanager
def _nest(p: Ports, dims: tuple[Dim, ...]) -> Iterator[Index]:
    """Loops over all of `dims`, the index inside."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(p.b.loop(p.b.index(0), p.b.size(d))) for d in dims)
