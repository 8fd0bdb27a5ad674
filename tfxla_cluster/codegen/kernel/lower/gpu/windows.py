"""reduce-window on a GPU: cumulative ops as scans, others a block of results that loops over the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....ir import dim as dims_
from .....ir.dim import Dim
from .....ir.dtype import DType
from .....ir.node import Instr, WindowDim
from .....target import Target
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Var
from ...unit import Unit, UnitRef
from ..grid import Blocks
from ..inline import inline
from ..monoid import identities
from ..reduce_window import Operands, in_order, order, refs, result_dims, scan_axis, visit
from ..space import delinearize, linearize
from ..window import for_each_position, position_count
from . import scan, scan_lines
from .shapes import lanes

BLOCK = 512  # results of a program


def lower(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Any number of operands; results have the shape of the window count in each dimension. Knobs of cumulative ops:
    those of scans."""
    axis = scan_axis(instr)
    if axis is None:
        return _pool(instr)
    lines = _Cumulative(instr, axis)
    return scan.scan_unit(lines, "scan", form=scan.chosen_form(lines, knobs))


def _pool(instr: Instr) -> Unit:
    b = KernelBuilder("reduce_window", constant=True)
    operands = Operands(b, instr)
    window, source, result = list(instr.attrs["window"]), instr.operands[0].shape.dims, result_dims(instr)
    if not result:
        window, source, result = [WindowDim(1)], (1,), (1,)
    blocks = Blocks(dims_.product(result), lanes(dims_.product(result), BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as lane:
        index = delinearize(b, lane, result)
        values = for_each_position(
            b, window, operands.init, lambda taps, *acc: visit(operands, window, source, index, taps, acc)
        )
        operands.store(linearize(b, index, result), values)
    return operands.unit(blocks.count, position_count(window) * (2 * blocks.size))


class _Cumulative:
    """A cumulative op as scan.Lines."""

    def __init__(self, instr: Instr, axis: int) -> None:
        dims = instr.operands[0].shape.dims
        self.instr, self.axis = instr, axis
        self.outer, self.length, self.inner = dims_.product(dims[:axis]), dims[axis], dims_.product(dims[axis + 1 :])
        self.dtypes: tuple[DType, ...] = tuple(o.shape.element_type for o in instr.operands[: len(instr.operands) // 2])
        self.inputs: tuple[UnitRef, ...]
        self.outputs: tuple[UnitRef, ...]
        self.inputs, self.outputs = refs(instr)

    @property
    def neutral(self) -> tuple[Any, ...] | None:
        found = identities(self.instr.attrs["to_apply"], len(self.dtypes))
        return None if None in found else found

    def open(self, b: KernelBuilder, writes: bool) -> _CumulativeBody:
        return _CumulativeBody(b, self, writes)

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        return inline(b, self.instr.attrs["to_apply"], in_order(self.instr, self.axis, left, right))


class _CumulativeBody:
    def __init__(self, b: KernelBuilder, lines: _Cumulative, writes: bool) -> None:
        self.b, self.lines = b, lines
        self.inputs = [b.input(d) for d in lines.dtypes]
        starts = [b.input(d) for d in lines.dtypes]
        self.outputs = [b.output(d) for d in lines.dtypes if writes]
        self.start = [b.load(s, b.index(0)) for s in starts]

    def load(self, place: scan_lines.Place, mask: Var | None) -> Sequence[Var]:
        return [self.b.load(buffer, self._at(place), mask) for buffer in self.inputs]

    def store(self, place: scan_lines.Place, values: Sequence[Var], mask: Var | None) -> None:
        for buffer, value in zip(self.outputs, values):
            self.b.store(buffer, self._at(place), value, mask)

    def first(self) -> Sequence[Var]:
        return self.start

    def _at(self, place: scan_lines.Place) -> Var:
        b, lines, (outer, step, inner) = self.b, self.lines, place
        dims: tuple[Dim, ...] = (lines.outer, lines.length, lines.inner)
        return linearize(b, (outer, order(b, lines.instr, lines.axis, step, lines.length), inner), dims)
