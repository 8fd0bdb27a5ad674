"""Elementwise instructions on repeated scalars: computed once, then repeated."""

from __future__ import annotations

from ...ir.node import Instr
from ...ir.opcode import OPCODES
from ...ir.shape import array
from ..base import Rule
from ..match import broadcast, dtype_of, make, scalar_of


def compute_once(i: Instr) -> Instr | None:
    """op(broadcast(a), broadcast(b)) --> broadcast(op(a, b)) of scalars a, b"""
    if i.shape.rank == 0:
        return None
    scalars = []
    for x in i.operands:
        scalar = scalar_of(x)
        if scalar is None:
            return None
        scalars.append(scalar)
    once = make(i, i.opcode, array(dtype_of(i)), scalars, **i.attrs)
    return broadcast(i, once, i.shape.dims)


RULES: dict[str, list[Rule]] = {
    op.name: [compute_once]
    for op in OPCODES.values()
    if op.category == "elementwise" and op.name not in ("map", "bitcast-convert", "copy", "stochastic-convert")
}
