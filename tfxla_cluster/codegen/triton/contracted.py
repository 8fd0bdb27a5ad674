"""Kernels whose products may be one instruction with the sum that they are part of, and then are rounded once.

Elementwise kernels are not among them: they give the numbers that each operation alone gives.
"""

from __future__ import annotations

from ..kernel.attention_ir import Attention
from ..kernel.ir import Dot, Kernel, Store
from ..kernel.walk import walk

OPTIONS = (("enable_fp_fusion", True),)  # of Triton's compiler
_HALF_BITS = 16


def may_contract(kernel: Kernel) -> bool:
    """Attention, whose scores are not exact anyway, and a matrix product with all that follows it, where every result
    is rounded to 16 bits or fewer: the gradient of gelu behind one of bf16 took an H200 3 % longer without."""
    statements = list(walk(kernel.body))
    if any(isinstance(s, Attention) for s in statements):
        return True
    stored = [s.buffer.dtype for s in statements if isinstance(s, Store)]
    return any(isinstance(s, Dot) for s in statements) and all(d.is_float and d.bits <= _HALF_BITS for d in stored)
