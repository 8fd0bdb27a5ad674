"""call-inliner: `call(args), to_apply=f` --> the instructions of f on args."""

from __future__ import annotations

from ..ir.node import Computation
from ..ir.rewrite import inline, rebuild
from .base import of_computations


def run(comp: Computation) -> Computation:
    calls = {i: inline(i.attrs["to_apply"], i.operands, i.sources) for i in comp.instrs if i.opcode == "call"}
    return rebuild(comp, calls) if calls else comp


PASS = of_computations("call-inliner", run)
