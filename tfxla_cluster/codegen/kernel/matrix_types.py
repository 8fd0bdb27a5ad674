"""Element types that a GPU's matrix units multiply."""

from __future__ import annotations

from ...ir.dtype import BF16, DType
from .narrow_floats import F8

# Types of factors and of their sums; a product of any others is multiplied and added one by one.
MATRIX = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "s8": "s32", **dict.fromkeys(F8, "f32")}


def multiplies_as_matrix(factor: DType, total: DType) -> bool:
    """Whether blocks of factors of this type are multiplied whole, and added in that one."""
    return MATRIX.get(factor.name) == total.name


def unit_type(factor: DType) -> DType:
    """The type that the units take for a factor: floats of 8 bits, all of which bf16 has, are multiplied as bf16.
    (Units for 8 bits add up with fewer bits than f32 has.)"""
    return BF16 if factor.name in F8 else factor


def lies_in_memory(dtype: DType) -> bool:
    """Whether what lies in memory is the value as it is multiplied or stored, with nothing to be done to it."""
    return dtype.kind != "pred" and dtype.bits >= 8 and dtype.name not in F8
