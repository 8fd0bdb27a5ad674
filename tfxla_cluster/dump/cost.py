"""Bytes and scalar operations of an instruction, counted from shapes: facts for the dump, not choices."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..ir import dim as dims
from ..ir.node import Computation, ConvDims, Instr, WindowDim, callees_first
from ..ir.opcode import OPCODES, element_cost
from ..ir.shape import Shape


def shape_bytes(shape: Shape) -> int:
    """Bytes of a dense buffer (a tuple: of all its arrays), symbolic dims at their sample size."""
    if shape.is_tuple:
        return sum(map(shape_bytes, shape.elements))
    return dims.sample(shape.byte_size) if shape.is_array else 0


def bytes_of(instr: Instr) -> int:
    """Bytes read and written when each distinct operand is read once and each result written once."""
    return shape_bytes(instr.shape) + sum(shape_bytes(o.shape) for o in dict.fromkeys(instr.operands))


def flops_of(instr: Instr) -> int:
    """Scalar operations of one run, by the opcode table: a fusion's are its body's; moves count none; loops one
    iteration."""
    totals: dict[Computation, int] = {}
    for comp in callees_first(instr.called):
        totals[comp] = sum(_own_flops(i, totals) for i in comp.instrs)
    return _own_flops(instr, totals)


def _own_flops(instr: Instr, totals: Mapping[Computation, int]) -> int:
    """`totals`: those of the computations that it calls."""
    category = OPCODES[instr.opcode].category
    if instr.opcode == "dot":
        return 2 * _elements(instr.shape) * _contracted(instr)
    if instr.opcode == "convolution":
        return 2 * _elements(instr.shape) * _taps(instr)
    if category == "reduce" and instr.operands:
        return _elements(instr.operands[0].shape) * _window(instr)
    if category in ("elementwise", "sort", "random"):
        return _elements(instr.shape) * element_cost(instr.opcode)
    return sum(totals[comp] for comp in instr.called)


def _elements(shape: Shape) -> int:
    if shape.is_tuple:
        return sum(map(_elements, shape.elements))
    return dims.sample(shape.element_count) if shape.is_array else 0


def _contracted(instr: Instr) -> int:
    sizes = instr.operands[0].shape.sample_dims
    return math.prod(sizes[axis] for axis in instr.attrs.get("lhs_contracting_dims", ()))


def _taps(instr: Instr) -> int:
    labels = instr.attrs.get("dim_labels")
    sizes = instr.operands[1].shape.sample_dims
    if not isinstance(labels, ConvDims):
        return 1
    return math.prod(sizes[axis] for axis in labels.rhs_spatial) * sizes[labels.rhs_input]


def _window(instr: Instr) -> int:
    """Operations for each input element: overlapping windows read one several times."""
    if instr.opcode != "reduce-window":
        return 1
    window: tuple[WindowDim, ...] = instr.attrs.get("window", ())
    return max(math.prod(dims.sample(d.size) for d in window) // max(math.prod(d.stride for d in window), 1), 1)
