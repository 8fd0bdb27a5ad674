"""Kernels of a floating-point contraction: packed blocks around the block product.

Two steps where several row blocks read the same right operand: `pack` copies it once into panels
([batch][panel][depth][panel width]) of a temporary, `multiply` uses them. Where one row block covers
all rows, the task that multiplies packs its part itself, or the product reads the operand in place.

Which of these, and how large the blocks are, follows from the sizes when the kernels run (`contraction_plan`).
Every element's sum runs over depth blocks in order, whatever the tasks: results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....target import Target
from ..builder import KernelBuilder
from ..choice import Knobs
from ..contraction import Contraction, Index
from ..contraction_ports import Ports
from ..ir import Buffer, Product, Var
from ..unit import Unit, UnitKernel
from .contraction_plan import Plan, block_size, plan
from .contraction_walk import Span, either, fill, minimum, segments, subtract
from .space import delinearize

_PAD = 16  # elements added to a packed row, so that rows do not share cache sets
_GROUP, _PACK_DEPTH = 4, 128  # panels and depth that a packing task copies


def build(c: Contraction, target: Target, knobs: Knobs) -> Unit:
    """The kernels of `c`, whose dtype is f32 or f64."""
    made = plan(c, target, knobs)
    if made.shared == 0:
        return Unit((_multiply(made),))
    batch, _, _, depth = made.extents
    elements = dims_.product((made.shared, batch, made.panels, depth, made.panel))
    return Unit((_pack(made), _multiply(made)), temps=(dims_.make("mul", elements, c.dtype.itemsize),))


# --- step 1: the right operand into panels ---
def _pack(plan: Plan) -> UnitKernel:
    """One task packs some panels over a block of the depth."""
    c, (batch, _, cols, depth) = plan.c, plan.extents
    p = Ports(f"{c.name}.pack")
    b = p.b
    temp = p.write("temp", 0, c.dtype)
    width = _GROUP * plan.panel
    counts = (batch, dims_.ceil_div(cols, width), dims_.ceil_div(depth, _PACK_DEPTH))
    g, group, part = delinearize(b, b.task, counts)
    stride = b.mul(b.size(depth), b.index(plan.panel))
    base = b.mul(b.mul(g, b.size(plan.panels)), stride)
    col_span = _block(p, c.rhs.free, group, width)
    depth_span = _block(p, c.rhs.depth, part, _PACK_DEPTH)
    _pack_panels(plan, p, tuple(delinearize(b, g, c.batch)), col_span, depth_span, temp, base, stride)
    return p.kernel(dims_.product((plan.shared, *counts)), 2 * width * _PACK_DEPTH)


def _pack_panels(
    plan: Plan, p: Ports, g: Index, cols: Span, depth: Span, target: Buffer, base: Var, stride: Var
) -> None:
    """Copy columns `cols` (whole panels from a panel's start on) of depths `depth` to
    target[base + (j // width) * stride + k * width + j % width]; zeros fill the last panel."""
    b, side, width = p.b, plan.c.rhs, p.b.index(plan.panel)
    first = b.quotient(cols.start, width)
    last = b.quotient(b.add(cols.stop, b.index(plan.panel - 1)), width)

    def panel(j: Var) -> tuple[Span, Var]:
        start = b.mul(j, width)
        span = Span(cols.dims, start, minimum(b, b.add(start, width), cols.stop))
        return span, b.add(base, b.mul(j, stride))

    if side.major == "free":
        with b.loop(depth.start, depth.stop) as k:
            index = tuple(delinearize(b, k, depth.dims))
            with b.loop(first, last) as j:
                span, start = panel(j)
                place = b.add(start, b.mul(k, width))

                def row(prefix: Index, low: Var, high: Var, offset: Var) -> None:
                    with b.loop(low, high, "vector") as t:
                        b.store(target, b.add(b.add(place, offset), t), side.value(p, g, (*prefix, t), index))

                segments(b, span, row)
    else:
        with b.loop(first, last) as j:
            span, start = panel(j)

            def put(i: Var, k: Var, value: Var) -> None:
                b.store(target, b.add(start, b.add(b.mul(b.add(depth.start, k), width), i)), value)

            fill(p, side, plan.c.dtype, g, span, depth, put)
    _pad_panel(plan, p, cols, depth, target, lambda: panel(b.op("subtract", last, b.index(1))))


def _pad_panel(
    plan: Plan, p: Ports, cols: Span, depth: Span, target: Buffer, panel: Callable[[], tuple[Span, Var]]
) -> None:
    """Zeros in the columns of the last panel that lie past the operand."""
    b, width = p.b, p.b.index(plan.panel)

    def pad() -> tuple[Var, ...]:
        span, start = panel()
        with b.loop(depth.start, depth.stop) as k, b.loop(_extent(p, span), width, "vector") as i:
            b.store(target, b.add(start, b.add(b.mul(k, width), i)), b.const(0, plan.c.dtype))
        return ()

    b.cond(b.compare(b.remainder(cols.stop, width), b.index(0), "EQ"), lambda: (), pad)


def _extent(p: Ports, span: Span) -> Var:
    return subtract(p.b, span.stop, span.start)


# --- step 2: block products ---
_Matrix = tuple[Buffer, Var, Var]  # buffer, offset, stride


def _multiply(plan: Plan) -> UnitKernel:
    """One task computes a block of rows and columns."""
    c, (batch, rows, cols, depth) = plan.c, plan.extents
    p = Ports(c.name)
    b = p.b
    g_flat, row_task, col_task = delinearize(b, b.task, (batch, plan.row_count, plan.col_count))
    g = tuple(delinearize(b, g_flat, c.batch))
    row_block, depth_count = _block_size(b, rows, plan.row_count, 2), _count(b, depth, plan.most_depth)
    depth_block = _block_size(b, depth, depth_count, 8)
    row_span = _block(p, c.rows, row_task, row_block)
    col_span = _block(p, c.cols, col_task, _block_size(b, cols, plan.col_count, plan.panel))
    sums, offset, stride = _accumulator(plan, p, g, row_span, col_span)
    left, right = _Left(plan, p, g), _Right(plan, p, g, g_flat, replace(col_span, dims=c.rhs.free))
    with b.loop(b.index(0), _steps(plan, p, depth_count, row_span, col_span)) as step:
        depth_span = _block(p, c.depth, step, depth_block)
        right.pack(depth_span)
        for lhs_rows in _sub_blocks(plan, p, row_span, row_block):
            left.pack(lhs_rows, depth_span)
            skip = b.mul(subtract(b, lhs_rows.start, row_span.start), stride)
            target = (sums, b.add(offset, skip), stride)
            spans = (lhs_rows, col_span, depth_span)
            _products(plan, p, target, left, right, spans, b.compare(step, b.index(0), "GT"))
    if not plan.writes_place:
        _finish(plan, p, g, row_span, col_span, sums, stride)
    tasks = dims_.product((plan.row_count, plan.col_count))
    work = dims_.make("floordiv", dims_.product((rows, cols, depth)), tasks)
    return p.kernel(dims_.make("mul", batch, tasks), work)


def _steps(plan: Plan, p: Ports, count: int | Var, rows: Span, cols: Span) -> Var:
    """Steps over the depth: none in an empty block."""
    b, steps = p.b, _known(p.b, count)
    if isinstance(plan.row_count, int) and isinstance(plan.col_count, int):
        return steps
    some = b.op("and", *(b.compare(span.start, span.stop, "LT") for span in (rows, cols)))
    return b.op("select", some, steps, b.index(0), dtype=steps.dtype)


def _products(
    plan: Plan, p: Ports, target: _Matrix, left: _Left, right: _Right, spans: tuple[Span, Span, Span], resumes: Var
) -> None:
    """The product of a block of rows, columns and depths, from where its operands are."""
    b, (rows, cols, depth) = p.b, spans
    major = "row" if plan.c.lhs.major == "depth" else "depth"

    def product(lhs: _Matrix, rhs: _Matrix, packed: bool) -> None:
        sizes = (_extent(p, rows), _extent(p, cols), _extent(p, depth))
        b.product(Product(*target, *lhs, *rhs, *sizes, resumes, a_major=major, packed=packed, panel=plan.panel))

    def with_left(lhs: _Matrix) -> None:
        either(
            b,
            plan.shared,
            lambda: product(lhs, right.shared(depth), True),
            lambda: product(lhs, right.own(depth), not plan.in_place),
        )

    either(b, plan.packs_lhs, lambda: with_left(left.packed()), lambda: with_left(left.direct(rows, depth)))


def _sub_blocks(plan: Plan, p: Ports, rows: Span, row_block: int | Var) -> Iterator[Span]:
    """The rows of a task in blocks whose left operand stays in L2, all where it is read in place: yields once, inside
    their loop."""
    b, count = p.b, _count(p.b, row_block, plan.sub_rows) if plan.packs_lhs != 0 else 1
    if not isinstance(plan.packs_lhs, int):
        packs, several = b.compare(b.size(plan.packs_lhs), b.index(0), "NE"), _known(b, count)
        count = b.op("select", packs, several, b.index(1), dtype=several.dtype)
    block = _block_size(b, row_block, count, 2)
    with b.loop(b.index(0), _known(b, count)) as number:
        yield _part(p, Span(plan.c.lhs.free, rows.start, rows.stop), number, block)


def _block(p: Ports, dims: tuple[Dim, ...], number: Var, block: int | Var) -> Span:
    """Block `number` of the flat index of `dims`."""
    return _part(p, Span(dims, p.b.index(0), p.b.size(dims_.product(dims))), number, block)


def _part(p: Ports, span: Span, number: Var, block: int | Var) -> Span:
    """Block `number` of a span."""
    b, size = p.b, _known(p.b, block)
    start = minimum(b, b.add(span.start, b.mul(number, size)), span.stop)
    return Span(span.dims, start, minimum(b, b.add(start, size), span.stop))


# --- sizes of blocks: numbers where they are known, otherwise found when the kernel runs ---
def _block_size(b: KernelBuilder, extent: Dim | Var, count: Dim | Var, unit: int) -> int | Var:
    """As `block_size`."""
    if isinstance(extent, int) and isinstance(count, int):
        return block_size(extent, count, unit)
    width, one = b.mul(_known(b, count), b.index(unit)), b.index(1)
    blocks = b.quotient(b.op("subtract", b.add(_known(b, extent), width), one), width)
    return b.mul(b.op("maximum", blocks, one), b.index(unit))


def _count(b: KernelBuilder, extent: Dim | Var, most: int) -> int | Var:
    """The fewest blocks of at most `most`, at least one."""
    if isinstance(extent, int):
        return max(-(-extent // most), 1)
    blocks = b.quotient(b.add(_known(b, extent), b.index(most - 1)), b.index(most))
    return b.op("maximum", blocks, b.index(1))


def _known(b: KernelBuilder, number: Dim | Var) -> Var:
    return number if isinstance(number, Var) else b.size(number)


def _accumulator(plan: Plan, p: Ports, g: Index, rows: Span, cols: Span) -> tuple[Buffer, Var, Var]:
    """Where the product accumulates: the result itself, or a scratch block."""
    b = p.b
    if plan.writes_place:
        assert plan.c.place is not None
        buffer, offset = plan.c.place(p, g)
        stride = b.size(plan.extents[2])
        return buffer, b.add(offset, b.add(b.mul(rows.start, stride), cols.start)), stride
    buffer = b.scratch_buffer(plan.c.dtype, plan.most_rows * (plan.most_cols + _PAD))
    return buffer, b.index(0), b.index(plan.most_cols + _PAD)


class _Left:
    """The left block: in place, or copied to scratch in its own order."""

    def __init__(self, plan: Plan, p: Ports, g: Index) -> None:
        self._plan, self._p, self._g, self._side = plan, p, g, plan.c.lhs
        self._by_depth = self._side.major == "depth"
        width = plan.most_depth + _PAD if self._by_depth else plan.most_depth
        copies = plan.packs_lhs != 0
        self._scratch = p.b.scratch_buffer(plan.c.dtype, plan.sub_rows * width) if copies else None
        self._stride = p.b.index(width if self._by_depth else plan.sub_rows)

    def pack(self, rows: Span, depth: Span) -> None:
        """The copy, where there is one."""
        p, b, scratch = self._p, self._p.b, self._scratch
        if scratch is None:
            return

        def put(i: Var, k: Var, value: Var) -> None:
            first, second = (i, k) if self._by_depth else (k, i)
            b.store(scratch, b.add(b.mul(first, self._stride), second), value)

        lhs_depth = replace(depth, dims=self._side.depth)
        either(
            b,
            self._plan.packs_lhs,
            lambda: fill(p, self._side, self._plan.c.dtype, self._g, rows, lhs_depth, put),
            lambda: None,
        )

    def packed(self) -> _Matrix:
        assert self._scratch is not None
        return self._scratch, self._p.b.index(0), self._stride

    def direct(self, rows: Span, depth: Span) -> _Matrix:
        assert self._side.plain is not None
        plain = self._side.plain(self._p, self._g)
        first, second = (rows, depth) if self._by_depth else (depth, rows)
        return plain.buffer, plain.at(self._p.b, first.start, second.start), plain.stride


class _Right:
    """The right block of the columns `cols`: as the first step packed it, packed by the task, or in place."""

    def __init__(self, plan: Plan, p: Ports, g: Index, g_flat: Var, cols: Span) -> None:
        self._plan, self._p, self._g, self._g_flat, self._cols = plan, p, g, g_flat, cols
        copies = plan.shared != 1 and not plan.in_place
        elements = plan.most_cols * plan.most_depth
        self._scratch = p.b.scratch_buffer(plan.c.dtype, elements) if copies else None
        self._stride = p.b.index(plan.panel * plan.most_depth)

    def pack(self, depth: Span) -> None:
        """The task's own copy, where there is one."""
        p, b, scratch = self._p, self._p.b, self._scratch
        if scratch is None:
            return
        depth = replace(depth, dims=self._plan.c.rhs.depth)

        def copy() -> None:
            # The panels of the block begin at offset 0 of the scratch.
            width = b.index(self._plan.panel)
            first = b.op("add", b.mul(b.quotient(self._cols.start, width), self._stride), b.mul(depth.start, width))
            base = subtract(b, b.index(0), first)
            _pack_panels(self._plan, p, self._g, self._cols, depth, scratch, base, self._stride)

        either(b, self._plan.shared, lambda: None, copy)

    def shared(self, depth: Span) -> _Matrix:
        plan, b = self._plan, self._p.b
        width = b.index(plan.panel)
        stride = b.mul(b.size(plan.extents[3]), width)
        panel = b.add(b.mul(self._g_flat, b.size(plan.panels)), b.quotient(self._cols.start, width))
        offset = b.add(b.mul(panel, stride), b.mul(depth.start, width))
        return self._p.read("temp", 0, plan.c.dtype), offset, stride

    def own(self, depth: Span) -> _Matrix:
        if self._scratch is not None:
            return self._scratch, self._p.b.index(0), self._stride
        side = self._plan.c.rhs
        assert side.plain is not None
        plain = side.plain(self._p, self._g)
        return plain.buffer, plain.at(self._p.b, depth.start, self._cols.start), plain.stride


def _finish(plan: Plan, p: Ports, g: Index, rows: Span, cols: Span, sums: Buffer, stride: Var) -> None:
    """Run the epilogue over the block of sums."""
    b, c = p.b, plan.c
    with b.loop(rows.start, rows.stop) as flat:
        m, row = tuple(delinearize(b, flat, c.rows)), b.mul(subtract(b, flat, rows.start), stride)

        def segment(prefix: Index, low: Var, high: Var, base: Var) -> None:
            with b.loop(low, high, "vector") as t:
                c.finish(p, b.load(sums, b.add(b.add(row, base), t)), g, m, (*prefix, t))

        segments(b, cols, segment)
