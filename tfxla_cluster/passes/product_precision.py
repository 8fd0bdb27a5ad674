"""product-precision: dots and convolutions of ops that are no products in TensorFlow keep all bits of f32.

TensorFlow's switch lets its products, by default, drop bits of f32 (tf32); its bridge says so of every dot that it
makes, those of ops that TensorFlow computes in other ways too: resizing an image, taking patches from one.
"""

from __future__ import annotations

from ..ir.dtype import F32
from ..ir.node import Computation, Instr
from ..ir.rewrite import rebuild
from .base import of_computations

# Products in TensorFlow itself, by op type; its depthwise convolutions take no matrix units anywhere.
PRODUCTS = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "_Fused")
    for name in [
        "BatchMatMul",
        "BatchMatMulV2",
        "BatchMatMulV3",
        "Conv",
        "Conv2D",
        "Conv2DBackpropFilter",
        "Conv2DBackpropFilterV2",
        "Conv2DBackpropInput",
        "Conv2DBackpropInputV2",
        "Conv3D",
        "Conv3DBackpropFilter",
        "Conv3DBackpropFilterV2",
        "Conv3DBackpropInput",
        "Conv3DBackpropInputV2",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput",
        "Einsum",
        "MatMul",
        "XlaConv",
        "XlaConvV2",
        "XlaDot",
        "XlaDotV2",
        "XlaEinsum",
    ]
)


def keep_bits(comp: Computation) -> Computation:
    """The computation with the highest precision on such instructions; the same one where there is none."""
    new = {i: _precise(i) for i in comp.instrs if i.opcode in ("dot", "convolution") and _loses_bits(i)}
    return rebuild(comp, new) if new else comp


def _loses_bits(instr: Instr) -> bool:
    """Whether a target may drop bits of f32 that the op (known by name) would not; what says more of its precision is
    as it says."""
    op = instr.metadata.op_type
    said = set(instr.attrs.get("operand_precision", ()))
    if op in ("", *PRODUCTS) or instr.operands[0].shape.dtype != F32:
        return False
    return said <= {"default"} and not instr.attrs.get("algorithm")


def _precise(instr: Instr) -> Instr:
    return instr.replace(attrs={**instr.attrs, "operand_precision": ("highest", "highest")})


PASS = of_computations("product-precision", keep_bits)
