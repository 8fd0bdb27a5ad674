"""Kernels of a contraction as plain loops: integers, complex numbers, vectors.

Where both operands run along the depth, one reduction an element; otherwise a row of sums in scratch
to which each depth adds a multiple of a row of the right operand.
"""
from __future__ import annotations

from ....ir import dim as dims_
from ....target import Target
from ..contraction import Contraction, Index, blocks, ceil_div
from ..contraction_ports import Ports
from ..ir import Var
from ..unit import Unit
from .contraction_walk import Span, maximum, minimum, segments
from .space import delinearize

_DOT_COLS = 16  # columns a task of reductions computes


def build_loops(c: Contraction, target: Target) -> Unit:
    """The kernel of `c` in any numeric dtype."""
    along_depth = c.rhs.major == "depth" and c.lhs.major == "depth" and c.rhs.valid is None
    width = _DOT_COLS if along_depth else blocks(c.dtype, target).cols
    batch, rows, cols, depth = map(dims_.product, (c.batch, c.rows, c.cols, c.depth))
    p = Ports(c.name)
    b = p.b
    g, row, part = delinearize(b, b.task, (batch, rows, ceil_div(cols, width)))
    index = tuple(delinearize(b, g, c.batch)), tuple(delinearize(b, row, c.rows))
    start = b.mul(part, b.index(width))
    span = Span(c.cols, start, minimum(b, b.add(start, b.index(width)), b.size(cols)))
    (_reductions if along_depth else _sums)(p, c, *index, span, width)
    work = dims_.product((width, depth))
    return Unit((p.kernel(dims_.product((batch, rows, ceil_div(cols, width))), work),))


def _reductions(p: Ports, c: Contraction, g: Index, m: Index, cols: Span, width: int) -> None:
    """Each element is a reduction over the innermost depth dim, the outer ones one after the other."""
    b = p.b
    outer = dims_.product(c.depth[:-1])

    def element(n: Index) -> Var:
        def step(o: Var, total: Var) -> tuple[Var, ...]:
            prefix, low, high = tuple(delinearize(b, o, c.depth[:-1])), b.index(0), b.size(c.depth[-1])
            if c.lhs.valid is not None:
                begin, end = c.lhs.valid(p, g, m, (*prefix, low))
                low, high = maximum(b, begin, low), minimum(b, end, high)
            return b.reduce(
                low, high, (total,), (0,),
                lambda t: (_product(p, c, g, m, (*prefix, t), n),),
                lambda x, y: (b.op("add", x, y),))

        return b.fold(b.index(0), b.size(outer), (b.const(0, c.dtype),), step)[0]

    def segment(prefix: Index, low: Var, high: Var, base: Var) -> None:
        with b.loop(low, high) as t:
            c.finish(p, element((*prefix, t)), g, m, (*prefix, t))

    segments(b, cols, segment)


def _product(p: Ports, c: Contraction, g: Index, m: Index, k: Index, n: Index) -> Var:
    return p.b.op("multiply", c.lhs.value(p, g, m, k), c.rhs.value(p, g, n, k))


def _sums(p: Ports, c: Contraction, g: Index, m: Index, cols: Span, width: int) -> None:
    """A row of sums, to which each depth adds."""
    b = p.b
    sums = b.scratch_buffer(c.dtype, width)

    def zero(prefix: Index, t: Var, place: Var) -> None:
        b.store(sums, place, b.const(0, c.dtype))

    def finish(prefix: Index, t: Var, place: Var) -> None:
        c.finish(p, b.load(sums, place), g, m, (*prefix, t))

    def walk(visit: object) -> None:
        def segment(prefix: Index, low: Var, high: Var, base: Var) -> None:
            with b.loop(low, high, "vector") as t:
                visit(prefix, t, b.add(base, t))  # type: ignore[operator]

        segments(b, cols, segment)

    walk(zero)
    with b.loop(b.index(0), b.size(dims_.product(c.depth))) as flat:
        k = tuple(delinearize(b, flat, c.depth))

        def add() -> tuple[Var, ...]:
            factor = c.lhs.value(p, g, m, k)
            walk(lambda prefix, t, place: b.store(sums, place, b.op("add", b.load(sums, place), b.op(
                "multiply", factor, c.rhs.value(p, g, (*prefix, t), k)))))
            return ()

        if c.lhs.valid is None:
            add()
        else:
            begin, end = c.lhs.valid(p, g, m, k)
            at = k[-1] if c.lhs.major == "depth" else m[-1]
            inside = b.op("and", b.compare(at, begin, "GE"), b.compare(at, end, "LT"))
            b.cond(inside, add, lambda: ())
    walk(finish)


def transposed(c: Contraction) -> Contraction:
    """The same result with the operands exchanged, rows for columns."""
    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        c.finish(p, value, g, n, m)

    return Contraction(
        c.name, c.dtype, c.batch, c.cols, c.rows, c.depth, c.rhs, c.lhs, finish)
