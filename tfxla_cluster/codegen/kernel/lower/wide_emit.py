"""Elements of narrow floats computed in f32 all the way: rounded where they are stored, not after each operation.

It is what XLA calls excess precision, and does itself inside a fusion.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import UnsupportedError
from ....fusion.index import Access
from ....ir.dtype import F32, DType
from ....ir.node import Instr
from ....ir.opcode import is_elementwise
from ....ir.shape import array
from ..ir import Var
from .emit import Emitter
from .inline import elementwise

NEVER_WIDE = ("map", "bitcast-convert")  # a computation of its own types; the bits of the narrow float
_APPROXIMATE = ("exponential", "logistic", "tanh")


class WideEmitter(Emitter):
    """Values of floats narrower than f32 are f32."""

    def _key(self, access: Access) -> object:
        return ("wide", super()._key(access))

    def _compute(self, access: Access) -> Var:
        instr = access.instr
        if access in self.replaced or not is_elementwise(instr.opcode):
            return self._widened(super()._compute(access))
        if instr.opcode in NEVER_WIDE:
            raise UnsupportedError(f"{instr.name} ({instr.opcode}) is not computed in f32")
        values = [self.value(s) for s in self._sources(access)]
        wide = instr.replace(shape=array(F32)) if is_narrow(instr.shape.element_type) else instr
        return self._element(wide, values)

    def _element(self, instr: Instr, values: Sequence[Var]) -> Var:
        """An element of an elementwise instruction of f32, or of what is no float."""
        return elementwise(self.b, instr, values)

    def _widened(self, value: Var) -> Var:
        return self.b.op("convert", value, dtype=F32) if is_narrow(value.dtype) else value


class EpilogueEmitter(WideEmitter):
    """What follows a contraction: functions of bf16 are right to a bit or more beyond what it has, as there is no
    memory to wait for meanwhile."""

    def _compute(self, access: Access) -> Var:
        instr = access.instr
        if access in self.replaced or instr.opcode not in _APPROXIMATE or instr.shape.element_type.name != "bf16":
            return super()._compute(access)
        (source,) = self._sources(access)
        return self.b.op(instr.opcode, self.value(source), approximate=True)


def is_narrow(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits < 32
