"""What a scatter moves on a GPU: units of updates, each of which goes to one place of the operand."""

from __future__ import annotations

from collections.abc import Sequence

from .....ir.dim import Dim, product
from .....ir.dtype import S32, S64, DType
from .....ir.node import Instr
from .....ir.size_proofs import at_most
from ...builder import KernelBuilder
from ...ir import Buffer, Var
from ...unit import UnitRef
from ..inline import inline
from ..scatter import Form, window_start
from ..space import delinearize, linearize


class Units:
    """What is sorted: whole windows where two of them are apart or in one place (`aligned`), else single elements.

    `count` units of `inner` elements; `places` is how many places a unit can have.
    """

    def __init__(self, instr: Instr) -> None:
        self.instr, self.form = instr, Form(instr)
        form, sizes = self.form, self.form.window_sizes()
        self.dims = form.operands[0].shape.dims
        self.aligned = all(sizes[d] == 1 for d in form.to_operand)
        self.scatter_sizes = [form.update_dims[d] for d in form.scatter_dims]
        self.window_sizes = [form.update_dims[d] for d in form.window_dims]
        fixed = {*form.to_operand, *(d for d, _ in form.batching)}
        self.key_dims = [d for d in range(form.rank) if not self.aligned or d in fixed]
        self.places = product(self.dims[d] for d in self.key_dims)
        self.count = product(self.scatter_sizes if self.aligned else form.update_dims)
        self.inner = product(self.window_sizes) if self.aligned else 1

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(o.shape.element_type for o in self.form.operands)

    @property
    def place_type(self) -> DType:
        """Of a place, and of the number after all places."""
        return _number_type(self.places)

    @property
    def number_type(self) -> DType:
        """Of a unit's number."""
        return _number_type(self.count)

    @property
    def updates(self) -> tuple[UnitRef, ...]:
        return tuple(UnitRef("operand", self.form.count + 1 + i) for i in range(self.form.count))

    @property
    def results(self) -> tuple[UnitRef, ...]:
        return tuple(UnitRef("result", i) for i in range(self.form.count))

    def element(self, b: KernelBuilder, indices: Buffer, number: Var) -> tuple[Var, Var | None]:
        """Offset in the operand of update element `number`, and the test that its window lies inside."""
        index = delinearize(b, number, self.form.update_dims)
        at, window = [index[d] for d in self.form.scatter_dims], [index[d] for d in self.form.window_dims]
        start, valid = window_start(b, self.form, indices, at)
        return linearize(b, self._target(b, start, window), self.dims), valid

    def place(self, b: KernelBuilder, indices: Buffer, unit: Var) -> tuple[Var, Var | None]:
        """The number of the unit's place, and the test that its window lies inside."""
        if not self.aligned:
            return self.element(b, indices, unit)
        start, valid = window_start(b, self.form, indices, delinearize(b, unit, self.scatter_sizes))
        return linearize(b, [start[d] for d in self.key_dims], [self.dims[d] for d in self.key_dims]), valid

    def update_offset(self, b: KernelBuilder, unit: Var, inner: Var) -> Var:
        if not self.aligned:
            return unit
        index = [b.index(0)] * len(self.form.update_dims)
        for dim, value in zip(self.form.scatter_dims, delinearize(b, unit, self.scatter_sizes)):
            index[dim] = value
        for dim, value in zip(self.form.window_dims, delinearize(b, inner, self.window_sizes)):
            index[dim] = value
        return linearize(b, index, self.form.update_dims)

    def operand_offset(self, b: KernelBuilder, place: Var, inner: Var) -> Var:
        """Of an element of a unit at `place`."""
        if not self.aligned:
            return place
        start = [b.index(0)] * self.form.rank
        for dim, value in zip(self.key_dims, delinearize(b, place, [self.dims[d] for d in self.key_dims])):
            start[dim] = value
        return linearize(b, self._target(b, start, delinearize(b, inner, self.window_sizes)), self.dims)

    def _target(self, b: KernelBuilder, start: Sequence[Var], window: Sequence[Var]) -> list[Var]:
        target = list(start)
        for dim, value in zip(self.form.window_to_operand, window):
            target[dim] = b.add(start[dim], value)
        return target

    def combine(
        self,
        b: KernelBuilder,
        buffers: tuple[Sequence[Buffer], Sequence[Buffer]],
        at: Var,
        new: Sequence[Var],
        mask: Var | None,
    ) -> None:
        """One update of the results; `buffers`: where they are read, and where they are written."""
        old = [b.load(r, at, mask) for r in buffers[0]]
        for result, value in zip(buffers[1], inline(b, self.instr.attrs["to_apply"], [*old, *new])):
            b.store(result, at, value, mask)


def _number_type(count: Dim) -> DType:
    return S32 if at_most(count, 2**31 - 2) else S64


def as_index(b: KernelBuilder, value: Var) -> Var:
    return value if value.dtype == S64 else b.op("convert", value, dtype=S64)
