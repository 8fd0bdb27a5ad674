"""log, log(1 + x) and the inverse hyperbolic functions made of them."""

from __future__ import annotations

from collections.abc import Callable

from ..asm import Asm
from ..operand import Reg
from .polynomial import horner, in_double

LN2 = 0.6931471805599453
# ln 2 as a short number, whose multiples by an exponent are exact, and the rest.
_LN2_FLOAT, _LN2_DOUBLE = (0.693359375, -2.12194440e-4), (0.6931471803691238, 1.9082149292705877e-10)
# (2 atanh(s) / s - 2) / s^2 as a polynomial of s^2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
_SHORT = (0.23330467216303835, 0.28550820815960665, 0.40000121839806124, 0.6666666655449709)
_LONG = (
    0.13086626147840102,
    0.13268773138656886,
    0.15386239702814658,
    0.18181795640132906,
    0.22222222391713917,
    0.28571428570803614,
    0.4000000000000088,
    0.6666666666666666,
)


def _decompose(asm: Asm, x: Reg) -> tuple[Reg, Reg]:
    """(exponent as a float, m) with x = m * 2^exponent and m in [sqrt(1/2), sqrt(2)), for normal x > 0."""
    bits = asm.bits(x)
    if x.type == "float":
        moved = bits + (0x3F800000 - 0x3F3504F3)
        exponent = asm.cast("sitofp", (moved >> 23) - 127, "float")
        return exponent, asm.cast("bitcast", bits - ((moved & 0x7F800000) - 0x3F800000), "float")
    moved = bits + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    exponent = asm.cast("bitcast", (moved >> 52) | 0x4330000000000000, "double") - (2.0**52 + 1023)
    mantissa = bits - ((moved & 0x7FF0000000000000) - 0x3FF0000000000000)
    return exponent, asm.cast("bitcast", mantissa, "double")


def log(asm: Asm, x: Reg, coarse: bool = False) -> Reg:
    """-infinity at 0, NaN below. `coarse`: f64 arithmetic with the error of an f32 result.

    With f = m - 1 and s = f / (2 + f): log(1 + f) = f - (f^2/2 - s * (f^2/2 + R(s^2))).
    """
    exponent, mantissa = _decompose(asm, x)
    f = mantissa - 1.0
    s = f / (f + 2.0)
    z, square = s * s, f * f * 0.5
    rest = z * horner(asm, z, _SHORT if coarse or x.type == "float" else _LONG)
    high, low = _LN2_FLOAT if x.type == "float" else _LN2_DOUBLE
    tail = asm.fma(exponent, low, s * (square + rest)) - square
    value = asm.fma(exponent, high, f + tail)
    value = asm.select(asm.cmp("oeq", x, float("inf")), x, value)
    value = asm.select(asm.cmp("oeq", x, 0.0), -float("inf"), value)
    return asm.select(asm.cmp("uge", x, 0.0), asm.select(asm.is_nan(x), x, value), float("nan"))


def log1p(asm: Asm, x: Reg) -> Reg:
    """log(u) for u = 1 + x, corrected by what rounding took from u."""
    u = x + 1.0
    value = log(asm, u)
    correction = (x - (u - 1.0)) / u
    finite = asm.cmp("olt", asm.intrinsic("llvm.fabs", value), float("inf"))
    value = asm.select(finite, value + correction, value)
    return asm.select(asm.cmp("oeq", u, 1.0), x, value)


def _asinh(asm: Asm, x: Reg) -> Reg:
    a = asm.intrinsic("llvm.fabs", x)
    square = a * a
    near = log1p(asm, a + square / (asm.intrinsic("llvm.sqrt", square + 1.0) + 1.0))
    value = asm.select(asm.cmp("ogt", a, 2.0**28), log(asm, a) + LN2, near)
    return asm.intrinsic("llvm.copysign", value, x)


def _acosh(asm: Asm, x: Reg) -> Reg:
    t = x - 1.0
    near = log1p(asm, t + asm.intrinsic("llvm.sqrt", asm.fma(t, t, t * 2.0)))
    near = asm.select(asm.cmp("olt", x, 1.0), float("nan"), near)
    return asm.select(asm.cmp("ogt", x, 2.0**28), log(asm, x) + LN2, near)


def _atanh(asm: Asm, x: Reg) -> Reg:
    a = asm.intrinsic("llvm.fabs", x)
    return asm.intrinsic("llvm.copysign", log1p(asm, a * 2.0 / (1.0 - a)) * 0.5, x)


FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "log": log,
    "log-plus-one": log1p,
    "asinh": in_double(_asinh),
    "acosh": in_double(_acosh),
    "atanh": in_double(_atanh),
}
