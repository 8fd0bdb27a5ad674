"""map-inliner: `map(x, y), to_apply=f` --> the instructions of f on arrays, where they are elementwise."""

from __future__ import annotations

from ..ir.node import Instr
from .base import of_rules
from .match import lift


def inline_map(i: Instr) -> Instr | None:
    """map(x, y), to_apply=f --> f's body"""
    return lift(i.attrs["to_apply"], i.operands, i.shape.dims, i)


PASS = of_rules("map-inliner", {"map": [inline_map]})
