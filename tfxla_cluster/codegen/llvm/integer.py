"""Integer and pred opcodes, with HLO's meaning where hardware differs: x / 0 = -1, x % 0 = x, wide shifts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.dtype import DType
from .asm import Asm
from .formats import extend_nibble
from .operand import BITS, Reg


def emit(asm: Asm, opcode: str, dtype: DType, regs: Sequence[Reg]) -> Reg:
    """The opcode on integers of `dtype`; 4-bit results wrap to 4 bits."""
    return extend_nibble(asm, dtype, INTEGER_FUNCTIONS[opcode](asm, dtype, *regs))


def _plain(name: str) -> Callable[..., Reg]:
    return lambda asm, dtype, a, b: asm.op(name, a, b)


def _signed(name: str) -> Callable[..., Reg]:
    """An intrinsic with a signed and an unsigned form."""
    return lambda asm, dtype, a, b: asm.intrinsic(f"llvm.{'s' if dtype.kind == 'int' else 'u'}{name}", a, b)


def _lowest(x: Reg) -> int:
    return -(1 << BITS[x.type] - 1)


def _divide(asm: Asm, dtype: DType, a: Reg, b: Reg) -> Reg:
    zero = asm.cmp("eq", b, 0)
    if dtype.kind == "uint":
        return asm.select(zero, -1, asm.op("udiv", a, asm.select(zero, 1, b)))
    overflow = asm.cmp("eq", a, _lowest(a)) & asm.cmp("eq", b, -1)
    quotient = asm.op("sdiv", a, asm.select(zero | overflow, 1, b))
    return asm.select(zero, -1, quotient)


def _remainder(asm: Asm, dtype: DType, a: Reg, b: Reg) -> Reg:
    zero = asm.cmp("eq", b, 0)
    if dtype.kind == "uint":
        return asm.select(zero, a, asm.op("urem", a, asm.select(zero, 1, b)))
    overflow = asm.cmp("eq", b, -1)
    rest = asm.op("srem", a, asm.select(zero | overflow, 1, b))
    return asm.select(zero, a, rest)


def _shift(name: str) -> Callable[..., Reg]:
    """A shift by the width or more (or a negative number) leaves 0, or copies of the sign."""

    def emit_shift(asm: Asm, dtype: DType, a: Reg, b: Reg) -> Reg:
        bits = dtype.bits
        small = asm.cmp("ult", b, bits)
        if name == "ashr":
            return asm.op("ashr", a, asm.select(small, b, bits - 1))
        source = a & 15 if bits == 4 else a
        return asm.select(small, asm.op(name, source, asm.select(small, b, 0)), 0)

    return emit_shift


def _shift_arithmetic(asm: Asm, dtype: DType, a: Reg, b: Reg) -> Reg:
    if dtype.bits == 4:
        a = asm.op("ashr", a << 4, 4)
    return _shift("ashr")(asm, dtype, a, b)


def _power(asm: Asm, dtype: DType, a: Reg, b: Reg) -> Reg:
    """Wrapping power by squaring; a negative exponent gives 1, (-1)^b or 0."""
    one = asm.literal(a.type, 1)
    result, factor, rest = asm.splat(one, max(a.lanes, b.lanes)), *asm.match(a, b)
    for step in range(dtype.bits):
        result = asm.select(asm.cast("trunc", rest, "i1"), result * factor, result)
        if step + 1 < dtype.bits:
            factor, rest = factor * factor, rest >> 1
    if dtype.kind == "uint":
        return result
    odd = asm.cast("trunc", b, "i1")
    minus_one = asm.select(odd, -1, asm.select(odd, one, one))
    inverse = asm.select(asm.cmp("eq", a, 1), 1, asm.select(asm.cmp("eq", a, -1), minus_one, a & 0))
    return asm.select(asm.cmp("slt", b, 0), inverse, result)


def _abs(asm: Asm, dtype: DType, x: Reg) -> Reg:
    return x if dtype.kind == "uint" else asm.intrinsic("llvm.abs", x, tail="false")


def _sign(asm: Asm, dtype: DType, x: Reg) -> Reg:
    if dtype.kind == "uint":
        return asm.intrinsic("llvm.umin", x, 1)
    return asm.intrinsic("llvm.smax", asm.intrinsic("llvm.smin", x, 1), -1)


def _leading_zeros(asm: Asm, dtype: DType, x: Reg) -> Reg:
    if dtype.bits == 4:
        return asm.intrinsic("llvm.ctlz", x & 15, tail="false") - 4
    return asm.intrinsic("llvm.ctlz", x, tail="false")


def _popcount(asm: Asm, dtype: DType, x: Reg) -> Reg:
    return asm.intrinsic("llvm.ctpop", x & 15 if dtype.bits == 4 else x)


INTEGER_FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "add": _plain("add"),
    "subtract": _plain("sub"),
    "multiply": _plain("mul"),
    "and": _plain("and"),
    "or": _plain("or"),
    "xor": _plain("xor"),
    "maximum": _signed("max"),
    "minimum": _signed("min"),
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "shift-left": _shift("shl"),
    "shift-right-logical": _shift("lshr"),
    "shift-right-arithmetic": _shift_arithmetic,
    "abs": _abs,
    "sign": _sign,
    "negate": lambda asm, dtype, x: -x,
    "not": lambda asm, dtype, x: ~x,
    "count-leading-zeros": _leading_zeros,
    "popcnt": _popcount,
}

PRED_FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "and": lambda asm, a, b: a & b,
    "or": lambda asm, a, b: a | b,
    "xor": lambda asm, a, b: a ^ b,
    "not": lambda asm, x: ~x,
    "maximum": lambda asm, a, b: a | b,
    "minimum": lambda asm, a, b: a & b,
    "add": lambda asm, a, b: a | b,
    "multiply": lambda asm, a, b: a & b,
}
