"""Kernels of a contraction as plain loops: integers, complex numbers, vectors.

Where both operands run along the depth, one reduction an element; otherwise a row of sums in scratch
to which each depth adds a multiple of a row of the right operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....ir import dim as dims_
from ....target import Target
from ..contraction import Contraction, Index, Side, blocks
from ..contraction_ports import Ports
from ..ir import Var
from ..unit import Unit
from .contraction_walk import Span, maximum, minimum, segments
from .space import delinearize

_DOT_COLS = 16  # columns a task of reductions computes
_DEPTHS = 4  # depths added to a row of sums in one pass


def build_loops(c: Contraction, target: Target) -> Unit:
    """The kernel of `c` in any numeric dtype; its right operand has an element everywhere."""
    assert c.rhs.valid is None, c.name
    along_depth = c.rhs.major == "depth" and c.lhs.major == "depth" and c.lhs.depth == c.rhs.depth
    width = _DOT_COLS if along_depth else blocks(c.dtype, target).cols
    batch, rows, cols, depth = map(dims_.product, (c.batch, c.rows, c.cols, c.depth))
    p = Ports(c.name)
    b = p.b
    counts = (batch, rows, dims_.ceil_div(cols, width))
    g, row, part = delinearize(b, b.task, counts)
    start = b.mul(part, b.index(width))
    span = Span(c.cols, start, minimum(b, b.add(start, b.index(width)), b.size(cols)))
    (_reductions if along_depth else _sums)(p, c, tuple(delinearize(b, g, c.batch)), row, span, width)
    return Unit((p.kernel(dims_.product(counts), dims_.product((width, depth))),))


def transposed(c: Contraction) -> Contraction:
    """The same result with the operands exchanged, rows for columns."""

    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        c.finish(p, value, g, n, m)

    return replace(c, rows=c.cols, cols=c.rows, lhs=c.rhs, rhs=c.lhs, finish=finish, place=None)


def inside(p: Ports, side: Side, g: Index, free: Index, depth: Index) -> Var | None:
    """Whether a side has an element at an index; None where it always has."""
    if side.valid is None:
        return None
    begin, end = side.valid(p, g, free, depth)
    at = depth[-1] if side.major == "depth" else free[-1]
    return p.b.op("and", p.b.compare(at, begin, "GE"), p.b.compare(at, end, "LT"))


def _reductions(p: Ports, c: Contraction, g: Index, row: Var, cols: Span, width: int) -> None:
    """Each element is a reduction over the innermost depth dim, the outer ones one after the other."""
    b, dims = p.b, c.lhs.depth
    left, m = tuple(delinearize(b, row, c.lhs.free)), tuple(delinearize(b, row, c.rows))

    def element(right: Index) -> Var:
        def step(o: Var, total: Var) -> tuple[Var, ...]:
            prefix, low, high = tuple(delinearize(b, o, dims[:-1])), b.index(0), b.size(dims[-1])
            if c.lhs.valid is not None:
                begin, end = c.lhs.valid(p, g, left, (*prefix, low))
                low, high = maximum(b, begin, low), minimum(b, end, high)

            def value(t: Var) -> tuple[Var, ...]:
                k = (*prefix, t)
                return (b.op("multiply", c.lhs.value(p, g, left, k), c.rhs.value(p, g, right, k)),)

            return b.reduce(low, high, (total,), (0,), value, lambda x, y: (b.op("add", x, y),))

        return b.fold(b.index(0), b.size(dims_.product(dims[:-1])), (b.const(0, c.dtype),), step)[0]

    with b.loop(cols.start, cols.stop) as n:
        right, index = tuple(delinearize(b, n, c.rhs.free)), tuple(delinearize(b, n, c.cols))
        c.finish(p, element(right), g, m, index)


def _sums(p: Ports, c: Contraction, g: Index, row: Var, cols: Span, width: int) -> None:
    """A row of sums, to which each depth adds."""
    b = p.b
    left, m = tuple(delinearize(b, row, c.lhs.free)), tuple(delinearize(b, row, c.rows))
    sums = b.scratch_buffer(c.dtype, width)

    def walk(span: Span, visit: Callable[[Index, Var], None]) -> None:
        def segment(prefix: Index, low: Var, high: Var, base: Var) -> None:
            with b.loop(low, high, "vector") as t:
                visit((*prefix, t), b.add(base, t))

        segments(b, span, segment)

    walk(cols, lambda n, place: b.store(sums, place, b.const(0, c.dtype)))

    def add(depths: Sequence[Var]) -> tuple[Var, ...]:
        """Depths that all have an element, in one pass over the row."""
        ks = [(tuple(delinearize(b, f, c.lhs.depth)), tuple(delinearize(b, f, c.rhs.depth))) for f in depths]
        factors = [c.lhs.value(p, g, left, k) for k, _ in ks]

        def element(n: Index, place: Var) -> None:
            total = b.load(sums, place)
            for factor, (_, k) in zip(factors, ks):
                total = b.op("add", total, b.op("multiply", factor, c.rhs.value(p, g, n, k)))
            b.store(sums, place, total)

        walk(replace(cols, dims=c.rhs.free), element)
        return ()

    depth, first = dims_.product(c.depth), b.index(0)
    if c.lhs.valid is None:
        groups = dims_.make("floordiv", depth, _DEPTHS)
        with b.loop(first, b.size(groups)) as group:
            add([b.add(b.mul(group, b.index(_DEPTHS)), b.index(r)) for r in range(_DEPTHS)])
        first = b.size(dims_.make("mul", groups, _DEPTHS))
    with b.loop(first, b.size(depth)) as flat:
        test = inside(p, c.lhs, g, left, tuple(delinearize(b, flat, c.lhs.depth)))
        if test is None:
            add([flat])
        else:
            b.cond(test, lambda: add([flat]), lambda: ())
    walk(cols, lambda n, place: c.finish(p, b.load(sums, place), g, m, n))
