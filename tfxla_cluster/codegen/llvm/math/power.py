"""power, cube root, and the error function."""

from __future__ import annotations

from collections.abc import Callable

from ..asm import Asm
from ..operand import Reg
from . import libm
from .exponential import COARSE, exp
from .logarithm import log
from .polynomial import horner, in_double


def power(asm: Asm, x: Reg, y: Reg) -> Reg:
    """C's pow: pow(x, 0) = pow(1, y) = 1; NaN for a negative base with a fractional exponent."""
    if x.type == "double":
        return libm.call(asm, "pow", x, y)
    x, y = asm.match(x, y)
    base, exponent = asm.cast("fpext", x, "double"), asm.cast("fpext", y, "double")
    magnitude = asm.intrinsic("llvm.fabs", base)
    wide = exp(asm, exponent * log(asm, magnitude, coarse=True), COARSE)
    value = asm.cast("fptrunc", wide, "float")
    whole = asm.cmp("oeq", asm.intrinsic("llvm.trunc", y), y)
    half = y * 0.5
    odd = whole & asm.cmp("one", asm.intrinsic("llvm.trunc", half), half)
    negative = asm.cmp("slt", asm.bits(x), 0)
    value = asm.select(negative & odd, -value, value)
    finite_negative = asm.cmp("olt", x, 0.0) & asm.cmp("ogt", x, -float("inf"))
    fractional = asm.cmp("one", asm.intrinsic("llvm.trunc", y), y)
    value = asm.select(finite_negative & fractional, float("nan"), value)
    flat = asm.cmp("oeq", y, 0.0) | asm.cmp("oeq", x, 1.0)
    circle = asm.cmp("oeq", x, -1.0) & asm.cmp("oeq", asm.intrinsic("llvm.fabs", y), float("inf"))
    return asm.select(flat | circle, 1.0, value)


def _cbrt(asm: Asm, x: Reg) -> Reg:
    """exp(log(|x|) / 3), then one step of Newton's iteration."""
    magnitude = asm.intrinsic("llvm.fabs", x)
    guess = exp(asm, log(asm, magnitude) * (1.0 / 3.0))
    square = guess * guess
    better = guess - asm.fma(square, guess, -magnitude) / (square * 3.0)
    usual = asm.cmp("ogt", magnitude, 0.0) & asm.cmp("olt", magnitude, float("inf"))
    return asm.intrinsic("llvm.copysign", asm.select(usual, better, magnitude), x)


# erf(x) = x * P(x^2) / Q(x^2) on |x| <= 4, relative error 5e-8.
_ERF_P = (
    2.100007442665658e-06,
    0.00027682799312307493,
    0.0034206318596623556,
    0.05164251830266801,
    0.18238369468057314,
    1.128379207125859,
)
_ERF_Q = (
    3.820558040570706e-05,
    0.0010792526823295823,
    0.01426377168141802,
    0.11075493108213268,
    0.49496716248615547,
    1.0,
)


def erf(asm: Asm, x: Reg) -> Reg:
    """A rational function of x clamped to where erf is not 1; doubles by the C library."""
    if x.type == "double":
        return libm.call(asm, "erf", x)
    magnitude = asm.intrinsic("llvm.fabs", x)
    large = asm.cmp("ogt", magnitude, 3.925)
    bounded = asm.select(large, 3.925, magnitude)
    z = bounded * bounded
    value = bounded * horner(asm, z, _ERF_P) / horner(asm, z, _ERF_Q)
    return asm.intrinsic("llvm.copysign", asm.select(large, 1.0, value), x)


FUNCTIONS: dict[str, Callable[..., Reg]] = {"power": power, "cbrt": in_double(_cbrt), "erf": erf}
