"""TensorFlow ops that the bridge lowers with the bound of a size in place of the size, most found by metadata.

The module is then exact for the bound alone, so that a function with such an op on what has a produced size is refused.
So is a write into an array of a produced size that is not the size of what is written: rows of several sizes in one
tensor list.
"""

from __future__ import annotations

from ..errors import UnsupportedError
from ..ir.dim import Dim, has_produced
from ..ir.node import Instr
from ..ir.polynomial import same

_TAKE_BOUNDS = frozenset(
    [
        *("Diag", "DiagPart", "MatrixDiag", "MatrixDiagV2", "MatrixDiagV3"),
        *("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"),
        *("InvertPermutation", "MirrorPad", "MirrorPadGrad", "Roll"),
    ]
)
_COUNT_ELEMENTS = frozenset(["AvgPool", "AvgPool3D"])
"""They divide by how many elements a window has within the bound; batches of any size are right."""


def check(instr: Instr) -> None:
    """UnsupportedError for an instruction of such an op that reads an array of a produced size."""
    op = instr.metadata.op_type
    if op in _TAKE_BOUNDS or op in _COUNT_ELEMENTS:
        first = int(op in _COUNT_ELEMENTS)
        if any(has_produced(d) for o in instr.operands for d in o.shape.dims[first:]):
            raise UnsupportedError(f"{instr.name}: {op} of a size that is known only after it ran")
    if instr.opcode == "dynamic-update-slice":
        into, part = (operand.shape.dims for operand in instr.operands[:2])
        if any(_is_lost(op, axis, d, p) for axis, (d, p) in enumerate(zip(into, part))):
            raise UnsupportedError(
                f"{instr.name}: written into an array of another size that is known only after it ran"
            )


def _is_lost(op: str, axis: int, into: Dim, part: Dim) -> bool:
    """Is the size of what is written not that of the array which then has it?"""
    if not has_produced(into) or same(into, part):
        return False
    if op.startswith("TensorList"):
        return axis > 0  # the first counts elements, of which one is written
    return has_produced(part)  # else a part of the array, as far as it goes
