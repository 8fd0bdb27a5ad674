"""get-dimension-size of a dimension that is known at run time only: the size as a number."""

from __future__ import annotations

from ....ir.dtype import S32
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..unit import Unit, UnitKernel, UnitRef


def lower(instr: Instr, target: Target) -> Unit:
    """Result: s32[]. The operand is not read, only its shape."""
    (axis,) = instr.attrs["dimensions"]
    b = KernelBuilder("get_dimension_size")
    result = b.output(S32)
    b.store(result, b.index(0), b.op("convert", b.size(instr.operands[0].shape.dims[axis]), dtype=S32))
    return Unit((UnitKernel(b.finish(1, 1), (), (UnitRef("result", 0),)),))
