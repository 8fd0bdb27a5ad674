"""operand-folding: transpose and reverse before a dot or convolution --> other dimension numbers.

Kernels of both take any dimension numbers, so the moved copy need not exist.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.node import ConvDims, Instr, WindowDim
from .base import of_rules


def _fold_side(i: Instr, side: int, name: str) -> Instr | None:
    """dot(transpose(x), y) --> dot(x, y), where the order of x's free dimensions stays."""
    moved = i.operands[side]
    if moved.opcode != "transpose":
        return None
    order = moved.attrs["dimensions"]
    batch, summed = i.attrs[f"{name}_batch_dims"], i.attrs[f"{name}_contracting_dims"]
    free = [order[d] for d in range(len(order)) if d not in batch and d not in summed]
    if free != sorted(free):
        return None
    operands = list(i.operands)
    operands[side] = moved.operands[0]
    numbers = {
        f"{name}_batch_dims": tuple(order[d] for d in batch),
        f"{name}_contracting_dims": tuple(order[d] for d in summed),
    }
    return i.replace(operands=tuple(operands), attrs={**i.attrs, **numbers}, sources=i.sources | moved.sources)


def dot_of_transpose(i: Instr) -> Instr | None:
    """dot(transpose(x), y) --> dot(x, y) with other dimension numbers; the same for y"""
    return _fold_side(i, 0, "lhs") or _fold_side(i, 1, "rhs")


def convolution_of_transpose(i: Instr) -> Instr | None:
    """convolution(transpose(x), k) --> convolution(x, k) with other labels; the same for k"""
    for side in (0, 1):
        moved = i.operands[side]
        if moved.opcode == "transpose":
            order = moved.attrs["dimensions"]
            operands = list(i.operands)
            operands[side] = moved.operands[0]
            labels = _relabelled(i.attrs["dim_labels"], side, order)
            return i.replace(
                operands=tuple(operands), attrs={**i.attrs, "dim_labels": labels}, sources=i.sources | moved.sources
            )
    return None


def _relabelled(n: ConvDims, side: int, order: tuple[int, ...]) -> ConvDims:
    if side == 0:
        return replace(
            n,
            lhs_batch=order[n.lhs_batch],
            lhs_feature=order[n.lhs_feature],
            lhs_spatial=tuple(order[d] for d in n.lhs_spatial),
        )
    return replace(
        n,
        rhs_input=order[n.rhs_input],
        rhs_output=order[n.rhs_output],
        rhs_spatial=tuple(order[d] for d in n.rhs_spatial),
    )


def convolution_of_reverse(i: Instr) -> Instr | None:
    """convolution(x, reverse(k)) of spatial dimensions --> convolution(x, k) that walks the window backwards"""
    moved = i.operands[1]
    spatial = i.attrs["dim_labels"].rhs_spatial
    if moved.opcode != "reverse" or not set(moved.attrs["dimensions"]) <= set(spatial):
        return None
    window: tuple[WindowDim, ...] = tuple(
        replace(w, reversal=w.reversal != (d in moved.attrs["dimensions"])) for w, d in zip(i.attrs["window"], spatial)
    )
    return i.replace(
        operands=(i.operands[0], moved.operands[0]),
        attrs={**i.attrs, "window": window},
        sources=i.sources | moved.sources,
    )


PASS = of_rules(
    "operand-folding", {"dot": [dot_of_transpose], "convolution": [convolution_of_transpose, convolution_of_reverse]}
)
