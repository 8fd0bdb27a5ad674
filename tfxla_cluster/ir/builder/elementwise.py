"""Builder methods for elementwise opcodes: one a method, operands in HLO's order.

`not_`, `and_` and `or_` carry an underscore because Python owns the words.
"""

from __future__ import annotations

from ..dtype import DType
from ..node import Instr
from ..shape import array
from .core import Core


class Elementwise(Core):
    """Each operand has the dims of the result (select's predicate and clamp's bounds may be scalars)."""

    def abs(self, x: Instr) -> Instr:
        return self.add_op("abs", x)

    def acos(self, x: Instr) -> Instr:
        return self.add_op("acos", x)

    def acosh(self, x: Instr) -> Instr:
        return self.add_op("acosh", x)

    def asin(self, x: Instr) -> Instr:
        return self.add_op("asin", x)

    def asinh(self, x: Instr) -> Instr:
        return self.add_op("asinh", x)

    def atan(self, x: Instr) -> Instr:
        return self.add_op("atan", x)

    def atanh(self, x: Instr) -> Instr:
        return self.add_op("atanh", x)

    def cbrt(self, x: Instr) -> Instr:
        return self.add_op("cbrt", x)

    def ceil(self, x: Instr) -> Instr:
        return self.add_op("ceil", x)

    def count_leading_zeros(self, x: Instr) -> Instr:
        return self.add_op("count-leading-zeros", x)

    def cosine(self, x: Instr) -> Instr:
        return self.add_op("cosine", x)

    def cosh(self, x: Instr) -> Instr:
        return self.add_op("cosh", x)

    def erf(self, x: Instr) -> Instr:
        return self.add_op("erf", x)

    def exponential(self, x: Instr) -> Instr:
        return self.add_op("exponential", x)

    def exponential_minus_one(self, x: Instr) -> Instr:
        return self.add_op("exponential-minus-one", x)

    def floor(self, x: Instr) -> Instr:
        return self.add_op("floor", x)

    def imag(self, x: Instr) -> Instr:
        return self.add_op("imag", x)

    def is_finite(self, x: Instr) -> Instr:
        return self.add_op("is-finite", x)

    def log(self, x: Instr) -> Instr:
        return self.add_op("log", x)

    def log_plus_one(self, x: Instr) -> Instr:
        return self.add_op("log-plus-one", x)

    def logistic(self, x: Instr) -> Instr:
        return self.add_op("logistic", x)

    def negate(self, x: Instr) -> Instr:
        return self.add_op("negate", x)

    def not_(self, x: Instr) -> Instr:
        return self.add_op("not", x)

    def popcnt(self, x: Instr) -> Instr:
        return self.add_op("popcnt", x)

    def real(self, x: Instr) -> Instr:
        return self.add_op("real", x)

    def round_nearest_afz(self, x: Instr) -> Instr:
        return self.add_op("round-nearest-afz", x)

    def round_nearest_even(self, x: Instr) -> Instr:
        return self.add_op("round-nearest-even", x)

    def rsqrt(self, x: Instr) -> Instr:
        return self.add_op("rsqrt", x)

    def sign(self, x: Instr) -> Instr:
        return self.add_op("sign", x)

    def sine(self, x: Instr) -> Instr:
        return self.add_op("sine", x)

    def sinh(self, x: Instr) -> Instr:
        return self.add_op("sinh", x)

    def sqrt(self, x: Instr) -> Instr:
        return self.add_op("sqrt", x)

    def tan(self, x: Instr) -> Instr:
        return self.add_op("tan", x)

    def tanh(self, x: Instr) -> Instr:
        return self.add_op("tanh", x)

    def copy(self, x: Instr) -> Instr:
        return self.add_op("copy", x)

    def add(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("add", x, y)

    def and_(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("and", x, y)

    def atan2(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("atan2", x, y)

    def complex(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("complex", x, y)

    def divide(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("divide", x, y)

    def maximum(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("maximum", x, y)

    def minimum(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("minimum", x, y)

    def multiply(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("multiply", x, y)

    def or_(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("or", x, y)

    def power(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("power", x, y)

    def remainder(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("remainder", x, y)

    def shift_left(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("shift-left", x, y)

    def shift_right_arithmetic(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("shift-right-arithmetic", x, y)

    def shift_right_logical(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("shift-right-logical", x, y)

    def subtract(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("subtract", x, y)

    def xor(self, x: Instr, y: Instr) -> Instr:
        return self.add_op("xor", x, y)

    def compare(self, x: Instr, y: Instr, direction: str, type: str | None = None) -> Instr:
        """pred: x `direction` y; direction EQ NE LT LE GT GE; type 'TOTALORDER' orders NaN and -0.0 too."""
        return self.add_op("compare", x, y, direction=direction, type=type)

    def select(self, predicate: Instr, on_true: Instr, on_false: Instr) -> Instr:
        return self.add_op("select", predicate, on_true, on_false)

    def clamp(self, low: Instr, x: Instr, high: Instr) -> Instr:
        return self.add_op("clamp", low, x, high)

    def convert(self, x: Instr, dtype: DType) -> Instr:
        return self.add_op("convert", x, shape=array(dtype, x.shape.dims))

    def bitcast_convert(self, x: Instr, dtype: DType) -> Instr:
        """Same bits as another type; a change of width adds or takes the last dimension."""
        have, want, dims = x.shape.element_type.bits, dtype.bits, x.shape.dims
        dims = (*dims, have // want) if have > want else dims[:-1] if have < want else dims
        return self.add_op("bitcast-convert", x, shape=array(dtype, dims))

    def reduce_precision(self, x: Instr, exponent_bits: int, mantissa_bits: int) -> Instr:
        return self.add_op("reduce-precision", x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)

    def map(self, operands: list[Instr], to_apply: object) -> Instr:
        """`to_apply`, a computation of scalars, at each element."""
        rank = operands[0].shape.rank
        return self.add_op("map", *operands, dimensions=tuple(range(rank)), to_apply=to_apply)
