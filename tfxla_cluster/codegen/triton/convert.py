"""convert, bitcast-convert, reduce-precision and the way to memory and back, as Triton expressions."""

from __future__ import annotations

import ml_dtypes

from ...ir.dtype import DTYPES, DType
from ..kernel.narrow_floats import F8, FORMATS, FloatFormat
from .types import integer_type, narrow, type_name

# float type -> (exponent bits, mantissa bits), of those that are no f32 in registers
_PARTS = {"f32": (8, 23), "f64": (11, 52)}
_PARTS |= {name: (form.exponent, form.mantissa) for name, form in FORMATS.items() if name not in F8}
_SHORT = 4  # bits of integers that have bytes


def widened(text: str, dtype: DType) -> str:
    """As f32 where the float is narrower."""
    return f"{text}.to(tl.float32)" if narrow(dtype) and dtype.name not in F8 else text


def rounded(text: str, dtype: DType) -> str:
    """f32 as a value of the narrower `dtype`."""
    if dtype.name in F8:
        return from_memory(to_memory(text, dtype), dtype)
    return f"{text}.to({type_name(dtype)})"


def wrapped(text: str, dtype: DType) -> str:
    """A byte as a value of the integer `dtype`: of 4 bits the low ones, extended; others as they are."""
    if dtype.bits != _SHORT:
        return text
    return f"({low_bits(text, dtype)})" if dtype.kind == "uint" else f"(({text}).to(tl.int8) << 4 >> 4)"


def low_bits(text: str, dtype: DType) -> str:
    """An integer without what extends it to a byte."""
    return f"(({text}) & 15)" if dtype.bits == _SHORT else text


def from_memory(text: str, dtype: DType) -> str:
    """The value of what lies in memory."""
    if dtype.kind == "pred":
        return f"({text} != 0)"
    if dtype.name in F8:
        form = FORMATS[dtype.name]
        special = (form.nan, form.infinite, int(form.finite), int(form.fnuz))
        return f"_widen_f8({text}, {form.mantissa}, {form.bias}, {', '.join(map(str, special))})"
    return wrapped(text, dtype)


def to_memory(text: str, dtype: DType) -> str:
    """What lies in memory of a value; of an f8 it may be any f32, which is rounded to nearest even."""
    if dtype.kind == "pred":
        return f"{text}.to(tl.int8)"
    if dtype.name in F8:
        form = FORMATS[dtype.name]
        return f"_narrow_f8({text}, {form.mantissa}, {form.bias}, {_specials(form)})"
    return low_bits(text, dtype)


def _specials(form: FloatFormat) -> str:
    """The codes of the largest number, of what is larger, of NaN; whether zero has no sign."""
    over = form.nan if form.finite else form.infinite
    return ", ".join(map(str, (form.largest, over, form.nan, int(form.fnuz))))


def convert(text: str, source: DType, target: DType) -> str:
    """To nearest even; floats to integers toward zero and saturating, NaN gives 0; to pred x != 0."""
    name = type_name(target)
    if source == target:
        return text
    if target.kind == "pred":
        return f"({widened(text, source)} != 0)"
    if source.is_float and target.is_integer:
        info = ml_dtypes.iinfo(target.numpy)
        low, high = int(info.min), int(info.max)
        return f"_saturate({widened(text, source)}, {low}, {high}, {float(high + 1)}, {name})"
    if target.is_integer:
        return wrapped(f"{text}.to({name})", target)
    if not narrow(target):
        return f"{text}.to({name})"
    if source.is_float:
        return _narrowed(widened(text, source), source, target)
    # f32 holds integers of 16 bits, f64 those of 32 (and more than f16 has): they are rounded once.
    exact = "f32" if source.kind == "pred" or source.bits <= 16 else "f64"
    return _narrowed(f"{text}.to({type_name(DTYPES[exact])})", DTYPES[exact], target)


def _narrowed(text: str, source: DType, target: DType) -> str:
    """f32 or f64 (of `source`) as a narrower float, rounded once."""
    odd = target.name in F8 and source.name == "f64"
    return rounded(f"_round_to_odd({text})" if odd else text, target)


def bitcast(text: str, source: DType, target: DType) -> str:
    """The same bits as another type of that width; neither is pred."""
    if source == target:
        return text
    bits = f"{to_memory(text, source)}.to({integer_type(source.bits, False)}, bitcast=True)"
    if target.name in F8 or target.bits == _SHORT:
        return from_memory(bits, target)
    return f"{bits}.to({type_name(target)}, bitcast=True)"


def reduce_precision(text: str, dtype: DType, exponent_bits: int, mantissa_bits: int) -> str:
    """Rounded to a float of so many exponent and mantissa bits: too large gives infinity, too small zero."""
    exponents, mantissas = _PARTS[dtype.name]
    unsigned = integer_type(dtype.bits, False)
    top, bottom = (1 << exponents) - 1, -1
    if exponent_bits < exponents:
        bias, small = (1 << (exponents - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        top, bottom = bias + small, max(bias - small, 0)
    exponent_mask = ((1 << exponents) - 1) << mantissas
    numbers = (max(mantissas - mantissa_bits, 0), mantissas, exponent_mask, top, bottom, 1 << (dtype.bits - 1))
    bits = f"{text}.to({unsigned}, bitcast=True)"
    return f"_reduce_precision({bits}, {', '.join(map(str, numbers))}).to({type_name(dtype)}, bitcast=True)"
