"""Element types that a GPU's matrix units multiply."""

from __future__ import annotations

from ...ir.dtype import DType

# Types of factors and of their sums; a product of any others is multiplied and added one by one.
MATRIX = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "s8": "s32"}


def multiplies_as_matrix(factor: DType, total: DType) -> bool:
    """Whether blocks of factors of this type are multiplied whole, and added in that one."""
    return MATRIX.get(factor.name) == total.name
