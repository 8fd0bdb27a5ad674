"""HLO instruction -> Unit: one table from opcode to lowering function.

A lowering is a function (instr, target) -> Unit that raises UnsupportedError for what it does not
do. To add an opcode, import its module below and give it one line in LOWERINGS.

Handled by the launch plan, so never lowered here: parameter, constant, tuple, get-tuple-element,
while, conditional, call, bitcast and reshape (they alias), after-all, optimization-barrier.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import UnsupportedError
from ....ir.node import Instr
from ....target import Target
from ..unit import Unit
from . import (
    convolution,
    dimension_size,
    dot,
    fused,
    linear_solve,
    reduce_window,
    rng_bit_generator,
    scatter,
    select_and_scatter,
    sort,
    topk,
)

Lowering = Callable[[Instr, Target], Unit]

LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(fused.OPCODES, fused.lower_single),  # elementwise, moves, iota, gather, reduce
    "cholesky": linear_solve.lower_cholesky,
    "convolution": convolution.lower_convolution,
    "dot": dot.lower_dot,
    "get-dimension-size": dimension_size.lower,
    "reduce-window": reduce_window.lower,
    "rng-bit-generator": rng_bit_generator.lower,
    "scatter": scatter.lower,
    "select-and-scatter": select_and_scatter.lower,
    "triangular-solve": linear_solve.lower_triangular_solve,
    "sort": sort.lower,
    "topk": topk.lower,
    "fusion": fused.lower_fusion,  # loops, reductions, row programs; contraction heroes
}


def lower(instr: Instr, target: Target) -> Unit:
    """The kernels that compute `instr`; UnsupportedError names opcode and dtype."""
    lowering = LOWERINGS.get(instr.opcode)
    if lowering is None:
        what = f"{instr.opcode} {instr.attrs.get('custom_call_target', '')}".rstrip()
        raise UnsupportedError(f"{what} of {instr.shape} has no kernel ({instr.name})")
    return lowering(instr, target)
