"""What fusing is worth: estimates from sample sizes, by the costs of a machine. Never a matter of correctness."""

from __future__ import annotations

from collections.abc import Sequence

from ..decision import YES, Decision, no
from ..ir.dim import sample
from ..ir.node import Instr
from ..ir.opcode import SLOW, element_cost
from .index import Digit, flatten
from .machine import Costs, Machine
from .program import Program, extent_of


def costly(instr: Instr) -> bool:
    """Not to be computed twice."""
    return element_cost(instr.opcode) >= SLOW


def bytes_of(instr: Instr) -> int:
    """Bytes of the value, at sample sizes."""
    parts = instr.shape.elements or (instr.shape,)
    return sum(sample(p.byte_size) for p in parts if p.is_array)


def elements_of(instr: Instr) -> int:
    return sample(instr.shape.element_count) if instr.shape.is_array else 0


def pays(program: Program, outputs: Sequence[Instr], machine: Machine) -> Decision:
    """Whether one kernel of all this runs as well as its parts."""
    costs = machine.costs
    return _parallel(program, machine) & _repeated(program) & _again(program, costs) & _buffers(program, outputs, costs)


def _again(program: Program, costs: Costs) -> Decision:
    """A value that is read at several indices is computed at each: sums of every fourth element, of such sums, of such
    sums are thousands of operations in one kernel, from a few instructions."""
    repeats = len(program.accesses) - len({access.instr for access in program.accesses})
    if repeats > costs.max_repeats:
        return no("too-often", f"{repeats} elements of values that are computed at other indices too")
    return YES


def _buffers(program: Program, outputs: Sequence[Instr], costs: Costs) -> Decision:
    return few_arrays(len(outputs) + len({a.instr for a in program.loads}), costs)


def few_arrays(count: int, costs: Costs) -> Decision:
    """Whether a kernel may read and write so many."""
    if count > costs.max_buffers:
        return no("too-many-buffers", f"{count} arrays in one kernel")
    return YES


def _parallel(program: Program, machine: Machine) -> Decision:
    """Passes over rows need rows enough for the machine, and rows that lie along memory."""
    if not program.levels:
        return YES
    kept, reduced = sample(extent_of(program.kept)), sample(extent_of(program.reduced))
    if len(program.levels) == 1 and program.rows_only:
        return YES
    costs = machine.costs
    if reduced > costs.long_row and kept < costs.rows_per_core * machine.cores:
        return no("few-rows", f"{kept} rows of {reduced} elements would not occupy the machine")
    minor_kept = bool(program.space) and program.space[-1] in set(program.kept)
    if minor_kept and reduced > costs.long_column:
        return no("long-columns", f"several passes over {reduced} elements across memory")
    return YES


def _repeated(program: Program) -> Decision:
    """A costly element is computed at one index, and not once for each of more elements."""
    indices: dict[Instr, set[object]] = {}
    inside = set(program.instrs)
    inner = program.space[-1] if program.space else None
    for access in program.accesses:
        instr = access.instr
        if instr not in inside or not costly(instr):
            continue
        found = indices.setdefault(instr, set())
        found.add(access.index)
        if len(found) > 1:
            return no("computed-twice", f"{instr.name} ({instr.opcode}) at several indices")
        digits = {d for d in flatten(access.index) if isinstance(d, Digit)}
        total = sample(extent_of(program.space))
        if inner in digits and total > 2 * max(elements_of(instr), 1):
            return no("computed-often", f"{instr.name} ({instr.opcode}) once for each of {total} elements")
    return YES
