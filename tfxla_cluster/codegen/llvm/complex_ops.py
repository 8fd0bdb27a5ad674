"""What the formulas of complex opcodes ask for, as LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass

from .asm import Asm
from .math import FLOAT_FUNCTIONS
from .math.basic import maximum, minimum
from .math.exponential import exp, expm1
from .math.logarithm import log, log1p
from .math.polynomial import in_double
from .math.trigonometric import atan2
from .operand import Operand, Reg

_angle = in_double(atan2)


@dataclass(frozen=True, slots=True)
class AsmReals:
    """complex_ops.Reals on registers."""

    asm: Asm

    def literal(self, like: Reg, value: float) -> Reg:
        return self.asm.literal(like.type, value)

    def is_single(self, x: Reg) -> bool:
        return x.type == "float"

    def select(self, test: Reg, yes: Operand, no: Operand) -> Reg:
        return self.asm.select(test, yes, no)

    def equal(self, x: Reg, y: Operand) -> Reg:
        return self.asm.cmp("oeq", x, y)

    def less(self, x: Reg, y: Operand) -> Reg:
        return self.asm.cmp("olt", x, y)

    def greater(self, x: Reg, y: Operand) -> Reg:
        return self.asm.cmp("ogt", x, y)

    def at_least(self, x: Reg, y: Operand) -> Reg:
        return self.asm.cmp("oge", x, y)

    def is_nan(self, x: Reg) -> Reg:
        return self.asm.is_nan(x)

    def fabs(self, x: Reg) -> Reg:
        return self.asm.intrinsic("llvm.fabs", x)

    def copysign(self, x: Operand, sign: Reg) -> Reg:
        return self.asm.intrinsic("llvm.copysign", self.asm.coerce(x, sign), sign)

    def sqrt(self, x: Reg) -> Reg:
        return self.asm.intrinsic("llvm.sqrt", x)

    def fma(self, x: Reg, y: Reg, z: Operand) -> Reg:
        return self.asm.fma(x, y, z)

    def maximum(self, x: Reg, y: Reg) -> Reg:
        return maximum(self.asm, x, y)

    def minimum(self, x: Reg, y: Reg) -> Reg:
        return minimum(self.asm, x, y)

    def exp(self, x: Reg) -> Reg:
        return exp(self.asm, x)

    def expm1(self, x: Reg) -> Reg:
        return expm1(self.asm, x)

    def log(self, x: Reg) -> Reg:
        return log(self.asm, x)

    def log1p(self, x: Reg) -> Reg:
        return log1p(self.asm, x)

    def sine(self, x: Reg) -> Reg:
        return FLOAT_FUNCTIONS["sine"](self.asm, x)

    def cosine(self, x: Reg) -> Reg:
        return FLOAT_FUNCTIONS["cosine"](self.asm, x)

    def sinh(self, x: Reg) -> Reg:
        return FLOAT_FUNCTIONS["sinh"](self.asm, x)

    def cosh(self, x: Reg) -> Reg:
        return FLOAT_FUNCTIONS["cosh"](self.asm, x)

    def atan2(self, y: Reg, x: Reg) -> Reg:
        return _angle(self.asm, y, x)

    def inverse_power(self, x: Reg) -> Reg:
        fraction, top = (23, 0x7F000000) if x.type == "float" else (52, 0x7FE0000000000000)
        exponent = self.asm.bits(x) & -(1 << fraction)
        return self.asm.cast("bitcast", self.asm.op("sub", top, exponent), x.type)
