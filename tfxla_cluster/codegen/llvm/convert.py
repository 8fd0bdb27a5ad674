"""convert, bitcast-convert and reduce-precision."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...ir.dtype import DTYPES, DType
from ..kernel.narrow_floats import FORMATS
from .asm import Asm
from .formats import extend_nibble, from_memory, memory_type, register_type, round_mantissa, round_to, to_memory
from .operand import BITS, Reg


def convert(asm: Asm, source: DType, target: DType, parts: tuple[Reg, ...]) -> tuple[Reg, ...]:
    """`parts` of dtype `source` as `target`: to nearest even; floats to integers saturate, NaN gives 0."""
    if source is target:
        return parts
    if target.kind == "complex":
        real = DTYPES["f32" if target.name == "c64" else "f64"]
        origin = _part_dtype(source)
        zero = asm.literal(register_type(real), 0)
        converted = tuple(_convert_real(asm, origin, real, p) for p in parts)
        return converted if len(converted) == 2 else (converted[0], zero)
    if source.kind == "complex" and target.kind == "pred":
        return (asm.cmp("une", parts[0], 0.0) | asm.cmp("une", parts[1], 0.0),)
    return (_convert_real(asm, _part_dtype(source), target, parts[0]),)


def _part_dtype(dtype: DType) -> DType:
    return {"c64": DTYPES["f32"], "c128": DTYPES["f64"]}.get(dtype.name, dtype)


def _convert_real(asm: Asm, source: DType, target: DType, x: Reg) -> Reg:
    kind = register_type(target)
    if source is target:
        return x
    if target.kind == "pred":
        return asm.cmp("une", x, 0.0) if source.is_float else asm.cmp("ne", x, 0)
    if source.kind == "pred":
        return asm.cast("uitofp" if target.is_float else "zext", x, kind)
    if source.is_float and target.is_float:
        return _float_to_float(asm, source, target, x)
    if source.is_float:
        return float_to_integer(asm, target, x)
    if target.is_float:
        return _integer_to_float(asm, source, target, x)
    if BITS[kind] < BITS[x.type]:
        return extend_nibble(asm, target, asm.cast("trunc", x, kind))
    wider = asm.cast("zext" if source.kind == "uint" else "sext", x, kind)
    return extend_nibble(asm, target, wider)


def _float_to_float(asm: Asm, source: DType, target: DType, x: Reg) -> Reg:
    kind = register_type(target)
    if x.type == "float" and kind == "double":
        return asm.cast("fpext", x, kind)
    if x.type == "double" and target.name in FORMATS:
        return round_to(asm, target, _round_to_odd(asm, x))
    narrow = asm.cast("fptrunc", x, kind) if x.type == "double" else x
    return round_to(asm, target, narrow)


def _round_to_odd(asm: Asm, x: Reg) -> Reg:
    """The f32 beside a double whose last bit is 1 unless exact: rounding it again then rounds only once."""
    near = asm.cast("fptrunc", x, "float")
    back = asm.cast("fpext", near, "double")
    bits = asm.bits(near)
    inexact = asm.cmp("one", back, x) & asm.cmp("olt", asm.intrinsic("llvm.fabs", near), float("inf"))
    beyond = asm.cmp("ogt", asm.intrinsic("llvm.fabs", back), asm.intrinsic("llvm.fabs", x))
    truncated = asm.select(beyond, bits - 1, bits)
    return asm.cast("bitcast", asm.select(inexact, truncated | 1, bits), "float")


def float_to_integer(asm: Asm, target: DType, x: Reg) -> Reg:
    """Truncated toward zero; out of range the nearest integer, NaN 0."""
    signed = target.kind == "int"
    if target.bits == 4:
        low, high = (-8.0, 7.0) if signed else (0.0, 15.0)
        inside = asm.select(asm.cmp("olt", x, low), low, x)
        x = asm.select(asm.cmp("ogt", inside, high), high, inside)
    kind = register_type(target)
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat"
    lanes = "" if x.lanes == 1 else f"v{x.lanes}"
    source = "f32" if x.type == "float" else "f64"
    return asm.call(f"{name}.{lanes}{kind}.{lanes}{source}", kind, x.lanes, [x])


def _integer_to_float(asm: Asm, source: DType, target: DType, x: Reg) -> Reg:
    name = "uitofp" if source.kind == "uint" else "sitofp"
    if target.name in FORMATS and source.bits > 16:
        # f32 may round such an integer, and narrowing would then round twice: go by way of f64, or odd.
        wide = asm.cast(name, x, "double")
        return round_to(asm, target, _round_to_odd(asm, wide))
    return round_to(asm, target, asm.cast(name, x, register_type(target)))


def bitcast_convert(asm: Asm, source: DType, target: DType, parts: tuple[Reg, ...]) -> tuple[Reg, ...]:
    """The same bits read as another dtype of the same width."""
    if source is target or source.kind == target.kind == "complex":
        return parts
    if source.bits != target.bits or "complex" in (source.kind, target.kind):
        raise UnsupportedError(f"bitcast-convert of {source.name} to {target.name} is not elementwise")
    raw = to_memory(asm, source, parts[0])
    result = from_memory(asm, target, asm.cast("bitcast", raw, memory_type(target)))
    return (result,)


def reduce_precision(asm: Asm, dtype: DType, x: Reg, exponent: int, mantissa: int) -> Reg:
    """`x` rounded to a float of so many exponent and mantissa bits, too large to infinity, too small to 0."""
    total = 8 if x.type == "float" else 11
    fraction = 23 if x.type == "float" else 52
    if mantissa < fraction:
        x = round_mantissa(asm, x, mantissa)
    if exponent >= total:
        return round_to(asm, dtype, x)
    bias = (1 << exponent - 1) - 1
    largest = 2.0**bias * (2.0 - 2.0**-mantissa)
    magnitude = asm.intrinsic("llvm.fabs", x)
    zero, infinity = (asm.intrinsic("llvm.copysign", asm.literal(x.type, v), x) for v in (0.0, float("inf")))
    small = asm.select(asm.cmp("olt", magnitude, 2.0 ** (1 - bias)), zero, x)
    return round_to(asm, dtype, asm.select(asm.cmp("ogt", magnitude, largest), infinity, small))
