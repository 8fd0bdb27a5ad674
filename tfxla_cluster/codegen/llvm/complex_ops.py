"""Opcodes on complex numbers, as operations on the real and imaginary registers."""

from __future__ import annotations

from collections.abc import Callable

from .asm import Asm
from .math import FLOAT_FUNCTIONS
from .math.basic import maximum, minimum
from .math.exponential import exp, expm1
from .math.logarithm import log, log1p
from .math.polynomial import in_double
from .math.trigonometric import atan2
from .operand import Reg

Pair = tuple[Reg, Reg]
_sine, _cosine = FLOAT_FUNCTIONS["sine"], FLOAT_FUNCTIONS["cosine"]
_angle = in_double(atan2)
INF = float("inf")


def _fabs(asm: Asm, x: Reg) -> Reg:
    return asm.intrinsic("llvm.fabs", x)


def _copysign(asm: Asm, x: Reg | float, sign: Reg) -> Reg:
    return asm.intrinsic("llvm.copysign", asm.coerce(x, sign), sign)


def multiply(asm: Asm, x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _scaled(asm: Asm, x: Pair) -> tuple[Pair, Reg]:
    """x divided by the power of two below its larger part, and that power's reciprocal."""
    largest = maximum(asm, _fabs(asm, x[0]), _fabs(asm, x[1]))
    bits = asm.bits(largest)
    fraction, top = (23, 0x7F000000) if largest.type == "float" else (52, 0x7FE0000000000000)
    exponent = bits & -(1 << fraction)
    inverse = asm.cast("bitcast", asm.op("sub", top, exponent), largest.type)
    usual = asm.cmp("ogt", largest, 0.0) & asm.cmp("olt", largest, INF)
    inverse = asm.select(usual, inverse, 1.0)
    return (x[0] * inverse, x[1] * inverse), inverse


def divide(asm: Asm, x: Pair, y: Pair) -> Pair:
    """By the conjugate, the divisor scaled first; x / 0 and infinities as C99's Annex G."""
    (a, b) = x
    (c, d), inverse = _scaled(asm, y)
    norm = c * c + d * d
    real, imag = (a * c + b * d) / norm * inverse, (b * c - a * d) / norm * inverse
    lost = asm.is_nan(real) & asm.is_nan(imag)
    number = ~(asm.is_nan(a) & asm.is_nan(b))
    by_zero = lost & asm.cmp("oeq", norm, 0.0) & number
    infinity = _copysign(asm, INF, y[0])
    real, imag = asm.select(by_zero, infinity * a, real), asm.select(by_zero, infinity * b, imag)
    x_infinite = asm.cmp("oeq", _fabs(asm, a), INF) | asm.cmp("oeq", _fabs(asm, b), INF)
    y_infinite = asm.cmp("oeq", _fabs(asm, y[0]), INF) | asm.cmp("oeq", _fabs(asm, y[1]), INF)
    x_finite = asm.cmp("olt", _fabs(asm, a), INF) & asm.cmp("olt", _fabs(asm, b), INF)
    y_finite = asm.cmp("olt", _fabs(asm, y[0]), INF) & asm.cmp("olt", _fabs(asm, y[1]), INF)
    a1, b1 = _unit(asm, a), _unit(asm, b)
    over = lost & x_infinite & y_finite
    real = asm.select(over, (a1 * y[0] + b1 * y[1]) * INF, real)
    imag = asm.select(over, (b1 * y[0] - a1 * y[1]) * INF, imag)
    c1, d1 = _unit(asm, y[0]), _unit(asm, y[1])
    under = lost & y_infinite & x_finite
    return (asm.select(under, (a * c1 + b * d1) * 0.0, real), asm.select(under, (b * c1 - a * d1) * 0.0, imag))


def _unit(asm: Asm, x: Reg) -> Reg:
    """+-1 where x is infinite, +-0 elsewhere."""
    return _copysign(asm, asm.select(asm.cmp("oeq", _fabs(asm, x), INF), asm.literal(x.type, 1.0), 0.0), x)


def absolute(asm: Asm, x: Pair) -> Reg:
    """hypot: no overflow before the result does; infinity where either part is infinite."""
    a, b = _fabs(asm, x[0]), _fabs(asm, x[1])
    small, large = minimum(asm, a, b), maximum(asm, a, b)
    ratio = small / large
    value = large * asm.intrinsic("llvm.sqrt", asm.fma(ratio, ratio, 1.0))
    value = asm.select(asm.cmp("oeq", small, 0.0), large, value)
    infinite = asm.cmp("oeq", a, INF) | asm.cmp("oeq", b, INF)
    return asm.select(infinite, INF, value)


def _exp(asm: Asm, x: Pair) -> Pair:
    size = exp(asm, x[0])
    # A real argument stays real: no inf * 0. At -inf the angle does not matter, whatever it is.
    imag = asm.select(asm.cmp("oeq", x[1], 0.0), x[1], size * _sine(asm, x[1]))
    gone = asm.cmp("oeq", x[0], -INF)
    return asm.select(gone, 0.0, size * _cosine(asm, x[1])), asm.select(gone, _copysign(asm, 0.0, x[1]), imag)


def _expm1(asm: Asm, x: Pair) -> Pair:
    grown, size = expm1(asm, x[0]), exp(asm, x[0])
    half = _sine(asm, x[1] * 0.5)
    real = grown * _cosine(asm, x[1]) - half * half * 2.0
    return real, asm.select(asm.cmp("oeq", x[1], 0.0), x[1], size * _sine(asm, x[1]))


def _log(asm: Asm, x: Pair) -> Pair:
    """log |x| and the angle; near |x| = 1 from the distance to 1, which log alone would lose."""
    a, b = _fabs(asm, x[0]), _fabs(asm, x[1])
    large, small = maximum(asm, a, b), minimum(asm, a, b)
    near = log1p(asm, asm.fma(large - 1.0, large + 1.0, small * small)) * 0.5
    close = asm.cmp("ogt", large, 0.5) & asm.cmp("olt", large, 2.0)
    return asm.select(close, near, _log_absolute(asm, x)), _angle(asm, x[1], x[0])


def _log_absolute(asm: Asm, x: Pair) -> Reg:
    """log |x| even where |x| itself would overflow."""
    scaled, inverse = _scaled(asm, x)
    return log(asm, absolute(asm, scaled)) - log(asm, inverse)


def _log1p(asm: Asm, x: Pair) -> Pair:
    a, b = x
    inner = asm.fma(a, a + 2.0, b * b)
    small = asm.cmp("olt", maximum(asm, _fabs(asm, a), _fabs(asm, b)), 0.5)
    real = asm.select(small, log1p(asm, inner) * 0.5, _log(asm, (a + 1.0, b))[0])
    return real, _angle(asm, b, a + 1.0)


def _sqrt(asm: Asm, x: Pair) -> Pair:
    a, b = x
    scaled, inverse = _scaled(asm, x)
    # sqrt(x) = sqrt(x * s) / sqrt(s), with |x| * s in [1, 3).
    size = absolute(asm, scaled)
    root = asm.intrinsic("llvm.sqrt", (size + _fabs(asm, scaled[0])) * 0.5)
    root_scale = asm.intrinsic("llvm.sqrt", inverse)
    other = _fabs(asm, scaled[1]) / (root * 2.0)
    right = asm.cmp("oge", a, 0.0)
    real = asm.select(right, root, other) / root_scale
    imag = asm.select(right, other, root) / root_scale
    zero = asm.cmp("oeq", a, 0.0) & asm.cmp("oeq", b, 0.0)
    real, imag = asm.select(zero, 0.0, real), asm.select(zero, 0.0, imag)
    infinite = asm.cmp("oeq", _fabs(asm, b), INF)
    left_end, right_end = asm.cmp("oeq", a, -INF) & ~infinite, asm.cmp("oeq", a, INF) & ~infinite
    real = asm.select(infinite | right_end, INF, asm.select(left_end, b * 0.0, real))
    real = asm.select(left_end & ~asm.is_nan(b), 0.0, real)
    imag = asm.select(infinite | left_end, INF, asm.select(right_end, b * 0.0, imag))
    return real, _copysign(asm, imag, b)


def _rsqrt(asm: Asm, x: Pair) -> Pair:
    one = asm.literal(x[0].type, 1.0)
    return divide(asm, (one, asm.literal(x[0].type, 0.0)), _sqrt(asm, x))


def _power(asm: Asm, x: Pair, y: Pair) -> Pair:
    """exp(y * log(x)); 0 to a positive power is 0, anything to the power 0 is 1."""
    real, imag = _exp(asm, multiply(asm, y, _log(asm, x)))
    zero_base = asm.cmp("oeq", x[0], 0.0) & asm.cmp("oeq", x[1], 0.0)
    vanishes = zero_base & asm.cmp("ogt", y[0], 0.0)
    zero_power = asm.cmp("oeq", y[0], 0.0) & asm.cmp("oeq", y[1], 0.0)
    real = asm.select(zero_power, 1.0, asm.select(vanishes, 0.0, real))
    return real, asm.select(zero_power | vanishes, 0.0, imag)


def _sin(asm: Asm, x: Pair) -> Pair:
    return (
        _sine(asm, x[0]) * FLOAT_FUNCTIONS["cosh"](asm, x[1]),
        _cosine(asm, x[0]) * FLOAT_FUNCTIONS["sinh"](asm, x[1]),
    )


def _cos(asm: Asm, x: Pair) -> Pair:
    return (
        _cosine(asm, x[0]) * FLOAT_FUNCTIONS["cosh"](asm, x[1]),
        -(_sine(asm, x[0]) * FLOAT_FUNCTIONS["sinh"](asm, x[1])),
    )


def _tanh(asm: Asm, x: Pair) -> Pair:
    """(sinh a cosh a + i sin b cos b) / (sinh^2 a + cos^2 b); +-1 where sinh a would overflow."""
    a, b = x
    bound = 9.0 if a.type == "float" else 20.0
    large = asm.cmp("ogt", _fabs(asm, a), bound)
    limited = asm.select(large, _copysign(asm, bound, a), a)
    sinh, sine, cosine = FLOAT_FUNCTIONS["sinh"](asm, limited), _sine(asm, b), _cosine(asm, b)
    norm = asm.fma(sinh, sinh, cosine * cosine)
    cosh = asm.intrinsic("llvm.sqrt", asm.fma(sinh, sinh, 1.0))
    real, imag = sinh * cosh / norm, sine * cosine / norm
    # Beyond the bound the imaginary part is 4 sin b cos b e^(-2a).
    turn = sine * cosine  # NaN where b is not finite, which only an infinite a outweighs
    one = _copysign(asm, 1.0, a)
    endless = asm.cmp("oeq", _fabs(asm, a), INF)
    real = asm.select(endless, one, asm.select(large, one + turn * 0.0, real))
    real = asm.select(asm.cmp("oeq", a, 0.0), a, real)
    imag = asm.select(large, turn * 4.0 * exp(asm, _fabs(asm, a) * -2.0), imag)
    imag = asm.select(endless, _copysign(asm, 0.0, b), imag)
    return real, asm.select(asm.cmp("oeq", b, 0.0), b, imag)


def _tan(asm: Asm, x: Pair) -> Pair:
    """tan(x) = -i tanh(i x)."""
    real, imag = _tanh(asm, (-x[1], x[0]))
    return imag, -real


def _logistic(asm: Asm, x: Pair) -> Pair:
    zero, one = (asm.literal(x[0].type, v) for v in (0.0, 1.0))
    grown = _exp(asm, (-x[0], -x[1]))
    return divide(asm, (one, zero), (grown[0] + 1.0, grown[1]))


def _sign(asm: Asm, x: Pair) -> Pair:
    """x / |x|, and 0 at 0."""
    size = absolute(asm, x)
    zero = asm.cmp("oeq", size, 0.0)
    return asm.select(zero, 0.0, x[0] / size), asm.select(zero, 0.0, x[1] / size)


COMPLEX_FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "add": lambda asm, x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda asm, x, y: (x[0] - y[0], x[1] - y[1]),
    "negate": lambda asm, x: (-x[0], -x[1]),
    "multiply": multiply,
    "divide": divide,
    "power": _power,
    "sign": _sign,
    "exponential": _exp,
    "exponential-minus-one": _expm1,
    "log": _log,
    "log-plus-one": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "sine": _sin,
    "cosine": _cos,
    "tan": _tan,
    "tanh": _tanh,
    "logistic": _logistic,
}
