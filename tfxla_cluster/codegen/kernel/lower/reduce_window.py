"""reduce-window: pooling by visiting each window, cumulative ops as scans."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.node import Instr, WindowDim
from ....ir.windows import scan_of
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Var
from ..unit import Unit, UnitKernel, UnitRef
from .grid import Blocks
from .inline import inline
from .space import all_of, delinearize, linearize
from .window import coordinate, for_each_position, position_count

SCAN_BLOCK = 1024  # Elements of the kept minor dims that one task of a scan takes.


def lower(instr: Instr, target: Target) -> Unit:
    """Any number of operands; results have the shape of the window count in each dimension."""
    axis = scan_axis(instr)
    if axis is None:
        return _pool(instr)
    return _scan_rows(instr, axis) if axis == instr.operands[0].shape.rank - 1 else _scan_columns(instr, axis)


def scan_axis(instr: Instr) -> int | None:
    """The axis of a cumulative op (a window over all earlier, or all later, elements), else None."""
    scan = scan_of(instr.attrs["window"], instr.operands[0].shape.dims)
    return scan.axis if scan is not None and scan.inclusive else None


class Operands:
    """The operands of a reduction in a kernel: input buffers, initial values, output buffers."""

    def __init__(self, b: KernelBuilder, instr: Instr) -> None:
        self.b, self.instr = b, instr
        self.count = len(instr.operands) // 2
        self.inputs = [b.input(o.shape.element_type) for o in instr.operands[: self.count]]
        starts = [b.input(o.shape.element_type) for o in instr.operands[self.count :]]
        self.outputs = [b.output(o.shape.element_type) for o in instr.operands[: self.count]]
        self.init = [b.load(s, b.index(0)) for s in starts]

    def combine(self, values: Sequence[Var]) -> tuple[Var, ...]:
        """One of each pair: the values of what stands first, then those of what comes after it."""
        return inline(self.b, self.instr.attrs["to_apply"], values)

    def load(self, offset: Var, mask: Var | None = None) -> list[Var]:
        return [
            self.b.load(buffer, offset, mask, start if mask is not None else None)
            for buffer, start in zip(self.inputs, self.init)
        ]

    def store(self, offset: Var, values: Sequence[Var]) -> None:
        for buffer, value in zip(self.outputs, values):
            self.b.store(buffer, offset, value)

    def unit(self, tasks: Dim, cost: Dim) -> Unit:
        return Unit((UnitKernel(self.b.finish(tasks, cost), *refs(self.instr)),))


def refs(instr: Instr) -> tuple[tuple[UnitRef, ...], tuple[UnitRef, ...]]:
    """What the buffers of `Operands` are: arrays and initial values, results."""
    count = len(instr.operands)
    return tuple(UnitRef("operand", i) for i in range(count)), tuple(UnitRef("result", i) for i in range(count // 2))


def result_dims(instr: Instr) -> tuple[Dim, ...]:
    return (instr.shape.elements[0] if instr.shape.is_tuple else instr.shape).dims


def _pool(instr: Instr) -> Unit:
    """A task a pair of outer indices; the last dimension in lanes, the one before it in a loop."""
    b = KernelBuilder("reduce_window")
    operands = Operands(b, instr)
    window, source = list(instr.attrs["window"]), instr.operands[0].shape.dims
    result = result_dims(instr)
    if not result:
        window, source, result = [WindowDim(1)], (1,), (1,)
    outer, middle = result[:-2], result[-2] if len(result) > 1 else 1
    lead = delinearize(b, b.task, outer)
    with b.loop(b.index(0), b.size(middle)) as row, b.loop(b.index(0), b.size(result[-1]), "vector") as lane:
        index = [*lead, row, lane][-len(result) :]
        values = for_each_position(
            b, window, operands.init, lambda taps, *acc: visit(operands, window, source, index, taps, acc)
        )
        operands.store(linearize(b, index, result), values)
    per_row = dims_.make("mul", result[-1], dims_.make("mul", position_count(window), 2))
    return operands.unit(dims_.product(outer), dims_.make("mul", per_row, middle))


def visit(
    operands: Operands,
    window: Sequence[WindowDim],
    source: Sequence[Dim],
    index: Sequence[Var],
    taps: Sequence[Var],
    accumulators: Sequence[Var],
) -> tuple[Var, ...]:
    """What the accumulators are after one more position of the window. Padding and holes of a dilated base are passed
    over: the initial value counts once a window, whether it is neutral or not."""
    b = operands.b
    places = [coordinate(b, *row) for row in zip(window, source, index, taps)]
    mask = all_of(b, [test for _, test in places])
    loaded = operands.load(linearize(b, [at for at, _ in places], source), mask)
    values = operands.combine([*accumulators, *loaded])
    if mask is None:
        return values
    return tuple(b.op("select", mask, new, old, dtype=old.dtype) for new, old in zip(values, accumulators))


def order(b: KernelBuilder, instr: Instr, axis: int, step: Var, extent: Dim) -> Var:
    """The position visited at `step`: from the end where the window looks ahead."""
    if instr.attrs["window"][axis].pad_low:
        return step
    last = b.op("subtract", b.size(extent), b.index(1))
    return b.op("subtract", last, step)


def in_order(instr: Instr, axis: int, earlier: Sequence[Var], later: Sequence[Var]) -> list[Var]:
    """Values of two runs of a scan as they lie in memory: a line that is passed over from its end has those it met
    earlier on the right."""
    return [*earlier, *later] if instr.attrs["window"][axis].pad_low else [*later, *earlier]


def _scan_rows(instr: Instr, axis: int) -> Unit:
    """Scan of the last axis: a task a row, the running values carried in registers."""
    b = KernelBuilder("scan_rows")
    operands = Operands(b, instr)
    dims = instr.operands[0].shape.dims
    base = b.mul(b.task, b.size(dims[axis]))

    def step(i: Var, *running: Var) -> tuple[Var, ...]:
        offset = b.add(base, order(b, instr, axis, i, dims[axis]))
        values = operands.combine(in_order(instr, axis, running, operands.load(offset)))
        operands.store(offset, values)
        return values

    b.fold(b.index(0), b.size(dims[axis]), operands.init, step)
    return operands.unit(dims_.product(dims[:-1]), dims_.make("mul", dims[-1], 4))


def _scan_columns(instr: Instr, axis: int) -> Unit:
    """Scan of an outer axis: the minor dims in lanes; the running values are the last row written."""
    b = KernelBuilder("scan_columns")
    operands = Operands(b, instr)
    dims = instr.operands[0].shape.dims
    inner, outer = dims_.product(dims[axis + 1 :]), dims_.product(dims[:axis])
    blocks = Blocks(inner, SCAN_BLOCK)
    lead, block = delinearize(b, b.task, (outer, blocks.count))
    first, stop = blocks.bounds(b, block)

    def offset(i: Var, lane: Var) -> Var:
        row = b.add(b.mul(lead, b.size(dims[axis])), order(b, instr, axis, i, dims[axis]))
        return b.add(b.mul(row, b.size(inner)), lane)

    with b.loop(first, stop, "vector") as lane:
        place = offset(b.index(0), lane)
        operands.store(place, operands.combine(in_order(instr, axis, operands.init, operands.load(place))))
    with b.loop(b.index(1), b.size(dims[axis])) as i, b.loop(first, stop, "vector") as lane:
        before, place = offset(b.op("subtract", i, b.index(1)), lane), offset(i, lane)
        running = [b.load(buffer, before) for buffer in operands.outputs]
        operands.store(place, operands.combine(in_order(instr, axis, running, operands.load(place))))
    tasks = dims_.make("mul", outer, blocks.count)
    return operands.unit(tasks, dims_.make("mul", dims[axis], 2 * SCAN_BLOCK))
