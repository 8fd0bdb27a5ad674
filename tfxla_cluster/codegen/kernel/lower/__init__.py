"""HLO instruction -> Unit: one table from opcode to lowering function.

A lowering is a function (instr, target) -> Unit that raises UnsupportedError for what it does not
do; one of TUNED takes knobs too, which it asks for the sizes of its blocks. To add an opcode, import its module below
and give it one line in LOWERINGS or TUNED.

Handled by the launch plan, so never lowered here: parameter, constant, tuple, get-tuple-element,
while, conditional, call, bitcast and reshape (they alias), after-all, optimization-barrier.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import data_checks, user_kernels
from ....errors import UnsupportedError, UserKernelError
from ....ir.node import Instr
from ....target import Target
from ..choice import DEFAULT, Candidates, Choice, Knobs
from ..unit import Unit
from . import (
    convolution,
    data_check,
    dimension_size,
    dot,
    fft,
    fused,
    lapack,
    linear_solve,
    reduce_window,
    rng_bit_generator,
    scatter,
    select_and_scatter,
    sort,
    topk,
)

Lowering = Callable[[Instr, Target], Unit]
TunedLowering = Callable[[Instr, Target, Knobs], Unit]

TUNED: dict[str, TunedLowering] = {
    **dict.fromkeys(fused.OPCODES, fused.lower_single),  # elementwise, moves, iota, gather, reduce
    "convolution": convolution.lower_convolution,
    "dot": dot.lower_dot,
    "fusion": fused.lower_fusion,  # loops, reductions, row programs; contraction heroes
}
LOWERINGS: dict[str, Lowering] = {
    "cholesky": linear_solve.lower_cholesky,
    "custom-call": lapack.lower,
    "fft": fft.lower,
    "get-dimension-size": dimension_size.lower,
    "reduce-window": reduce_window.lower,
    "rng-bit-generator": rng_bit_generator.lower,
    "scatter": scatter.lower,
    "select-and-scatter": select_and_scatter.lower,
    "triangular-solve": linear_solve.lower_triangular_solve,
    "sort": sort.lower,
    "topk": topk.lower,
}


def lower(instr: Instr, target: Target, choice: Choice = DEFAULT) -> Unit:
    """The kernels that compute `instr`; UnsupportedError names opcode and dtype, or what of `choice` there is not."""
    knobs = Knobs(choice)
    unit = _lower(instr, target, knobs)
    knobs.check()
    return unit


def candidates(instr: Instr, target: Target) -> Candidates:
    """The choices that `lower` takes for `instr`, its default first; UnsupportedError as `lower`."""
    knobs = Knobs()
    _lower(instr, target, knobs)
    return Candidates(knobs.space)


def _lower(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    tuned = TUNED.get(instr.opcode)
    if tuned is not None:
        return tuned(instr, target, knobs)
    if instr.attrs.get("custom_call_target") == user_kernels.TARGET:
        call = user_kernels.from_json(instr.attrs.get("backend_config", ""))
        raise UserKernelError(
            f"Triton kernel {call.name} runs on GPUs only, and this is compiled for a CPU ({instr.name})",
            "Place the call on a GPU; --tfxla_gpu_target=sm_90 with --xla_dump_to writes its code where there is none",
            user_kernels.find(call).where,
        )
    if instr.attrs.get("custom_call_target") == data_checks.TARGET:
        return data_check.lower(instr, target)
    lowering = LOWERINGS.get(instr.opcode)
    if lowering is None:
        raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")
    return lowering(instr, target)
