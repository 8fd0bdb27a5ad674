"""convert, bitcast-convert and reduce-precision as Triton expressions."""

from __future__ import annotations

import ml_dtypes

from ...ir.dtype import DType
from .types import integer_type, narrow, type_name

# float type -> (exponent bits, mantissa bits)
_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def widened(text: str, dtype: DType) -> str:
    """As f32 where the float is narrower."""
    return f"{text}.to(tl.float32)" if narrow(dtype) else text


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
    if not narrow(target):
        return f"{text}.to({name})"
    if source.is_float:
        return f"{widened(text, source)}.to({name})"
    # f32 holds integers of 16 bits, f64 those of 32 (and more than f16 has): they are rounded once.
    exact = "tl.float32" if source.kind == "pred" or source.bits <= 16 else "tl.float64"
    return f"{text}.to({exact}).to({name})"


def bitcast(text: str, source: DType, target: DType) -> str:
    """The same bits as another type of that width; neither is pred."""
    return text if source == target else f"{text}.to({type_name(target)}, bitcast=True)"


def reduce_precision(text: str, dtype: DType, exponent_bits: int, mantissa_bits: int) -> str:
    """Rounded to a float of so many exponent and mantissa bits: too large gives infinity, too small zero."""
    exponents, mantissas = _FORMATS[dtype.name]
    unsigned = integer_type(dtype.bits, False)
    top, bottom = (1 << exponents) - 1, -1
    if exponent_bits < exponents:
        bias, small = (1 << (exponents - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        top, bottom = bias + small, max(bias - small, 0)
    exponent_mask = ((1 << exponents) - 1) << mantissas
    numbers = (max(mantissas - mantissa_bits, 0), mantissas, exponent_mask, top, bottom, 1 << (dtype.bits - 1))
    bits = f"{text}.to({unsigned}, bitcast=True)"
    return f"_reduce_precision({bits}, {', '.join(map(str, numbers))}).to({type_name(dtype)}, bitcast=True)"
