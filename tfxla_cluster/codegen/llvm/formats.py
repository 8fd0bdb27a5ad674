"""How an HLO element lives in memory and in registers.

Narrow floats (f16, bf16, f8) are computed in f32: a register holds the f32 value, already rounded to the
narrow type after each operation. A 4-bit integer is the low half of a byte in memory, and a byte extended by
its sign or zeros in registers. pred is i1 in registers
and a byte in memory. A complex number is two registers.
"""

from __future__ import annotations

from ...ir.dtype import DType
from ..kernel.narrow_floats import FORMATS, FloatFormat
from .asm import Asm
from .operand import Reg


def register_type(dtype: DType) -> str:
    """The LLVM type of one register that holds `dtype` (of each part of a complex)."""
    if dtype.kind == "pred":
        return "i1"
    if dtype.kind in ("int", "uint"):
        return f"i{max(dtype.bits, 8)}"
    return "double" if dtype.name in ("f64", "c128") else "float"


def memory_type(dtype: DType) -> str:
    """The LLVM type of one element in memory (of each part of a complex)."""
    if dtype.kind == "pred":
        return "i8"
    return f"i{dtype.bits}" if dtype.name in FORMATS else register_type(dtype)


def work_bits(dtype: DType) -> int:
    """Bits a lane of `dtype` takes in a vector register."""
    return {"i1": 8, "float": 32, "double": 64}.get(register_type(dtype)) or max(dtype.bits, 8)


def from_memory(asm: Asm, dtype: DType, raw: Reg) -> Reg:
    """A register's form of an element of `dtype` as it lies in memory."""
    if dtype.kind == "pred":
        return asm.cmp("ne", raw, 0)
    if dtype.name == "f16":
        return asm.cast("fpext", asm.cast("bitcast", raw, "half"), "float")
    if dtype.name == "bf16":
        return asm.cast("bitcast", asm.cast("zext", raw, "i32") << 16, "float")
    if dtype.name in FORMATS:
        return widen_f8(asm, FORMATS[dtype.name], raw)
    return extend_nibble(asm, dtype, raw)


def to_memory(asm: Asm, dtype: DType, value: Reg) -> Reg:
    """The bits that lie in memory for a value of `dtype`."""
    if dtype.kind == "pred":
        return asm.cast("zext", value, "i8")
    if dtype.name == "f16":
        return asm.cast("bitcast", asm.cast("fptrunc", value, "half"), "i16")
    if dtype.name == "bf16":
        return asm.cast("trunc", asm.bits(value) >> 16, "i16")
    if dtype.name in FORMATS:
        return narrow_f8(asm, FORMATS[dtype.name], value)
    return value & 15 if dtype.bits == 4 else value


def extend_nibble(asm: Asm, dtype: DType, x: Reg) -> Reg:
    """A 4-bit integer's byte, extended from its low bits; other values as they are."""
    if dtype.bits != 4:
        return x
    if dtype.kind == "uint":
        return x & 15
    return asm.op("ashr", x << 4, 4)


def round_to(asm: Asm, dtype: DType, value: Reg) -> Reg:
    """The f32 `value` rounded to the nearest even number of `dtype` (itself for f32, f64 and others)."""
    if dtype.name == "f16":
        return asm.cast("fpext", asm.cast("fptrunc", value, "half"), "float")
    if dtype.name == "bf16":
        return round_mantissa(asm, value, 7)
    if dtype.name in FORMATS:
        return widen_f8(asm, FORMATS[dtype.name], narrow_f8(asm, FORMATS[dtype.name], value))
    return value


def round_mantissa(asm: Asm, value: Reg, mantissa: int) -> Reg:
    """f32 or f64 `value` rounded to `mantissa` fraction bits, exponent range kept; NaN stays NaN."""
    drop = (23 if value.type == "float" else 52) - mantissa
    bits = asm.bits(value)
    odd = (bits >> drop) & 1
    rounded = (bits + (odd + ((1 << drop - 1) - 1))) & -(1 << drop)
    quiet = asm.cast("bitcast", rounded, value.type)
    return asm.select(asm.is_nan(value), asm.literal(value.type, float("nan")), quiet)


def narrow_f8(asm: Asm, form: FloatFormat, value: Reg) -> Reg:
    """The i8 code of an f32, rounded to nearest even; too large gives infinity, or NaN without one."""
    bits = asm.bits(value)
    magnitude, sign = bits & 0x7FFFFFFF, (bits >> 24) & 0x80
    absolute = asm.cast("bitcast", magnitude, "float")
    drop = 23 - form.mantissa
    odd = (magnitude >> drop) & 1
    normal = ((magnitude + (odd + ((1 << drop - 1) - 1))) >> drop) - (127 - form.bias << form.mantissa)
    # Adding 2^k with an ulp of one denormal step rounds to the denormal grid; the low bits are the code.
    anchor = 2.0 ** (23 + 1 - form.bias - form.mantissa)
    small = asm.bits(absolute + anchor) - asm.bits(asm.literal("float", anchor))
    smallest_normal = 2.0 ** (1 - form.bias)
    code = asm.select(asm.cmp("olt", absolute, smallest_normal), small, normal)
    over = form.nan if form.finite else form.infinite
    large = asm.cmp("ugt", code, form.largest)
    nan_in, inf_in = asm.is_nan(value), asm.cmp("oeq", absolute, float("inf"))
    result = asm.select(large | inf_in, over, code)
    result = asm.select(nan_in, form.nan, result)
    if form.fnuz:
        negative = asm.select(asm.cmp("eq", result, 0), 0, sign)
        return asm.cast("trunc", result | negative, "i8")
    return asm.cast("trunc", result | sign, "i8")


def widen_f8(asm: Asm, form: FloatFormat, raw: Reg) -> Reg:
    """The f32 of an i8 code."""
    code = asm.cast("zext", raw, "i32")
    magnitude, sign = code & 0x7F, (code & 0x80) << 24
    step = 2.0 ** (1 - form.bias - form.mantissa)
    small = asm.cast("sitofp", magnitude, "float") * step
    shifted = (magnitude << 23 - form.mantissa) + (127 - form.bias << 23)
    normal = asm.cast("bitcast", shifted, "float")
    value = asm.select(asm.cmp("ult", magnitude, 1 << form.mantissa), small, normal)
    nan = asm.literal("float", float("nan"))
    if form.fnuz:
        special = asm.cmp("eq", code, 0x80)
        value = asm.select(special, nan, value)
    elif form.finite:
        value = asm.select(asm.cmp("eq", magnitude, 0x7F), nan, value)
    else:
        value = asm.select(asm.cmp("eq", magnitude, form.infinite), float("inf"), value)
        value = asm.select(asm.cmp("ugt", magnitude, form.infinite), nan, value)
    return asm.cast("bitcast", asm.bits(value) | sign, "float")
