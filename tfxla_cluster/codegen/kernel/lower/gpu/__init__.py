"""HLO instruction -> Unit for GPUs: kernels whose tasks are programs over blocks.

Lowerings of their own share index maps and element code with the CPU's; the opcodes of SHARED take the CPU's
loops, each task a program.
"""

from __future__ import annotations

from collections.abc import Callable

from .....errors import UnsupportedError
from .....fusion.hero import hero_of
from .....ir.node import Instr
from .....target import Target
from ...choice import DEFAULT, Choice, Knobs, combinations
from ...unit import Unit
from .. import fused, rng_bit_generator, scatter
from . import select_and_scatter, windows
from .elementwise import loop_kernel
from .reductions import lower_reduction

Lowering = Callable[[Instr, Target], Unit]


def lower_single(instr: Instr, target: Target) -> Unit:
    """A kernel of one instruction: as a fusion that holds it alone."""
    return fused.lower_computation(fused.wrap(instr), instr.name, loop_kernel, lower_reduction)


def lower_fusion(instr: Instr, target: Target) -> Unit:
    """A fusion of elementwise, move and reduce instructions."""
    hero = hero_of(instr.attrs["calls"])
    if hero is not None:
        raise UnsupportedError(f"{hero.opcode} has no GPU kernel ({instr.name})")
    return fused.lower_computation(instr.attrs["calls"], instr.name, loop_kernel, lower_reduction)


SHARED: dict[str, Lowering] = {"rng-bit-generator": rng_bit_generator.lower, "scatter": scatter.lower}
OWN: dict[str, Lowering] = {"reduce-window": windows.lower, "select-and-scatter": select_and_scatter.lower}
LOWERINGS: dict[str, Lowering] = {**dict.fromkeys(fused.OPCODES, lower_single), "fusion": lower_fusion, **SHARED, **OWN}


def lower(instr: Instr, target: Target, choice: Choice = DEFAULT) -> Unit:
    """The kernels that compute `instr`; UnsupportedError names the opcode that has none on GPUs, or what of `choice`
    there is not."""
    knobs = Knobs(choice)
    unit = _lower(instr, target)
    knobs.check()
    return unit


def candidates(instr: Instr, target: Target) -> list[Choice]:
    """The choices that `lower` takes for `instr`, its default first; UnsupportedError as `lower`."""
    knobs = Knobs()
    _lower(instr, target)
    return combinations(knobs.space)


def _lower(instr: Instr, target: Target) -> Unit:
    lowering = LOWERINGS.get(instr.opcode)
    if lowering is None:
        raise UnsupportedError(f"{instr.opcode} has no GPU kernel ({instr.name})")
    return lowering(instr, target)
