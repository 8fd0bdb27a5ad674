"""Kernels of a floating-point contraction: packed blocks around the block product.

Two steps where several row blocks read the same right operand: `pack` copies it once into panels
([batch][panel][depth][panel width]) of a temporary, `multiply` uses them. Where one row block covers
all rows, the task that multiplies packs its part itself, or the product reads the operand in place.

Every element's sum runs over depth blocks in order, whatever the tasks: results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....target import Target
from ..choice import Knobs
from ..contraction import Contraction, Index, blocks, even_block, tile
from ..contraction_ports import Ports
from ..ir import Buffer, Product, Var
from ..unit import Unit, UnitKernel
from .contraction_walk import Span, fill, minimum, segments, subtract
from .space import delinearize

_PAD = 16  # elements added to a packed row, so that rows do not share cache sets
_GROUP, _PACK_DEPTH = 4, 128  # panels and depth that a packing task copies
_TASK_ROWS = 256  # up to so many rows a task takes all, and reads or packs the right operand itself
_ROWS = (24, 48, 72, 144, 288)  # of a task, that tuning tries
_PANELS = (1, 2, 4, 8, 16, 32)  # of a task, that tuning tries
_TASKS = 2  # blocks shrink until there are so many tasks a core


@dataclass(frozen=True, slots=True)
class _Plan:
    """Sizes and choices of one contraction. `rhs`: 'shared' (packed by a step of its own), 'local'
    (packed by the task) or 'direct' (read in place)."""

    c: Contraction
    panel: int
    most_rows: int
    most_cols: int
    most_depth: int
    sub_rows: int
    rhs: str
    lhs_direct: bool

    @property
    def extents(self) -> tuple[Dim, Dim, Dim, Dim]:
        """Flat sizes: batch, rows, columns, depth."""
        c = self.c
        batch, rows, cols, depth = map(dims_.product, (c.batch, c.rows, c.cols, c.depth))
        return batch, rows, cols, depth

    @property
    def panels(self) -> Dim:
        return dims_.ceil_div(self.extents[2], self.panel)

    @property
    def row_block(self) -> Dim:
        return even_block(self.extents[1], self.most_rows, 2)

    @property
    def col_block(self) -> Dim:
        return even_block(self.extents[2], self.most_cols, self.panel)

    @property
    def depth_block(self) -> Dim:
        return even_block(self.extents[3], self.most_depth, 8)

    @property
    def writes_place(self) -> bool:
        """The product may write the result itself: no epilogue, whole panels."""
        cols = self.extents[2]
        return self.c.place is not None and isinstance(cols, int) and cols % self.panel == 0


def build(c: Contraction, target: Target, knobs: Knobs) -> Unit:
    """The kernels of `c`, whose dtype is f32 or f64."""
    plan = _choose(c, target, knobs)
    if plan.rhs != "shared":
        return Unit((_multiply(plan),))
    batch, _, _, depth = plan.extents
    elements = dims_.product((batch, plan.panels, depth, plan.panel))
    return Unit((_pack(plan), _multiply(plan)), temps=(dims_.make("mul", elements, c.dtype.itemsize),))


def _choose(c: Contraction, target: Target, knobs: Knobs) -> _Plan:
    """Choices by sizes (the traced ones where a dim varies: they cost speed only when sizes differ). Knobs 'rows' and
    'cols': the largest block of a task. They change no sum."""
    most, panel = blocks(c.dtype, target), tile(c.dtype, target).panel
    batch, rows, cols = (dims_.sample(dims_.product(d)) for d in (c.batch, c.rows, c.cols))
    static_cols = dims_.product(c.cols)
    whole = isinstance(static_cols, int) and static_cols % panel == 0
    place = c.place is not None and whole
    # Twelve rows of a power-of-two stride do not fit into the ways of L1; six do.
    rows_fit = target.vector_bits <= 256 or cols <= 2 * panel
    lhs_direct = c.lhs.plain is not None and (
        (c.lhs.major == "depth" and rows_fit) or (c.lhs.major == "free" and (cols <= 2 * panel or rows <= 64))
    )
    in_place = c.rhs.plain is not None and c.rhs.major == "free" and whole
    task_rows = 2 * _TASK_ROWS if in_place and place and lhs_direct else _TASK_ROWS
    rhs = "shared" if rows > task_rows else "direct" if in_place else "local"
    most_rows = most.rows if rhs == "shared" else task_rows
    if rhs == "shared":
        # The left block is packed once for all columns of a task: more of them, where there are rows enough.
        wide = place and not lhs_direct and batch * -(-rows // most_rows) >= _TASKS * target.cores
        most_cols = 4 * most.cols if wide else most.cols
    elif rhs == "direct":
        most_cols = most.cols if place else most.cols // 2
    else:
        most_cols = most.cols if cols <= most.cols else most.cols // 4
    tasks = _TASKS * target.cores
    while rhs == "shared" and most_rows > 24 and batch * -(-cols // most_cols) * -(-rows // most_rows) < tasks:
        most_rows //= 2
    while rhs != "shared" and most_cols > 2 * panel and batch * -(-cols // most_cols) < tasks:
        most_cols //= 2
    if rhs == "shared":
        most_rows = knobs.take("rows", most_rows, [n for n in _ROWS if n < rows + _ROWS[0]])
    most_cols = knobs.take("cols", most_cols, [n * panel for n in _PANELS if n * panel < cols + panel])
    sub_rows = most_rows if rhs == "direct" and lhs_direct else min(most.rows, most_rows)
    return _Plan(c, panel, most_rows, most_cols, most.depth, sub_rows, rhs, lhs_direct)


# --- step 1: the right operand into panels ---
def _pack(plan: _Plan) -> UnitKernel:
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
    return p.kernel(dims_.product(counts), 2 * width * _PACK_DEPTH)


def _pack_panels(
    plan: _Plan, p: Ports, g: Index, cols: Span, depth: Span, target: Buffer, base: Var, stride: Var
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
    plan: _Plan, p: Ports, cols: Span, depth: Span, target: Buffer, panel: Callable[[], tuple[Span, Var]]
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
def _multiply(plan: _Plan) -> UnitKernel:
    """One task computes a block of rows and columns."""
    c, (batch, rows, cols, depth) = plan.c, plan.extents
    p = Ports(c.name)
    b = p.b
    row_blocks, col_blocks = dims_.ceil_div(rows, plan.row_block), dims_.ceil_div(cols, plan.col_block)
    g_flat, row_task, col_task = delinearize(b, b.task, (batch, row_blocks, col_blocks))
    g = tuple(delinearize(b, g_flat, c.batch))
    row_span = _block(p, c.rows, row_task, plan.row_block)
    col_span = _block(p, c.cols, col_task, plan.col_block)
    rhs_cols = replace(col_span, dims=c.rhs.free)
    target, target_offset, target_stride = _accumulator(plan, p, g, row_span, col_span)
    packed_a = None if plan.lhs_direct else b.scratch_buffer(c.dtype, _lhs_elements(plan))
    packed_b = b.scratch_buffer(c.dtype, plan.most_cols * plan.most_depth) if plan.rhs == "local" else None
    depth_blocks = dims_.make("max", dims_.ceil_div(depth, plan.depth_block), 1)
    with b.loop(b.index(0), b.size(depth_blocks)) as step:
        depth_span = _block(p, c.depth, step, plan.depth_block)
        lhs_depth, rhs_depth = replace(depth_span, dims=c.lhs.depth), replace(depth_span, dims=c.rhs.depth)
        right = _rhs_block(plan, p, g, g_flat, rhs_cols, rhs_depth, packed_b)
        for lhs_rows in _sub_blocks(plan, p, row_span):
            a = _lhs_block(plan, p, g, lhs_rows, lhs_depth, packed_a)
            sizes = (_extent(p, lhs_rows), _extent(p, col_span), _extent(p, depth_span))
            skip = b.mul(subtract(b, lhs_rows.start, row_span.start), target_stride)
            b.product(
                Product(
                    target,
                    b.add(target_offset, skip),
                    target_stride,
                    *a,
                    *right,
                    *sizes,
                    b.compare(step, b.index(0), "GT"),
                    a_major="row" if c.lhs.major == "depth" else "depth",
                    packed=plan.rhs != "direct",
                    panel=plan.panel,
                )
            )
    if not plan.writes_place:
        _finish(plan, p, g, row_span, col_span, target, target_stride)
    work = dims_.product((plan.row_block, plan.col_block, depth))
    return p.kernel(dims_.product((batch, row_blocks, col_blocks)), work)


def _sub_blocks(plan: _Plan, p: Ports, rows: Span) -> Iterator[Span]:
    """The rows of a task in blocks whose left operand stays in L2: yields once, inside their loop."""
    b = p.b
    block = even_block(plan.row_block, plan.sub_rows, 2)
    with b.loop(b.index(0), b.size(dims_.ceil_div(plan.row_block, block))) as number:
        start = minimum(b, b.add(rows.start, b.mul(number, b.size(block))), rows.stop)
        yield Span(plan.c.lhs.free, start, minimum(b, b.add(start, b.size(block)), rows.stop))


def _block(p: Ports, dims: tuple[Dim, ...], number: Var, block: Dim) -> Span:
    """Block `number` of the flat index of `dims`."""
    b = p.b
    start = b.mul(number, b.size(block))
    return Span(dims, start, minimum(b, b.add(start, b.size(block)), b.size(dims_.product(dims))))


def _accumulator(plan: _Plan, p: Ports, g: Index, rows: Span, cols: Span) -> tuple[Buffer, Var, Var]:
    """Where the product accumulates: the result itself, or a scratch block."""
    b = p.b
    if plan.writes_place:
        assert plan.c.place is not None
        buffer, offset = plan.c.place(p, g)
        stride = b.size(plan.extents[2])
        return buffer, b.add(offset, b.add(b.mul(rows.start, stride), cols.start)), stride
    buffer = b.scratch_buffer(plan.c.dtype, plan.most_rows * (plan.most_cols + _PAD))
    return buffer, b.index(0), b.index(plan.most_cols + _PAD)


def _lhs_elements(plan: _Plan) -> int:
    if plan.c.lhs.major == "depth":
        return plan.sub_rows * (plan.most_depth + _PAD)
    return plan.sub_rows * plan.most_depth


def _lhs_block(
    plan: _Plan, p: Ports, g: Index, rows: Span, depth: Span, packed: Buffer | None
) -> tuple[Buffer, Var, Var]:
    """(buffer, offset, stride) of the left block: in place, or copied to scratch in its own order."""
    b, side = p.b, plan.c.lhs
    by_depth = side.major == "depth"
    if packed is None:
        assert side.plain is not None
        plain = side.plain(p, g)
        first, second = (rows, depth) if by_depth else (depth, rows)
        return plain.buffer, plain.at(b, first.start, second.start), plain.stride
    stride = b.index(plan.most_depth + _PAD if by_depth else plan.sub_rows)

    def put(i: Var, k: Var, value: Var) -> None:
        first, second = (i, k) if by_depth else (k, i)
        b.store(packed, b.add(b.mul(first, stride), second), value)

    fill(p, side, plan.c.dtype, g, rows, depth, put)
    return packed, b.index(0), stride


def _rhs_block(
    plan: _Plan, p: Ports, g: Index, g_flat: Var, cols: Span, depth: Span, packed: Buffer | None
) -> tuple[Buffer, Var, Var]:
    """(buffer, offset, stride) of the right block."""
    b, c = p.b, plan.c
    width = b.index(plan.panel)
    if plan.rhs == "direct":
        assert c.rhs.plain is not None
        plain = c.rhs.plain(p, g)
        return plain.buffer, plain.at(b, depth.start, cols.start), plain.stride
    if packed is None:
        stride = b.mul(b.size(plan.extents[3]), width)
        panel = b.add(b.mul(g_flat, b.size(plan.panels)), b.quotient(cols.start, width))
        offset = b.add(b.mul(panel, stride), b.mul(depth.start, width))
        return p.read("temp", 0, c.dtype), offset, stride
    stride = b.index(plan.panel * plan.most_depth)
    # The panels of the block begin at offset 0 of the scratch.
    first = b.op("add", b.mul(b.quotient(cols.start, width), stride), b.mul(depth.start, width))
    _pack_panels(plan, p, g, cols, depth, packed, subtract(b, b.index(0), first), stride)
    return packed, b.index(0), stride


def _finish(plan: _Plan, p: Ports, g: Index, rows: Span, cols: Span, sums: Buffer, stride: Var) -> None:
    """Run the epilogue over the block of sums."""
    b, c = p.b, plan.c
    with b.loop(rows.start, rows.stop) as flat:
        m, row = tuple(delinearize(b, flat, c.rows)), b.mul(subtract(b, flat, rows.start), stride)

        def segment(prefix: Index, low: Var, high: Var, base: Var) -> None:
            with b.loop(low, high, "vector") as t:
                c.finish(p, b.load(sums, b.add(b.add(row, base), t)), g, m, (*prefix, t))

        segments(b, cols, segment)
