"""The lines that a sort sorts, in its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.node import Instr
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import UnitRef
from .inline import inline
from .space import delinearize

CHUNKED_LENGTH = 32768  # A line of this many elements or more is cut into CHUNKS.
CHUNKS = 4  # A power of 4, so that the merges end in the result and not in the temporary.


class SortForm:
    """The lines of a sort: `outer * inner` of them, `length` elements apart by `inner`."""

    def __init__(self, instr: Instr) -> None:
        dims, axis = instr.operands[0].shape.dims, int(instr.attrs["dimensions"][0])
        self.instr = instr
        self.dtypes = [o.shape.element_type for o in instr.operands]
        self.outer, self.length, self.inner = (dims_.product(dims[:axis]), dims[axis], dims_.product(dims[axis + 1 :]))
        self.lines = dims_.make("mul", self.outer, self.inner)
        self.chunks = CHUNKS if dims_.sample(self.length) >= CHUNKED_LENGTH else 1
        self.chunk_length: Dim = (self.length + (self.chunks - 1)) // self.chunks
        params = instr.attrs["to_apply"].params
        used = {o for i in instr.attrs["to_apply"].instrs for o in i.operands}
        self.keys = [params[2 * k] in used or params[2 * k + 1] in used for k in range(len(self.dtypes))]

    def refs(self, kind: str) -> tuple[UnitRef, ...]:
        return tuple(UnitRef(kind, i) for i in range(len(self.dtypes)))


class Line:
    """Element access along one line, and the comparator."""

    def __init__(self, b: KernelBuilder, form: SortForm, line: Var) -> None:
        self.b, self.form = b, form
        outer, inner = delinearize(b, line, (form.outer, form.inner))
        self.base = b.add(b.mul(b.mul(outer, b.size(form.length)), b.size(form.inner)), inner)

    def at(self, position: Var) -> Var:
        return self.b.add(self.base, self.b.mul(position, self.b.size(self.form.inner)))

    def load(self, buffers: Sequence[Buffer], position: Var, mask: Var | None = None) -> list[Var]:
        return [self.b.load(buffer, self.at(position), mask) for buffer in buffers]

    def keys(self, buffers: Sequence[Buffer], position: Var, mask: Var | None = None) -> list[Var]:
        """The values the comparator looks at; a constant stands for the others."""
        return [
            self.b.load(buffer, self.at(position), mask) if used else self.b.const(0, buffer.dtype)
            for buffer, used in zip(buffers, self.form.keys)
        ]

    def store(self, buffers: Sequence[Buffer], position: Var, values: Sequence[Var]) -> None:
        for buffer, value in zip(buffers, values):
            self.b.store(buffer, self.at(position), value)

    def less(self, left: Sequence[Var], right: Sequence[Var]) -> Var:
        args = [value for pair in zip(left, right) for value in pair]
        return inline(self.b, self.form.instr.attrs["to_apply"], args)[0]
