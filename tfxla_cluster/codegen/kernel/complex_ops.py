"""Opcodes on complex numbers, as operations on their real and imaginary parts: one text for every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Real = Any
"""A real value of a target: it has arithmetic operators, its comparisons `&`, `|` and `~`."""
Pair = tuple[Real, Real]
INF = float("inf")


class Reals(Protocol):
    """What a target has for real values; a float beside one takes its type."""

    def literal(self, like: Real, value: float) -> Real: ...
    def is_single(self, x: Real) -> bool: ...
    def select(self, test: Real, yes: Real | float, no: Real | float) -> Real: ...
    def equal(self, x: Real, y: Real | float) -> Real: ...
    def less(self, x: Real, y: Real | float) -> Real: ...
    def greater(self, x: Real, y: Real | float) -> Real: ...
    def at_least(self, x: Real, y: Real | float) -> Real: ...
    def is_nan(self, x: Real) -> Real: ...
    def fabs(self, x: Real) -> Real: ...
    def copysign(self, x: Real | float, sign: Real) -> Real: ...
    def sqrt(self, x: Real) -> Real: ...
    def fma(self, x: Real, y: Real, z: Real | float) -> Real: ...
    def maximum(self, x: Real, y: Real) -> Real: ...
    def minimum(self, x: Real, y: Real) -> Real: ...
    def exp(self, x: Real) -> Real: ...
    def expm1(self, x: Real) -> Real: ...
    def log(self, x: Real) -> Real: ...
    def log1p(self, x: Real) -> Real: ...
    def sine(self, x: Real) -> Real: ...
    def cosine(self, x: Real) -> Real: ...
    def sinh(self, x: Real) -> Real: ...
    def cosh(self, x: Real) -> Real: ...
    def atan2(self, y: Real, x: Real) -> Real: ...
    def inverse_power(self, x: Real) -> Real:
        """The reciprocal of the power of two below x > 0."""


def multiply(m: Reals, x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _scaled(m: Reals, x: Pair) -> tuple[Pair, Real]:
    """x divided by the power of two below its larger part, and that power's reciprocal."""
    largest = m.maximum(m.fabs(x[0]), m.fabs(x[1]))
    usual = m.greater(largest, 0.0) & m.less(largest, INF)
    inverse = m.select(usual, m.inverse_power(largest), 1.0)
    return (x[0] * inverse, x[1] * inverse), inverse


def divide(m: Reals, x: Pair, y: Pair) -> Pair:
    """By the conjugate, the divisor scaled first; x / 0 and infinities as C99's Annex G."""
    (a, b) = x
    (c, d), inverse = _scaled(m, y)
    norm = c * c + d * d
    real, imag = (a * c + b * d) / norm * inverse, (b * c - a * d) / norm * inverse
    lost = m.is_nan(real) & m.is_nan(imag)
    number = ~(m.is_nan(a) & m.is_nan(b))
    by_zero = lost & m.equal(norm, 0.0) & number
    infinity = m.copysign(INF, y[0])
    real, imag = m.select(by_zero, infinity * a, real), m.select(by_zero, infinity * b, imag)
    x_infinite = m.equal(m.fabs(a), INF) | m.equal(m.fabs(b), INF)
    y_infinite = m.equal(m.fabs(y[0]), INF) | m.equal(m.fabs(y[1]), INF)
    x_finite = m.less(m.fabs(a), INF) & m.less(m.fabs(b), INF)
    y_finite = m.less(m.fabs(y[0]), INF) & m.less(m.fabs(y[1]), INF)
    a1, b1 = _unit(m, a), _unit(m, b)
    over = lost & x_infinite & y_finite
    real = m.select(over, (a1 * y[0] + b1 * y[1]) * INF, real)
    imag = m.select(over, (b1 * y[0] - a1 * y[1]) * INF, imag)
    c1, d1 = _unit(m, y[0]), _unit(m, y[1])
    under = lost & y_infinite & x_finite
    return (m.select(under, (a * c1 + b * d1) * 0.0, real), m.select(under, (b * c1 - a * d1) * 0.0, imag))


def _unit(m: Reals, x: Real) -> Real:
    """+-1 where x is infinite, +-0 elsewhere."""
    return m.copysign(m.select(m.equal(m.fabs(x), INF), m.literal(x, 1.0), 0.0), x)


def absolute(m: Reals, x: Pair) -> Real:
    """hypot: no overflow before the result does; infinity where either part is infinite."""
    a, b = m.fabs(x[0]), m.fabs(x[1])
    small, large = m.minimum(a, b), m.maximum(a, b)
    ratio = small / large
    value = large * m.sqrt(m.fma(ratio, ratio, 1.0))
    value = m.select(m.equal(small, 0.0), large, value)
    infinite = m.equal(a, INF) | m.equal(b, INF)
    return m.select(infinite, INF, value)


def _exp(m: Reals, x: Pair) -> Pair:
    size = m.exp(x[0])
    # A real argument stays real: no inf * 0. At -inf the angle does not matter, whatever it is.
    imag = m.select(m.equal(x[1], 0.0), x[1], size * m.sine(x[1]))
    gone = m.equal(x[0], -INF)
    return m.select(gone, 0.0, size * m.cosine(x[1])), m.select(gone, m.copysign(0.0, x[1]), imag)


def _expm1(m: Reals, x: Pair) -> Pair:
    grown, size = m.expm1(x[0]), m.exp(x[0])
    half = m.sine(x[1] * 0.5)
    real = grown * m.cosine(x[1]) - half * half * 2.0
    return real, m.select(m.equal(x[1], 0.0), x[1], size * m.sine(x[1]))


def _log(m: Reals, x: Pair) -> Pair:
    """log |x| and the angle; near |x| = 1 from the distance to 1, which log alone would lose."""
    a, b = m.fabs(x[0]), m.fabs(x[1])
    large, small = m.maximum(a, b), m.minimum(a, b)
    near = m.log1p(m.fma(large - 1.0, large + 1.0, small * small)) * 0.5
    close = m.greater(large, 0.5) & m.less(large, 2.0)
    return m.select(close, near, _log_absolute(m, x)), m.atan2(x[1], x[0])


def _log_absolute(m: Reals, x: Pair) -> Real:
    """log |x| even where |x| itself would overflow."""
    scaled, inverse = _scaled(m, x)
    return m.log(absolute(m, scaled)) - m.log(inverse)


def _log1p(m: Reals, x: Pair) -> Pair:
    a, b = x
    inner = m.fma(a, a + 2.0, b * b)
    small = m.less(m.maximum(m.fabs(a), m.fabs(b)), 0.5)
    real = m.select(small, m.log1p(inner) * 0.5, _log(m, (a + 1.0, b))[0])
    return real, m.atan2(b, a + 1.0)


def _sqrt(m: Reals, x: Pair) -> Pair:
    a, b = x
    scaled, inverse = _scaled(m, x)
    # sqrt(x) = sqrt(x * s) / sqrt(s), with |x| * s in [1, 3).
    size = absolute(m, scaled)
    root = m.sqrt((size + m.fabs(scaled[0])) * 0.5)
    root_scale = m.sqrt(inverse)
    other = m.fabs(scaled[1]) / (root * 2.0)
    right = m.at_least(a, 0.0)
    real = m.select(right, root, other) / root_scale
    imag = m.select(right, other, root) / root_scale
    zero = m.equal(a, 0.0) & m.equal(b, 0.0)
    real, imag = m.select(zero, 0.0, real), m.select(zero, 0.0, imag)
    infinite = m.equal(m.fabs(b), INF)
    left_end, right_end = m.equal(a, -INF) & ~infinite, m.equal(a, INF) & ~infinite
    real = m.select(infinite | right_end, INF, m.select(left_end, b * 0.0, real))
    real = m.select(left_end & ~m.is_nan(b), 0.0, real)
    imag = m.select(infinite | left_end, INF, m.select(right_end, b * 0.0, imag))
    return real, m.copysign(imag, b)


def _rsqrt(m: Reals, x: Pair) -> Pair:
    one = m.literal(x[0], 1.0)
    return divide(m, (one, m.literal(x[0], 0.0)), _sqrt(m, x))


def _power(m: Reals, x: Pair, y: Pair) -> Pair:
    """exp(y * log(x)); 0 to a positive power is 0, anything to the power 0 is 1."""
    real, imag = _exp(m, multiply(m, y, _log(m, x)))
    zero_base = m.equal(x[0], 0.0) & m.equal(x[1], 0.0)
    vanishes = zero_base & m.greater(y[0], 0.0)
    zero_power = m.equal(y[0], 0.0) & m.equal(y[1], 0.0)
    real = m.select(zero_power, 1.0, m.select(vanishes, 0.0, real))
    return real, m.select(zero_power | vanishes, 0.0, imag)


def _sin(m: Reals, x: Pair) -> Pair:
    return (m.sine(x[0]) * m.cosh(x[1]), m.cosine(x[0]) * m.sinh(x[1]))


def _cos(m: Reals, x: Pair) -> Pair:
    return (m.cosine(x[0]) * m.cosh(x[1]), -(m.sine(x[0]) * m.sinh(x[1])))


def _tanh(m: Reals, x: Pair) -> Pair:
    """(sinh a cosh a + i sin b cos b) / (sinh^2 a + cos^2 b); +-1 where sinh a would overflow."""
    a, b = x
    bound = 9.0 if m.is_single(a) else 20.0
    large = m.greater(m.fabs(a), bound)
    limited = m.select(large, m.copysign(bound, a), a)
    sinh, sine, cosine = m.sinh(limited), m.sine(b), m.cosine(b)
    norm = m.fma(sinh, sinh, cosine * cosine)
    cosh = m.sqrt(m.fma(sinh, sinh, 1.0))
    real, imag = sinh * cosh / norm, sine * cosine / norm
    # Beyond the bound the imaginary part is 4 sin b cos b e^(-2a).
    turn = sine * cosine  # NaN where b is not finite, which only an infinite a outweighs
    one = m.copysign(1.0, a)
    endless = m.equal(m.fabs(a), INF)
    real = m.select(endless, one, m.select(large, one + turn * 0.0, real))
    real = m.select(m.equal(a, 0.0), a, real)
    imag = m.select(large, turn * 4.0 * m.exp(m.fabs(a) * -2.0), imag)
    imag = m.select(endless, m.copysign(0.0, b), imag)
    return real, m.select(m.equal(b, 0.0), b, imag)


def _tan(m: Reals, x: Pair) -> Pair:
    """tan(x) = -i tanh(i x)."""
    real, imag = _tanh(m, (-x[1], x[0]))
    return imag, -real


def _logistic(m: Reals, x: Pair) -> Pair:
    zero, one = (m.literal(x[0], v) for v in (0.0, 1.0))
    grown = _exp(m, (-x[0], -x[1]))
    return divide(m, (one, zero), (grown[0] + 1.0, grown[1]))


def _sign(m: Reals, x: Pair) -> Pair:
    """x / |x|, and 0 at 0."""
    size = absolute(m, x)
    zero = m.equal(size, 0.0)
    return m.select(zero, 0.0, x[0] / size), m.select(zero, 0.0, x[1] / size)


COMPLEX_FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "add": lambda m, x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda m, x, y: (x[0] - y[0], x[1] - y[1]),
    "negate": lambda m, x: (-x[0], -x[1]),
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
