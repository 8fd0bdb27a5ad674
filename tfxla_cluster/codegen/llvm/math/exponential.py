"""exp and what is made of it."""
from __future__ import annotations

from collections.abc import Callable

from ..asm import Asm, Reg

LN2 = 0.6931471805599453
LOG2E = 1.4426950408889634


def exp(asm: Asm, x: Reg) -> Reg:
    return _exp_f32(asm, x) if x.type == "float" else _exp_f64(asm, x)


def _exp_f32(asm: Asm, x: Reg) -> Reg:
    """2^n * e^r with |r| <= ln2/2, 1 ulp; 0 below the normal range, infinity above, NaN of NaN.

    n comes from the low bits of x*log2(e) + 1.5*2^23. The scale is two factors 2^(n/2), so that n up to
    128 stays in range before the final product overflows by itself.
    """
    low, high = -104.0, 89.0
    clamped = asm.select(asm.cmp("olt", x, low), low, x)
    clamped = asm.select(asm.cmp("ogt", clamped, high), high, clamped)
    shifted = asm.fma(clamped, LOG2E, 12582912.0)
    n = shifted - 12582912.0
    r = asm.fma(n, -0.693359375, clamped)
    r = asm.fma(n, 2.12194440e-4, r)
    p = asm.literal("float", 1.0 / 5040)
    for c in (1.3888889e-3, 8.3333333e-3, 4.16666667e-2, 1.6666667e-1, 0.5):
        p = asm.fma(r, p, c)
    p = asm.fma(r * r, p, r) + 1.0
    whole = asm.bits(shifted) - asm.bits(asm.literal("float", 12582912.0))
    half = asm.op("ashr", whole, 1)
    return p * _power_of_two(asm, half, "float") * _power_of_two(asm, whole - half, "float")


def _power_of_two(asm: Asm, n: Reg, type: str) -> Reg:
    """2^n by its exponent bits; n within the normal range."""
    bias, fraction = (127, 23) if type == "float" else (1023, 52)
    return asm.cast("bitcast", (n + bias) << fraction, type)


def _exp_f64(asm: Asm, x: Reg) -> Reg:
    low, high = -746.0, 710.0
    clamped = asm.select(asm.cmp("olt", x, low), low, x)
    clamped = asm.select(asm.cmp("ogt", clamped, high), high, clamped)
    anchor = 6755399441055744.0
    shifted = asm.fma(clamped, LOG2E, anchor)
    n = shifted - anchor
    r = asm.fma(n, -0.6931471803691238, clamped)
    r = asm.fma(n, -1.9082149292705877e-10, r)
    p = asm.literal("double", 1.0 / 6227020800)
    for c in (479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2):
        p = asm.fma(r, p, 1.0 / c)
    p = asm.fma(r * r, p, r) + 1.0
    whole = asm.bits(shifted) - asm.bits(asm.literal("double", anchor))
    half = asm.op("ashr", whole, 1)
    return p * _power_of_two(asm, half, "double") * _power_of_two(asm, whole - half, "double")


FUNCTIONS: dict[str, Callable[..., Reg]] = {"exponential": exp}
