"""while-trip-count-annotator: a loop that counts says how often it runs; launchers then need not ask its condition."""

from __future__ import annotations

from ..ir import trip_count
from ..ir.node import Computation, Instr
from ..ir.rewrite import rebuild
from .base import of_computations


def run(comp: Computation) -> Computation:
    """A count that the instructions do not say is taken away: passes may have changed what it was made for."""
    replaced: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        if instr.opcode == "while":
            new = trip_count.annotated(instr, trip_count.counted(instr))
            if new is not instr:
                replaced[instr] = new
    return rebuild(comp, replaced) if replaced else comp


PASS = of_computations("while-trip-count-annotator", run)
