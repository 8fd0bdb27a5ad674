"""A kernel under construction together with what its buffers stand for in the unit."""

from __future__ import annotations

from ...ir.dim import Dim
from ...ir.dtype import DType
from .builder import KernelBuilder
from .ir import Buffer, Var
from .unit import UnitKernel, UnitRef


class Ports:
    """`b` builds the kernel; `read` and `write` give the buffer of an operand, result or temporary. `wide`: what
    follows a contraction is computed in f32 where its floats are narrower, and rounded where it is stored."""

    def __init__(self, name: str, multiple: int = 0, wide: bool = False) -> None:
        self.b, self.wide = KernelBuilder(name, multiple), wide
        self._inputs: dict[UnitRef, Buffer] = {}
        self._outputs: dict[UnitRef, Buffer] = {}

    def read(self, kind: str, index: int, dtype: DType) -> Buffer:
        """The input that is the unit's buffer (kind, index), made when first asked for."""
        ref = UnitRef(kind, index)
        if ref not in self._inputs:
            self._inputs[ref] = self.b.input(dtype)
        return self._inputs[ref]

    def write(self, kind: str, index: int, dtype: DType) -> Buffer:
        """The output that is the unit's buffer (kind, index), made when first asked for."""
        ref = UnitRef(kind, index)
        if ref not in self._outputs:
            self._outputs[ref] = self.b.output(dtype)
        return self._outputs[ref]

    @property
    def buffers(self) -> list[Buffer]:
        """Those that were asked for."""
        return [*self._inputs.values(), *self._outputs.values()]

    def put(self, index: int, offset: Var, value: Var, own: bool) -> None:
        """Stores an element of result `index`. `own`: the results lie as the elements of the contraction, by batch,
        row and column."""
        self.b.store(self.write("result", index, value.dtype), offset, value)

    def kernel(self, tasks: Dim, cost: Dim, warps: int = 0) -> UnitKernel:
        return UnitKernel(self.b.finish(tasks, cost, warps), tuple(self._inputs), tuple(self._outputs))
