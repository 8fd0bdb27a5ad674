"""Entry points of the loop and reduction lowerings, for a single instruction and for a fusion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....fusion.hero import hero_of
from ....fusion.moves import MOVES
from ....fusion.program import Program, analyse, output_instrs
from ....ir.dim import product
from ....ir.node import Computation, Instr
from ....ir.opcode import OPCODES as TABLE
from ....ir.size_proofs import at_most
from ....target import Target
from ..choice import Knobs
from ..ir import Kernel
from ..unit import Unit
from .contraction_fusion import lower_hero
from .loops import loop_kernel
from .reductions import lower_reduction
from .steps import single_step

# reshape and bitcast too: the plan aliases them, but nothing else can where an alias will not do.
OPCODES: tuple[str, ...] = (
    *(name for name, row in TABLE.items() if row.category == "elementwise" and name != "stochastic-convert"),
    *(name for name in MOVES if name not in ("parameter", "constant", "bitcast-convert")),
    "reduce",
)


def lower_single(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """A kernel of one instruction: as a fusion that holds it alone."""
    return _lower(wrap(instr), instr.name, knobs)


def lower_fusion(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """A fusion of elementwise, move and reduce instructions, or around one contraction."""
    if hero_of(instr.attrs["calls"]) is not None:
        return lower_hero(instr, target, knobs)
    return _lower(instr.attrs["calls"], instr.name, knobs)


def _lower(comp: Computation, name: str, knobs: Knobs) -> Unit:
    return lower_computation(comp, name, partial(loop_kernel, knobs=knobs), partial(lower_reduction, knobs=knobs))


def wrap(instr: Instr) -> Computation:
    """A computation of `instr` alone: operand n is parameter n, scalar constants stay inside."""
    inside: list[Instr] = []
    operands: list[Instr] = []
    for number, operand in enumerate(instr.operands):
        constant = operand.opcode == "constant" and operand.shape.rank == 0
        inside.append(
            operand if constant else Instr(f"p{number}", "parameter", operand.shape, attrs={"parameter_number": number})
        )
        operands.append(inside[-1])
    body = instr.replace(operands=tuple(operands), control=())
    inside.append(body)
    root = body
    if instr.shape.is_tuple:
        parts = tuple(
            Instr(f"{instr.name}.{n}", "get-tuple-element", shape, (body,), {"index": n})
            for n, shape in enumerate(instr.shape.elements)
        )
        root = Instr("root", "tuple", instr.shape, parts)
        inside.extend((*parts, root))
    return Computation(f"{instr.name}_body", tuple(dict.fromkeys(inside)), root)


def lower_computation(
    comp: Computation, name: str, loops: Callable[[Program, str], Kernel], reductions: Callable[[Program, str], Unit]
) -> Unit:
    """The unit of a fused computation; UnsupportedError where it is not one loop program.

    `loops` makes the kernel of a program without reductions, `reductions` the unit of one with.
    """
    outputs = output_instrs(comp)
    if all(product(o.shape.dims) == 0 for o in outputs):
        return Unit(())
    update = _in_place(comp)
    program = analyse(comp, update)
    if program.levels:
        return reductions(program, name)
    kernel = loops(program, name)
    inplace = () if update is None else ((0, int(update.operands[0].attrs["parameter_number"])),)
    return Unit((single_step(program, kernel),), (), inplace)


def _in_place(comp: Computation) -> Instr | None:
    """The root, if it updates a slice of a parameter that nothing else reads.

    And that holds the slice whatever its sizes turn out to be: where a run may leave less, only the elements that are
    there may be written.
    """
    root = comp.root
    if root.opcode != "dynamic-update-slice" or root.operands[0].opcode != "parameter":
        return None
    target = root.operands[0]
    if any(target in i.operands for i in comp.instrs if i is not root) or target in root.operands[1:]:
        return None
    if not all(map(at_most, root.operands[1].shape.dims, target.shape.dims)):
        return None
    return root
