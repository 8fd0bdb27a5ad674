"""What the formulas of complex opcodes ask for, as kernel IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

from ...ir.dtype import DTYPES, PRED, DType
from .ir import Const, Op, Stmt, Var

Operand = Union["Value", float]


@dataclass(frozen=True, slots=True)
class Value:
    """A variable with operators that append statements; a float beside it takes its dtype."""

    m: OpReals
    var: Var

    def __add__(self, other: Operand) -> Value:
        return self.m.op("add", self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.m.op("subtract", self, other)

    def __mul__(self, other: Operand) -> Value:
        return self.m.op("multiply", self, other)

    def __truediv__(self, other: Operand) -> Value:
        return self.m.op("divide", self, other)

    def __neg__(self) -> Value:
        return self.m.op("negate", self)

    def __and__(self, other: Value) -> Value:
        return self.m.op("and", self, other)

    def __or__(self, other: Value) -> Value:
        return self.m.op("or", self, other)

    def __invert__(self) -> Value:
        return self.m.op("not", self)


def _function(opcode: str) -> Callable[..., Value]:
    """The method that is one op of this opcode."""

    def call(self: OpReals, *operands: Value) -> Value:
        return self.op(opcode, *operands)

    return call


class OpReals:
    """complex_ops.Reals; statements go to `append`."""

    def __init__(self, append: Callable[[Stmt], None]) -> None:
        self.append = append

    def value(self, var: Var) -> Value:
        return Value(self, var)

    def constant(self, value: Any, dtype: DType) -> Value:
        out = Var(dtype)
        self.append(Const(out, value))
        return self.value(out)

    def op(self, opcode: str, *operands: Operand, dtype: DType | None = None, **attrs: Any) -> Value:
        """The result has the dtype of the first operand that is a value, unless given."""
        like = next(x.var.dtype for x in operands if isinstance(x, Value))
        values = [x if isinstance(x, Value) else self.constant(x, like) for x in operands]
        out = Var(dtype or like)
        self.append(Op(out, opcode, tuple(v.var for v in values), attrs))
        return self.value(out)

    def literal(self, like: Value, value: float) -> Value:
        return self.constant(value, like.var.dtype)

    def is_single(self, x: Value) -> bool:
        return x.var.dtype.bits == 32

    def select(self, test: Value, yes: Operand, no: Operand) -> Value:
        like = next(x.var.dtype for x in (yes, no) if isinstance(x, Value))
        both = [x if isinstance(x, Value) else self.constant(x, like) for x in (yes, no)]
        return self.op("select", test, *both, dtype=like)

    def equal(self, x: Value, y: Operand) -> Value:
        return self._compare("EQ", x, y)

    def less(self, x: Value, y: Operand) -> Value:
        return self._compare("LT", x, y)

    def greater(self, x: Value, y: Operand) -> Value:
        return self._compare("GT", x, y)

    def at_least(self, x: Value, y: Operand) -> Value:
        return self._compare("GE", x, y)

    def is_nan(self, x: Value) -> Value:
        return self._compare("NE", x, x)

    def _compare(self, direction: str, x: Value, y: Operand) -> Value:
        return self.op("compare", x, y, dtype=PRED, direction=direction)

    def copysign(self, x: Operand, sign: Value) -> Value:
        bits = _bits(sign.var.dtype)
        number = x if isinstance(x, Value) else self.constant(x, sign.var.dtype)
        size = self.op("bitcast-convert", self.fabs(number), dtype=bits)
        top = self.constant(1 << (bits.bits - 1), bits)
        mark = self.op("and", self.op("bitcast-convert", sign, dtype=bits), top)
        return self.op("bitcast-convert", self.op("or", size, mark), dtype=sign.var.dtype)

    def fma(self, x: Value, y: Value, z: Operand) -> Value:
        """f32: rounded once, but where the f64 sum lies between two of them. f64: twice."""
        if not self.is_single(x):
            return x * y + z
        wide = [self.op("convert", v, dtype=DTYPES["f64"]) if isinstance(v, Value) else v for v in (x, y, z)]
        return self.op("convert", self.op("add", self.op("multiply", *wide[:2]), wide[2]), dtype=x.var.dtype)

    def inverse_power(self, x: Value) -> Value:
        dtype, bits = x.var.dtype, _bits(x.var.dtype)
        fraction, top = (23, 0x7F000000) if self.is_single(x) else (52, 0x7FE0000000000000)
        mask = self.constant(((1 << bits.bits) - 1) ^ ((1 << fraction) - 1), bits)
        exponent = self.op("and", self.op("bitcast-convert", x, dtype=bits), mask)
        inverse = self.op("subtract", self.constant(top, bits), exponent)
        return self.op("bitcast-convert", inverse, dtype=dtype)

    fabs, sqrt, maximum, minimum = map(_function, ("abs", "sqrt", "maximum", "minimum"))
    exp, expm1 = map(_function, ("exponential", "exponential-minus-one"))
    log, log1p = map(_function, ("log", "log-plus-one"))
    sine, cosine, sinh, cosh = map(_function, ("sine", "cosine", "sinh", "cosh"))
    atan2 = _function("atan2")


def _bits(dtype: DType) -> DType:
    return DTYPES[f"u{dtype.bits}"]
