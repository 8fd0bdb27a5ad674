"""A fused module -> a launch plan: steps in order, values in buffers, views and aliases without copies.

`plan_emitter` writes the steps over virtual buffers; here these get places, and copies between buffers that share
one vanish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..codegen.kernel.ir import Kernel
from ..codegen.kernel.unit import Unit
from ..ir import guard, trip_count
from ..ir.dim import Dim, DimExpr
from ..ir.node import Computation, Instr, Module, callees_first
from ..ir.shape import Shape
from .buffers import Assignment, assign
from .liveness import Liveness, merged, overlaps
from .plan import (
    BranchStep,
    CopyStep,
    KernelStep,
    Launch,
    LaunchPlan,
    LibraryStep,
    LoopStep,
    Placed,
    Ref,
    SizeSource,
    SizeStep,
    Step,
    walk,
)
from .plan_emitter import Emitter
from .schedule import VIEWS, leaves

# Instructions that need no unit: views, and what the plan itself does.
PLANNED = VIEWS | {"while", "conditional", "call", "set-dimension-size", "rng-get-and-update-state"}


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan and, for the dump, what the buffer assigner decided. `moments`: when each step reads, and its
    instruction."""

    plan: LaunchPlan
    buffers: tuple[Placed, ...]
    moments: tuple[tuple[int, str], ...]


def unit_instructions(module: Module) -> list[Instr]:
    """The instructions that need a unit, callees first: all that steps of the plan run."""
    comps = callees_first([module.entry], _run_by_the_plan)
    return [i for comp in comps for i in comp.instrs if i.opcode not in PLANNED]


def _run_by_the_plan(instr: Instr) -> Sequence[Computation]:
    """Nobody asks the condition of a loop that is counted."""
    if instr.opcode == "while" and trip_count.known(instr) is not None:
        return (instr.attrs["body"],)
    return instr.called if instr.opcode in PLANNED - VIEWS else ()


def build(module: Module, units: Mapping[Instr, Unit], launches: Mapping[Kernel, Launch]) -> Planned:
    """`units` for every one of `unit_instructions(module)`; `launches` for each of their kernels."""
    emitter = Emitter(units, launches)
    steps = emitter.entry(module)
    inputs, outputs = emitter.input_shapes, emitter.output_shapes
    live = Liveness(steps, emitter.effects, emitter.outputs)
    assignment = assign(emitter.buffers, live, emitter.affinities, emitter.effects)
    sizes = _sizes(inputs, emitter.produced)
    plan = LaunchPlan(
        module.name,
        inputs,
        outputs,
        sizes,
        _place_steps(steps, assignment),
        tuple(emitter.constants),
        assignment.arena_bytes,
        _safe_aliases(module, emitter, live, assignment),
        _guards(module, units, inputs, sizes),
    )
    placed = tuple(
        Placed(b.name, b.bytes, place, tuple(live.segments.get(n, ())))
        for n, (b, place) in enumerate(zip(emitter.buffers, assignment.places))
    )
    moments = tuple((live.ticks[id(step)], step.instr) for step in walk(steps) if _stays(step, assignment))
    return Planned(plan, placed, moments)


def _sizes(inputs: Sequence[Shape], produced: Mapping[str, Dim]) -> tuple[SizeSource, ...]:
    """Each size symbol once: the first input dim that is it, then those that instructions produce."""
    found: dict[str, SizeSource] = {}
    for number, shape in enumerate(inputs):
        for axis, dim in enumerate(shape.dims):
            if isinstance(dim, DimExpr) and dim.op == "sym":
                found.setdefault(dim.name, SizeSource(dim.name, number, axis))
    for symbol, bound in produced.items():
        found.setdefault(symbol, SizeSource(symbol, bound=bound))
    return tuple(found.values())


def _guards(
    module: Module, units: Mapping[Instr, Unit], inputs: Sequence[Shape], sizes: Sequence[SizeSource]
) -> tuple[guard.Guard, ...]:
    """What the shapes of the inputs say, and what passes and kernels hold for."""
    places = {size.symbol: (size.input, size.axis) for size in sizes if not size.is_produced}
    added = [*module.guards, *(g for unit in units.values() for g in unit.guards)]
    return guard.ordered([*guard.of_shapes(inputs), *guard.placed(added, places)])


def _place_steps(steps: Sequence[Step], assignment: Assignment) -> tuple[Step, ...]:
    """Virtual buffers -> places; copies between buffers that share one vanish."""
    placed = (_place_step(step, assignment) for step in steps)
    return tuple(step for step in placed if step is not None)


def _place_step(step: Step, assignment: Assignment) -> Step | None:
    def at(ref: Ref) -> Ref:
        return assignment.places[ref.index]

    if not _stays(step, assignment):
        return None
    if isinstance(step, CopyStep):
        return replace(step, source=at(step.source), target=at(step.target))
    if isinstance(step, (KernelStep, LibraryStep)):
        return replace(step, inputs=tuple(map(at, step.inputs)), outputs=tuple(map(at, step.outputs)))
    if isinstance(step, LoopStep):
        return replace(
            step,
            condition=_place_steps(step.condition, assignment),
            flag=at(step.flag),
            body=_place_steps(step.body, assignment),
        )
    if isinstance(step, BranchStep):
        return replace(
            step, selector=at(step.selector), branches=tuple(_place_steps(b, assignment) for b in step.branches)
        )
    assert isinstance(step, SizeStep), step
    return replace(step, source=at(step.source))


def _stays(step: Step, assignment: Assignment) -> bool:
    """A copy of nothing, or between buffers that share a place, is none."""
    if not isinstance(step, CopyStep):
        return True
    return step.bytes != 0 and assignment.group_of[step.source.index] != assignment.group_of[step.target.index]


def _safe_aliases(
    module: Module, emitter: Emitter, live: Liveness, assignment: Assignment
) -> tuple[tuple[int, int], ...]:
    """The module's aliases under which the caller may pass one buffer for both: nothing reads the input
    once the output's memory is written (an in-place kernel may do both)."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for buffer, group in enumerate(assignment.group_of):
        ranges.setdefault(group, []).extend(live.segments.get(buffer, ()))
    handed = {(a.source, assignment.group_of[a.target]): live.ticks[a.step] for a in emitter.affinities if a.inplace}
    first = {}
    for number in range(len(module.entry.params)):
        first[number] = sum(len(leaves(p.shape)) for p in module.entry.params[:number])
    safe = []
    for alias in module.aliases:
        output = alias.output_index[0] if alias.output_index else 0
        source = first[alias.parameter] + (alias.parameter_index[0] if alias.parameter_index else 0)
        group = assignment.group_of[emitter.outputs[output]]
        tick = handed.get((source, group), -2)
        reads = live.segments.get(source, [])
        shared = overlaps(reads, merged(ranges[group]))
        if all(part == (tick + 1, tick + 2) and part[1] == reads[-1][1] for part in shared):
            safe.append((output, source))
    return tuple(safe)
