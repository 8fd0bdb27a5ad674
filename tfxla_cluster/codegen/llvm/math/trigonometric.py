"""sine, cosine, tangent and their inverses."""

from __future__ import annotations

from collections.abc import Callable

from ..asm import Asm
from ..operand import Reg
from . import libm
from .polynomial import horner, in_double

PI, HALF_PI, QUARTER_PI = 3.141592653589793, 1.5707963267948966, 0.7853981633974483
# pi/2 in three doubles.
_PIO2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_ANCHOR = 1.5 * 2.0**52
# Beyond these, reduction by the doubles above loses bits: the C library takes over.
_FLOAT_LIMIT, _DOUBLE_LIMIT = 2.0**48, 2.0**25

# sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2/2 + r^4 C(r^2) on |r| <= pi/4.
_SIN_SHORT = (2.724992580305979e-06, -0.00019840086735384846, 0.008333331874710208, -0.1666666666385529)
_COS_SHORT = (-2.730095920390147e-07, 2.480060037715673e-05, -0.001388888767201679, 0.0416666666643212)
_SIN_LONG = (
    -7.586697117706918e-13,
    1.6058531618986147e-10,
    -2.5052106232447578e-08,
    2.7557319219339167e-06,
    -0.00019841269841265065,
    0.008333333333333331,
    -0.16666666666666666,
)
_COS_LONG = (
    4.7458719020432915e-14,
    -1.1470460887609959e-11,
    2.087675579108042e-09,
    -2.7557319221402824e-07,
    2.4801587301584645e-05,
    -0.0013888888888888887,
    0.041666666666666664,
)


def _quadrant(asm: Asm, x: Reg) -> tuple[Reg, Reg, Reg]:
    """(quarter turns as an i64, r, what r lacks) of a double below the limit: x = turns * pi/2 + r."""
    shifted = asm.fma(x, 2.0 / PI, _ANCHOR)
    n = shifted - _ANCHOR
    high = asm.fma(n, -_PIO2[0], x)
    product = n * _PIO2[1]
    r = high - product
    error = asm.fma(n, _PIO2[1], -product)
    return asm.bits(shifted), r, asm.fma(n, -_PIO2[2], (high - r - product) - error)


def _pair(asm: Asm, r: Reg, low: Reg | None) -> tuple[Reg, Reg]:
    """(sin, cos) of r + low, |r| <= pi/4."""
    z = r * r
    short = low is None
    s = asm.fma(r * z, horner(asm, z, _SIN_SHORT if short else _SIN_LONG), 0.0 if low is None else low)
    c = horner(asm, z, _COS_SHORT if short else _COS_LONG)
    half = z * 0.5
    one = 1.0 - half
    rest = asm.fma(z * z, c, (1.0 - one) - half)
    return r + s, one + (rest if low is None else asm.fma(-r, low, rest))


def _turned(asm: Asm, quadrant: Reg, sine: Reg, cosine: Reg) -> Reg:
    """The sine after so many quarter turns: sin, cos, -sin, -cos."""
    odd = asm.cmp("ne", quadrant & 1, 0)
    bits = asm.bits(asm.select(odd, cosine, sine))
    top = 30 if sine.type == "float" else 62
    flip = (quadrant & 2) << top
    return asm.cast("bitcast", bits ^ flip, sine.type)


def _wave(name: str, turns: int) -> Callable[..., Reg]:
    def emit(asm: Asm, x: Reg) -> Reg:
        magnitude = asm.intrinsic("llvm.fabs", x)
        if x.type == "float":
            quadrant, r, _ = _quadrant(asm, asm.cast("fpext", x, "double"))
            sine, cosine = _pair(asm, asm.cast("fptrunc", r, "float"), None)
            quadrant = asm.cast("trunc", quadrant, "i32")
            rare = asm.cmp("uge", magnitude, _FLOAT_LIMIT)
        else:
            quadrant, r, low = _quadrant(asm, x)
            sine, cosine = _pair(asm, r, low)
            rare = asm.cmp("uge", magnitude, _DOUBLE_LIMIT)
        usual = _turned(asm, quadrant + turns if turns else quadrant, sine, cosine)
        if turns == 0:
            usual = asm.select(asm.cmp("oeq", x, 0.0), x, usual)
        return libm.where_any(asm, rare, name, x, usual)

    return emit


def _tan(asm: Asm, x: Reg) -> Reg:
    if x.type == "double":
        return libm.call(asm, "tan", x)
    quadrant, r, _ = _quadrant(asm, asm.cast("fpext", x, "double"))
    sine, cosine = _pair(asm, r, None)
    odd = asm.cmp("ne", quadrant & 1, 0)
    quotient = asm.select(odd, -cosine, sine) / asm.select(odd, sine, cosine)
    usual = asm.select(asm.cmp("oeq", x, 0.0), x, asm.cast("fptrunc", quotient, "float"))
    return libm.where_any(asm, asm.cmp("uge", asm.intrinsic("llvm.fabs", x), _FLOAT_LIMIT), "tan", x, usual)


# atan(t) = t + t^3 A(t^2) on |t| <= tan(pi/8).
_ATAN = (
    0.016285756855221028,
    -0.034570561981427744,
    0.04551593220626549,
    -0.05230454270650244,
    0.05878928997834775,
    -0.06666424885738255,
    0.07692296375032143,
    -0.09090908753500877,
    0.11111111105155447,
    -0.14285714285659828,
    0.19999999999999804,
    -0.3333333333333333,
)
_TAN_EIGHTH = 0.41421356237309503


def atan2(asm: Asm, y: Reg, x: Reg) -> Reg:
    """The angle of (x, y) in doubles, signs of zero and infinities as in C."""
    ax, ay = asm.intrinsic("llvm.fabs", x), asm.intrinsic("llvm.fabs", y)
    steep = asm.cmp("olt", ax, ay)
    small, large = asm.select(steep, ax, ay), asm.select(steep, ay, ax)
    both = asm.cmp("oeq", ax, float("inf")) & asm.cmp("oeq", ay, float("inf"))
    small, large = asm.select(both, 1.0, small), asm.select(both, 1.0, large)
    huge = asm.cmp("ogt", large, 2.0**1000)
    small, large = asm.select(huge, small * 0.5, small), asm.select(huge, large * 0.5, large)
    wide = asm.cmp("ogt", small, large * _TAN_EIGHTH)
    numerator = asm.select(wide, small - large, small)
    denominator = asm.select(wide, small + large, asm.select(asm.cmp("oeq", large, 0.0), 1.0, large))
    t = numerator / denominator
    z = t * t
    angle = asm.fma(t * z, horner(asm, z, _ATAN), t)
    angle = asm.select(wide, (angle + 3.061616997868383e-17) + QUARTER_PI, angle)
    angle = asm.select(steep, HALF_PI - (angle - _PIO2[1]), angle)
    left = asm.cmp("slt", asm.bits(x), 0)
    angle = asm.select(left, PI - (angle - 2 * _PIO2[1]), angle)
    return asm.intrinsic("llvm.copysign", angle, y)


def _atan(asm: Asm, x: Reg) -> Reg:
    return atan2(asm, x, asm.literal("double", 1.0))


def _leg(asm: Asm, x: Reg) -> Reg:
    """sqrt(1 - x^2), NaN where |x| > 1."""
    return asm.intrinsic("llvm.sqrt", (1.0 - x) * (1.0 + x))


def _asin(asm: Asm, x: Reg) -> Reg:
    return atan2(asm, x, _leg(asm, x))


def _acos(asm: Asm, x: Reg) -> Reg:
    return atan2(asm, _leg(asm, x), x)


FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "sine": _wave("sin", 0),
    "cosine": _wave("cos", 1),
    "tan": _tan,
    "atan2": in_double(atan2),
    "atan": in_double(_atan),
    "asin": in_double(_asin),
    "acos": in_double(_acos),
}
