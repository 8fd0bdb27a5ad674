"""exp, exp(x) - 1 and the hyperbolic functions made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..asm import Asm
from ..operand import Reg
from .polynomial import horner, in_double


@dataclass(frozen=True)
class _Format:
    """Constants of one precision. `poly`: (e^r - 1 - r) / r^2 on |r| <= ln(2)/2."""

    bias: int
    fraction: int
    anchor: float
    ln2_high: float
    ln2_low: float
    low: float
    high: float
    poly: tuple[float, ...]


_SHORT = (
    0.00019890980869750327,
    0.0013933641031986701,
    0.008333310934448869,
    0.04166646500604005,
    0.16666666681614256,
    0.5000000013457727,
)
_MIDDLE = (
    2.4859578222625295e-05,
    0.0001989927395864936,
    0.001388885404961482,
    0.008333298483754886,
    0.041666666718980845,
    0.16666666718997508,
    0.5,
)
_LONG = (
    2.0914679376583935e-09,
    2.510520637395701e-08,
    2.7557273661348637e-07,
    2.7557255425746435e-06,
    2.4801587325533363e-05,
    0.00019841269874800493,
    0.0013888888888883752,
    0.008333333333326141,
    0.04166666666666667,
    0.1666666666666667,
    0.5,
)
# The low bounds leave results that round to 0, the high ones results that overflow.
FLOAT = _Format(127, 23, 1.5 * 2.0**23, 0.693359375, -2.12194440e-4, -104.0, 88.8, _SHORT)
DOUBLE = _Format(1023, 52, 1.5 * 2.0**52, 0.6931471803691238, 1.9082149292705877e-10, -746.0, 710.5, _LONG)
# f64 arithmetic with the error of an f32 result.
COARSE = _Format(1023, 52, 1.5 * 2.0**52, 0.6931471803691238, 1.9082149292705877e-10, -746.0, 710.5, _SHORT)


def format_of(x: Reg) -> _Format:
    return FLOAT if x.type == "float" else DOUBLE


def _split(asm: Asm, x: Reg, form: _Format) -> tuple[Reg, Reg]:
    """(n, e^r - 1) with x = n*ln2 + r; n an integer register, x kept within the format's bounds.

    n is read from the low bits of x*log2(e) + 1.5*2^23 (or 2^52): no conversion, and NaN harms nothing.
    """
    x = asm.select(asm.cmp("olt", x, form.low), form.low, x)
    x = asm.select(asm.cmp("ogt", x, form.high), form.high, x)
    shifted = asm.fma(x, 1.4426950408889634, form.anchor)
    n = shifted - form.anchor
    r = asm.fma(n, -form.ln2_low, asm.fma(n, -form.ln2_high, x))
    return asm.bits(shifted) - asm.bits(asm.literal(x.type, form.anchor)), asm.fma(r * r, horner(asm, r, form.poly), r)


def power_of_two(asm: Asm, n: Reg, form: _Format) -> Reg:
    """2^n by its exponent bits; n within the range of normal numbers."""
    return asm.cast("bitcast", (n + form.bias) << form.fraction, "float" if form.bias == 127 else "double")


def exp(asm: Asm, x: Reg, form: _Format | None = None, shift: int = 0) -> Reg:
    """e^x * 2^shift. 0 below the normal range, infinity above.

    The scale is the product of two powers, so that neither leaves the normal range before the result does.
    """
    if x.type == "float" and not shift:
        return _exp_float(asm, x)
    form = form or format_of(x)
    n, q = _split(asm, x, form)
    n = n + shift if shift else n
    # A logical shift of n + 2^k halves the negative ones too: AVX2 has no arithmetic shift of 64 bits.
    half = ((n + 2048) >> 1) - 1024
    return (q + 1.0) * power_of_two(asm, half, form) * power_of_two(asm, n - half, form)


def _exp_float(asm: Asm, x: Reg) -> Reg:
    """f32: the low bits of x*log2(e) + 1.5*2^23 + 127 are the exponent bits of the scale.

    n = -127 gives the scale 0, and n stops at 127: r then grows to ln(2) before the result overflows, which
    the longer polynomial bears (less than 1 ulp), and beyond that the product is infinite.
    """
    x = asm.select(asm.cmp("olt", x, -87.9), -87.9, x)
    anchor = FLOAT.anchor + 127
    shifted = asm.fma(x, 1.4426950408889634, anchor)
    shifted = asm.select(asm.cmp("ogt", shifted, anchor + 127), anchor + 127, shifted)
    n = shifted - anchor
    r = asm.fma(n, -FLOAT.ln2_low, asm.fma(n, -FLOAT.ln2_high, x))
    p = asm.fma(r * r, horner(asm, r, _MIDDLE), r) + 1.0
    return p * asm.cast("bitcast", asm.bits(shifted) << 23, "float")


def half_expm1(asm: Asm, x: Reg) -> Reg:
    """(e^x - 1) / 2; e^x - 1 may overflow, its half does not."""
    form = replace(FLOAT, low=-30.0) if x.type == "float" else replace(DOUBLE, low=-60.0, high=709.9)
    n, q = _split(asm, x, form)
    scale = power_of_two(asm, n - 1, form)
    return asm.fma(scale, q, scale - 0.5)


def expm1(asm: Asm, x: Reg) -> Reg:
    value = half_expm1(asm, x) * 2.0
    return asm.select(asm.cmp("oeq", x, 0.0), x, value)


def logistic(asm: Asm, x: Reg) -> Reg:
    return 1.0 / (exp(asm, -x) + 1.0)


# tanh(x) = x * P(x^2) / Q(x^2) on |x| <= 9.1, relative error 7e-8.
_TANH_P = (
    1.721761139438022e-11,
    -1.1226963838713355e-08,
    1.0006969357144298e-05,
    0.0029613153238387197,
    0.1295285302847511,
    0.9999999286661019,
)
_TANH_Q = (4.8316349793857624e-08, 0.00023494804236912203, 0.02391557963647869, 0.462861659594722, 1.0)


def tanh(asm: Asm, x: Reg) -> Reg:
    """A rational function of x clamped to where tanh is not 1; doubles by expm1."""
    magnitude = asm.intrinsic("llvm.fabs", x)
    if x.type == "double":
        bounded = asm.select(asm.cmp("ogt", magnitude, 20.0), 20.0, magnitude)
        half = half_expm1(asm, bounded * 2.0)
        return asm.intrinsic("llvm.copysign", half / (half + 1.0), x)
    large = asm.cmp("ogt", magnitude, 9.02)
    bounded = asm.select(large, 9.02, magnitude)
    z = bounded * bounded
    value = bounded * horner(asm, z, _TANH_P) / horner(asm, z, _TANH_Q)
    return asm.intrinsic("llvm.copysign", asm.select(large, 1.0, value), x)


def _sinh(asm: Asm, x: Reg) -> Reg:
    magnitude = asm.intrinsic("llvm.fabs", x)
    half = half_expm1(asm, asm.select(asm.cmp("ogt", magnitude, 30.0), 30.0, magnitude))
    small = half + half / (half * 2.0 + 1.0)
    value = asm.select(asm.cmp("ogt", magnitude, 25.0), exp(asm, magnitude, shift=-1), small)
    return asm.intrinsic("llvm.copysign", value, x)


def _cosh(asm: Asm, x: Reg) -> Reg:
    half = exp(asm, asm.intrinsic("llvm.fabs", x), shift=-1)
    return half + 0.25 / half


FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "exponential": exp,
    "exponential-minus-one": expm1,
    "logistic": logistic,
    "tanh": tanh,
    "sinh": in_double(_sinh),
    "cosh": in_double(_cosh),
}
