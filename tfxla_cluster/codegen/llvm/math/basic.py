"""Float arithmetic that takes an instruction or a few."""

from __future__ import annotations

from collections.abc import Callable

from ..asm import Asm
from ..operand import Reg


def maximum(asm: Asm, a: Reg, b: Reg) -> Reg:
    """The larger; NaN where either is NaN. Which of 0 and -0 wins is open, as in HLO."""
    return asm.select(asm.is_nan(a), a, asm.select(asm.cmp("ogt", a, b), a, b))


def minimum(asm: Asm, a: Reg, b: Reg) -> Reg:
    return asm.select(asm.is_nan(a), a, asm.select(asm.cmp("olt", a, b), a, b))


def sign(asm: Asm, x: Reg) -> Reg:
    """-1, 1, or x itself where it is 0, -0 or NaN."""
    one = asm.intrinsic("llvm.copysign", asm.literal(x.type, 1.0), x)
    return asm.select(asm.cmp("one", x, 0.0), one, x)


def round_half_away(asm: Asm, x: Reg) -> Reg:
    """To the nearest whole number, halves away from zero."""
    whole = asm.intrinsic("llvm.trunc", x)
    away = asm.cmp("oge", asm.intrinsic("llvm.fabs", x - whole), 0.5)
    further = asm.intrinsic("llvm.copysign", asm.literal(x.type, 1.0), x)
    return asm.intrinsic("llvm.copysign", asm.select(away, whole + further, whole), x)


def remainder(asm: Asm, a: Reg, b: Reg) -> Reg:
    """fmod: exact, with the sign of a."""
    return asm.op("frem", a, b)


def _intrinsic(name: str) -> Callable[..., Reg]:
    return lambda asm, *regs: asm.intrinsic(name, *regs)


FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "add": lambda asm, a, b: a + b,
    "subtract": lambda asm, a, b: a - b,
    "multiply": lambda asm, a, b: a * b,
    "divide": lambda asm, a, b: a / b,
    "maximum": maximum,
    "minimum": minimum,
    "negate": lambda asm, x: -x,
    "abs": _intrinsic("llvm.fabs"),
    "sqrt": _intrinsic("llvm.sqrt"),
    "floor": _intrinsic("llvm.floor"),
    "ceil": _intrinsic("llvm.ceil"),
    "round-nearest-even": _intrinsic("llvm.rint"),
    "round-nearest-afz": round_half_away,
    "sign": sign,
    "remainder": remainder,
    "rsqrt": lambda asm, x: 1.0 / asm.intrinsic("llvm.sqrt", x),
}
