"""Which of its inputs a kernel reads: lowering passes all operands, an in-place update needs few."""
from __future__ import annotations

from ..codegen.kernel.ir import Kernel, Load, Product
from ..codegen.llvm.analysis import walk


def read_inputs(kernel: Kernel) -> frozenset[int]:
    """Numbers of the 'in' buffers that some statement reads."""
    found: set[int] = set()
    for stmt in walk(kernel.body):
        if isinstance(stmt, Load):
            used = [stmt.buffer]
        elif isinstance(stmt, Product):
            used = [stmt.a, stmt.b]
        else:
            continue
        found.update(b.index for b in used if b.role == "in")
    return frozenset(found)
