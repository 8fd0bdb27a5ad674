"""How deep computations call each other, and how much work they are when every call is written out."""

from __future__ import annotations

from ..errors import UnsupportedError
from .node import Computation, Module

# A plan writes every call, loop and branch out. What exceeds these is refused: it would not end, or overflow the stack.
MAX_DEPTH = 100
MAX_INSTRS = 2_000_000


def check_size(module: Module) -> None:
    """UnsupportedError where the instructions come to too many once shared computations are written out."""
    size: dict[Computation, int] = {}
    for comp in module.computations():
        size[comp] = len(comp.instrs) + sum(size[callee] for instr in comp.instrs for callee in instr.called)
    if size[module.entry] > MAX_INSTRS:
        problem = f"{module.name}: written out, its calls, loops and branches hold {size[module.entry]:,} instructions"
        raise UnsupportedError(f"{problem}, at most {MAX_INSTRS:,} compile", "Call the same function less often")


def check_depth(module: Module) -> None:
    """UnsupportedError where computations nest too deep."""
    depth: dict[Computation, int] = {}
    for comp in module.computations():
        depth[comp] = 1 + max((depth[callee] for instr in comp.instrs for callee in instr.called), default=0)
    if depth[module.entry] > MAX_DEPTH:
        problem = (
            f"{module.name}: calls, loops and branches nest {depth[module.entry]} deep, at most {MAX_DEPTH} compile"
        )
        raise UnsupportedError(problem, "Put fewer loops and branches into each other")
