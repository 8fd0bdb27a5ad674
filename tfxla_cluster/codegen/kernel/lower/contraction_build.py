"""Kernels of a floating-point contraction: packed blocks around the block product.

Two steps where several row blocks read the same right operand: `pack` copies it once into panels
([batch][panel][depth][panel width]) of a temporary, `multiply` uses them. Where one row block covers
all rows, the task that multiplies packs its part itself, or reads the operand in place.

Every element's sum runs over depth blocks in order, whatever the tasks: results do not depend on threads.
"""
from __future__ import annotations

from dataclasses import dataclass

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....target import Target
from ..contraction import Contraction, Index, blocks, ceil_div, even_block, tile
from ..contraction_ports import Ports
from .contraction_walk import Span, fill, minimum, segments, subtract
from ..ir import Buffer, Product, Var
from .space import delinearize
from ..unit import Unit, UnitKernel

_PAD = 16  # elements added to a packed row, so that rows do not share cache sets
_DIRECT_ROWS = 96  # up to so many rows the right operand is read in place rather than packed first


@dataclass(frozen=True, slots=True)
class _Plan:
    """Sizes and choices of one contraction. `rhs`: 'shared' (packed by a step of its own), 'local'
    (packed by the task) or 'direct' (read in place)."""

    c: Contraction
    panel: int
    most_rows: int
    most_cols: int
    most_depth: int
    rhs: str
    lhs_direct: bool

    @property
    def extents(self) -> tuple[Dim, Dim, Dim, Dim]:
        """Flat sizes: batch, rows, columns, depth."""
        c = self.c
        return tuple(map(dims_.product, (c.batch, c.rows, c.cols, c.depth)))  # type: ignore[return-value]

    @property
    def panels(self) -> Dim:
        return ceil_div(self.extents[2], self.panel)

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


def build(c: Contraction, target: Target) -> Unit:
    """The kernels of `c`, whose dtype is f32 or f64."""
    plan = _choose(c, target)
    if plan.rhs != "shared":
        return Unit((_multiply(plan),))
    batch, _, _, depth = plan.extents
    elements = dims_.product((batch, plan.panels, depth, plan.panel))
    return Unit((_pack(plan), _multiply(plan)), temps=(dims_.make("mul", elements, c.dtype.itemsize),))


def _choose(c: Contraction, target: Target) -> _Plan:
    most, panel = blocks(c.dtype, target), tile(c.dtype, target).panel
    rows, cols, depth = map(dims_.product, (c.rows, c.cols, c.depth))
    whole = isinstance(cols, int) and cols % panel == 0
    few = isinstance(rows, int) and rows <= _DIRECT_ROWS
    rhs = "shared" if not few else "direct" if c.rhs.plain and c.rhs.major == "free" and whole else "local"
    narrow = isinstance(cols, int) and cols <= 64
    lhs_direct = c.lhs.plain is not None and (narrow or few and c.lhs.major == "depth")
    most_cols = most.cols if rhs == "shared" else most.cols // 2
    return _Plan(c, panel, most.rows, most_cols, most.depth, rhs, lhs_direct)


# --- step 1: the right operand into panels ---
def _pack(plan: _Plan) -> UnitKernel:
    """One task packs one panel over the whole depth."""
    c, (batch, _, cols, depth) = plan.c, plan.extents
    p = Ports(f"{c.name}.pack")
    b = p.b
    temp = p.write("temp", 0, c.dtype)
    g, panel = delinearize(b, b.task, (batch, plan.panels))
    base = b.mul(b.task, b.mul(b.size(depth), b.index(plan.panel)))
    start = b.mul(panel, b.index(plan.panel))
    stop = minimum(b, b.add(start, b.index(plan.panel)), b.size(cols))
    _pack_panel(plan, p, tuple(delinearize(b, g, c.batch)), Span(c.cols, start, stop),
                Span(c.depth, b.index(0), b.size(depth)), temp, base)
    cost = dims_.make("mul", depth, 2 * plan.panel)
    return p.kernel(dims_.make("mul", batch, plan.panels), cost)


def _pack_panel(
    plan: _Plan, p: Ports, g: Index, cols: Span, depth: Span, target: Buffer, base: Var
) -> None:
    """Copy columns `cols` (at most a panel) of depths `depth` to target[base + k * panel + j]; fill up with 0."""
    b, width = p.b, p.b.index(plan.panel)

    def put(j: Var, k: Var, value: Var) -> None:
        b.store(target, b.add(b.add(base, b.mul(k, width)), j), value)

    fill(p, plan.c.rhs, plan.c.dtype, g, cols, depth, put)
    count = _extent(p, cols)
    whole = b.compare(count, width, "EQ")

    def pad() -> tuple[Var, ...]:
        with b.loop(b.index(0), _extent(p, depth)) as k, b.loop(count, width, "vector") as j:
            put(j, k, b.const(0, plan.c.dtype))
        return ()

    b.cond(whole, lambda: (), pad)


def _extent(p: Ports, span: Span) -> Var:
    return subtract(p.b, span.stop, span.start)


# --- step 2: block products ---
def _multiply(plan: _Plan) -> UnitKernel:
    """One task computes a block of rows and columns."""
    c, (batch, rows, cols, depth) = plan.c, plan.extents
    p = Ports(c.name)
    b = p.b
    row_blocks, col_blocks = ceil_div(rows, plan.row_block), ceil_div(cols, plan.col_block)
    g_flat, row_task, col_task = delinearize(b, b.task, (batch, row_blocks, col_blocks))
    g = tuple(delinearize(b, g_flat, c.batch))
    row_span = _block(p, c.rows, row_task, plan.row_block)
    col_span = _block(p, c.cols, col_task, plan.col_block)
    target, target_offset, target_stride = _accumulator(plan, p, g, row_span, col_span)
    packed_a = None if plan.lhs_direct else b.scratch_buffer(c.dtype, _lhs_elements(plan))
    packed_b = b.scratch_buffer(c.dtype, plan.most_cols * plan.most_depth) if plan.rhs == "local" else None
    depth_blocks = dims_.make("max", ceil_div(depth, plan.depth_block), 1)
    with b.loop(b.index(0), b.size(depth_blocks)) as step:
        depth_span = _block(p, c.depth, step, plan.depth_block)
        a = _lhs_block(plan, p, g, row_span, depth_span, packed_a)
        right = _rhs_block(plan, p, g, g_flat, col_span, depth_span, packed_b)
        sizes = (_extent(p, row_span), _extent(p, col_span), _extent(p, depth_span))
        b.product(Product(
            target, target_offset, target_stride, *a, *right, *sizes,
            b.compare(step, b.index(0), "GT"), "row" if c.lhs.major == "depth" else "depth", plan.rhs != "direct", plan.panel))
    if not plan.writes_place:
        _finish(plan, p, g, row_span, col_span, target, target_stride)
    work = dims_.product((plan.row_block, plan.col_block, depth))
    return p.kernel(dims_.product((batch, row_blocks, col_blocks)), work)


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
        return plan.most_rows * (plan.most_depth + _PAD)
    return plan.most_rows * plan.most_depth


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
        return plain.buffer, b.add(plain.offset, b.add(b.mul(first.start, plain.stride), second.start)), plain.stride
    stride = b.index(plan.most_depth + _PAD if by_depth else plan.most_rows)

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
        return plain.buffer, b.add(plain.offset, b.add(b.mul(depth.start, plain.stride), cols.start)), plain.stride
    if packed is None:
        stride = b.mul(b.size(plan.extents[3]), width)
        panel = b.add(b.mul(g_flat, b.size(plan.panels)), b.op("divide", cols.start, width))
        offset = b.add(b.mul(panel, stride), b.mul(depth.start, width))
        return p.read("temp", 0, c.dtype), offset, stride
    stride = b.index(plan.panel * plan.most_depth)
    first = b.op("divide", cols.start, width)
    with b.loop(first, b.op("divide", b.add(cols.stop, b.index(plan.panel - 1)), width)) as j:
        start = b.mul(j, width)
        panel = Span(c.cols, start, minimum(b, b.add(start, width), cols.stop))
        _pack_panel(plan, p, g, panel, depth, packed, b.mul(subtract(b, j, first), stride))
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
