"""Calls of the C library's functions, lane by lane."""

from __future__ import annotations

from ..asm import Asm
from ..operand import Reg


def call(asm: Asm, name: str, *regs: Reg) -> Reg:
    """`name` on doubles; the system's libm is within 1 ulp and reduces any argument."""
    matched = asm.match(*regs)
    lanes = matched[0].lanes
    if lanes == 1:
        return asm.call(name, "double", 1, matched)
    result = asm.poison("double", lanes)
    for lane in range(lanes):
        item = asm.call(name, "double", 1, [asm.extract(r, lane) for r in matched])
        result = asm.insert(result, item, lane)
    return result


def where_any(asm: Asm, rare: Reg, name: str, argument: Reg, usual: Reg) -> Reg:
    """`usual`, or `name(argument)` in double for all lanes when `rare` holds in one of them."""
    if rare.lanes > 1:
        rare = asm.call(f"llvm.vector.reduce.or.v{rare.lanes}i1", "i1", 1, [rare])
    asm.begin_branch()
    wide = asm.cast("fpext", argument, "double")
    exact = call(asm, name, wide)
    if usual.type == "float":
        exact = asm.cast("fptrunc", exact, "float")
    return asm.branch(rare, asm.end_branch(), [exact], None, [usual])[0]
