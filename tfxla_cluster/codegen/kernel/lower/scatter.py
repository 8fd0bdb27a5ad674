"""scatter: windows of updates combined into a copy of the operands, in order of the indices."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import S64
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .inline import inline
from .space import all_of, delinearize, linearize

LANE_BLOCK = 64  # Elements of the last window dimension that one task takes.
ROW_BLOCKS = 8  # Tasks that share the rows of the operand; each looks at all indices.
LONG_ROW = 32  # Elements of a window from which looking at an index is little work.


class Form:
    """The dimension numbers of a scatter, sorted into what each update dimension stands for."""

    def __init__(self, instr: Instr) -> None:
        self.count = (len(instr.operands) - 1) // 2
        self.operands = instr.operands[: self.count]
        self.indices = instr.operands[self.count]
        self.updates = instr.operands[self.count + 1 :]
        attrs = instr.attrs
        self.update_dims = self.updates[0].shape.dims
        self.window_dims: tuple[int, ...] = tuple(attrs.get("update_window_dims", ()))
        self.scatter_dims = [d for d in range(len(self.update_dims)) if d not in self.window_dims]
        inserted = set(attrs.get("inserted_window_dims", ())) | set(attrs.get("input_batching_dims", ()))
        self.rank = self.operands[0].shape.rank
        # Operand dimension of each update window dimension, in order.
        self.window_to_operand = [d for d in range(self.rank) if d not in inserted]
        self.vector_dim = int(attrs["index_vector_dim"])
        self.to_operand: tuple[int, ...] = tuple(attrs.get("scatter_dims_to_operand_dims", ()))
        self.batching = list(zip(attrs.get("input_batching_dims", ()), attrs.get("scatter_indices_batching_dims", ())))

    def splits_rows(self) -> bool:
        """An index chooses the first dimension, one row of it, and a row is long."""
        sizes = self.window_sizes()
        return 0 in self.to_operand and sizes[0] == 1 and dims_.sample(dims_.product(sizes)) >= LONG_ROW

    def window_sizes(self) -> list[Dim]:
        """Extent of the window in each operand dimension (1 where inserted)."""
        sizes: list[Dim] = [1] * self.rank
        for operand_dim, update_dim in zip(self.window_to_operand, self.window_dims):
            sizes[operand_dim] = self.update_dims[update_dim]
        return sizes


def lower(instr: Instr, target: Target) -> Unit:
    """Results hold the operands first. Indices apply in order, so equal ones combine deterministically.

    Tasks split the rows of the operand where an index chooses one, else the last window dimension; within
    a task that dimension runs in lanes. A window that leaves the operand is skipped whole (XLA's scatter
    expander).
    """
    form = Form(instr)
    b = KernelBuilder("scatter")
    indices = b.input(form.indices.shape.element_type)
    updates = [b.input(u.shape.element_type) for u in form.updates]
    results = [b.output(o.shape.element_type) for o in form.operands]
    scatter_sizes = [form.update_dims[d] for d in form.scatter_dims]
    lane_dim: Dim = form.update_dims[form.window_dims[-1]] if form.window_dims else 1
    rows = form.splits_rows()
    blocks: Dim = ROW_BLOCKS if rows else (lane_dim + (LANE_BLOCK - 1)) // LANE_BLOCK if form.window_dims else 1
    first = b.index(0) if rows else b.mul(b.task, b.index(LANE_BLOCK))
    stop = b.size(lane_dim)
    if not rows:
        stop = b.op("minimum", b.add(first, b.index(LANE_BLOCK)), stop)
    with b.loop(b.index(0), b.size(dims_.product(scatter_sizes))) as number:
        at = delinearize(b, number, scatter_sizes)
        start, valid = window_start(b, form, indices, at)
        if rows:
            valid = all_of(b, [valid, *_own_row(b, form, start[0])])

        def write() -> Sequence[Var]:
            _window(b, instr, form, (updates, results), at, start, (first, stop))
            return ()

        if valid is None:
            write()
        else:
            b.cond(valid, write, lambda: ())
    cost = dims_.make("mul", dims_.product(form.update_dims), 4)
    kernel = b.finish(blocks, dims_.make("floordiv", cost, blocks) if blocks != 1 else cost)
    inputs = (UnitRef("operand", form.count), *(UnitRef("operand", form.count + 1 + i) for i in range(form.count)))
    outputs = tuple(UnitRef("result", i) for i in range(form.count))
    return Unit((UnitKernel(kernel, inputs, outputs),), (), tuple((i, i) for i in range(form.count)))


def window_start(b: KernelBuilder, form: Form, indices: Buffer, at: Sequence[Var]) -> tuple[list[Var], Var | None]:
    """The window's first operand index for scatter index `at`, and the test that it lies inside."""
    start = [b.index(0)] * form.rank
    tests: list[Var | None] = []
    sizes = form.window_sizes()
    dims = form.indices.shape.dims
    for component, operand_dim in enumerate(form.to_operand):
        index = list(at)
        if form.vector_dim < len(dims):
            index.insert(form.vector_dim, b.index(component))
        value = b.load(indices, linearize(b, index, dims))
        value = b.op("convert", value, dtype=S64) if value.dtype is not S64 else value
        room = b.op("subtract", b.size(form.operands[0].shape.dims[operand_dim]), b.size(sizes[operand_dim]))
        tests.append(b.compare(value, b.index(0), "GE"))
        tests.append(b.compare(value, room, "LE"))
        start[operand_dim] = value
    for operand_dim, index_dim in form.batching:
        place = index_dim - (1 if index_dim > form.vector_dim else 0)
        start[operand_dim] = at[place]
    return start, all_of(b, tests)


def _own_row(b: KernelBuilder, form: Form, row: Var) -> tuple[Var, Var]:
    """Tests that the row is one of this task's."""
    count = form.operands[0].shape.dims[0]
    size = b.size((count + (ROW_BLOCKS - 1)) // ROW_BLOCKS)
    low = b.mul(b.task, size)
    return b.compare(row, low, "GE"), b.compare(row, b.add(low, size), "LT")


def _window(
    b: KernelBuilder,
    instr: Instr,
    form: Form,
    buffers: tuple[list[Buffer], list[Buffer]],
    at: Sequence[Var],
    start: Sequence[Var],
    lanes: tuple[Var, Var],
) -> None:
    """Combine one window of updates into the results."""
    updates, results = buffers
    operand_dims = form.operands[0].shape.dims

    def visit(window: list[Var]) -> None:
        update = [b.index(0)] * len(form.update_dims)
        for dim, value in zip(form.scatter_dims, at):
            update[dim] = value
        target = list(start)
        for update_dim, operand_dim, value in zip(form.window_dims, form.window_to_operand, window):
            update[update_dim] = value
            target[operand_dim] = b.add(start[operand_dim], value)
        source, place = linearize(b, update, form.update_dims), linearize(b, target, operand_dims)
        old = [b.load(r, place) for r in results]
        new = [b.load(u, source) for u in updates]
        for result, value in zip(results, inline(b, instr.attrs["to_apply"], [*old, *new])):
            b.store(result, place, value)

    def nest(depth: int, window: list[Var]) -> None:
        if depth == len(form.window_dims):
            visit(window)
        elif depth == len(form.window_dims) - 1:
            with b.loop(*lanes, "vector") as lane:
                nest(depth + 1, [*window, lane])
        else:
            with b.loop(b.index(0), b.size(form.update_dims[form.window_dims[depth]])) as i:
                nest(depth + 1, [*window, i])

    nest(0, [])
