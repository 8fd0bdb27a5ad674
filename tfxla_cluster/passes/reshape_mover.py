"""reshape-mover: op(reshape(x), reshape(y)) --> reshape(op(x, y)) where x and y have the same dims.

Elementwise work then sits next to what made x and y, and chains of reshapes meet and vanish.
"""

from __future__ import annotations

from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from ..ir.rewrite import rebuild
from ..ir.shape import array
from .base import of_computations
from .match import broadcast, dtype_of, make, reshape, scalar_of

_NEVER = ("map", "bitcast-convert", "copy", "stochastic-convert")


def run(comp: Computation) -> Computation:
    """Elementwise instructions before the reshapes of their operands instead of after them."""
    users: dict[Instr, int] = {}
    for instr in comp.instrs:
        for operand in instr.operands:
            users[operand] = users.get(operand, 0) + 1
    moved = {i: new for i in comp.instrs if (new := _moved(i, users)) is not None}
    return rebuild(comp, moved, drop_dead=True) if moved else comp


def _moved(i: Instr, users: dict[Instr, int]) -> Instr | None:
    """At least two reshapes of one shape must meet: the one that is left then replaces them."""
    if not i.shape.rank or not is_elementwise(i.opcode) or i.opcode in _NEVER:
        return None
    reshaped = [x for x in i.operands if x.opcode == "reshape" and users[x] == 1]
    if len(reshaped) < 2 or len({x.operands[0].shape.dims for x in reshaped}) != 1:
        return None
    dims = reshaped[0].operands[0].shape.dims
    operands = []
    for x in i.operands:
        if x in reshaped:
            operands.append(x.operands[0])
        elif x.opcode == "broadcast" and (scalar := scalar_of(x)) is not None:
            operands.append(broadcast(i, scalar, dims))
        elif x.shape.rank == 0:
            operands.append(x)
        else:
            return None
    new = make(i, i.opcode, array(dtype_of(i), dims), operands, **i.attrs)
    return reshape(i, new, i.shape.dims)


PASS = of_computations("reshape-mover", run)
