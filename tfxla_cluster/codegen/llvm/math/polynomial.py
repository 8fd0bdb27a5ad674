"""Horner evaluation and moves between precisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..asm import Asm
from ..operand import Reg

# Coefficients in this package were fitted here: interpolation at Chebyshev nodes in 40 digits for
# polynomials, linear programs over the relative error for quotients; high order first.


def horner(asm: Asm, x: Reg, coefficients: Sequence[float]) -> Reg:
    """The polynomial at x, highest power first, one fma a term."""
    value = asm.literal(x.type, coefficients[0])
    for c in coefficients[1:]:
        value = asm.fma(value, x, c)
    return value


def in_double(function: Callable[..., Reg]) -> Callable[..., Reg]:
    """A function on doubles, for f32 too: computed in f64 and rounded once."""

    def emit(asm: Asm, *regs: Reg) -> Reg:
        if regs[0].type == "double":
            return function(asm, *regs)
        return asm.cast("fptrunc", function(asm, *(asm.cast("fpext", r, "double") for r in regs)), "float")

    return emit
