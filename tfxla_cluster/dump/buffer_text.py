"""A launch plan's buffers as XLA's buffer assignment text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import dim as dims
from ..ir.node import Instr, Module
from ..ir.shape import Shape
from ..runtime.plan import CopyStep, KernelStep, LaunchPlan, LibraryStep, Ref, Step, TfOpStep, walk
from .cost import shape_bytes


@dataclass(frozen=True, slots=True)
class _Value:
    kind: str
    index: int
    offset: int
    name: str
    shape: Shape | None


def buffer_assignment(plan: LaunchPlan, module: Module) -> str:
    """A line an allocation (an input, an output, a constant, the
    temporary arena), then its values with their bytes and offset. Sizes are those of the sample."""
    params = [_Value("input", n, 0, p.name, p.shape) for n, p in enumerate(module.entry.params)]
    numbered = {value: n for n, value in enumerate([*params, *_values(plan, _by_name(module))])}
    groups: dict[tuple[str, int], list[_Value]] = {}
    for value in numbered:
        groups.setdefault((value.kind, value.index), []).append(value)
    lines = ["BufferAssignment:"]
    for number, (kind, index, size, what) in enumerate(_allocations(plan)):
        lines.append(f"allocation {number}: size {size}, {what}:")
        lines.extend(
            f" value: <{numbered[value]} {value.name} @0> "
            f"(size={_size(value)},offset={value.offset}): {value.shape or '?'}"
            for value in sorted(groups.get((kind, index), ()), key=lambda v: (v.offset, v.name))
        )
    total = sum(size for _, _, size, _ in _allocations(plan))
    return "\n".join([*lines, "", f"Total bytes used: {total}", ""])


def _size(value: _Value) -> int:
    return shape_bytes(value.shape) if value.shape is not None else 0


def _allocations(plan: LaunchPlan) -> Iterator[tuple[str, int, int, str]]:
    """(kind, index, bytes, description) of each allocation."""
    aliased = {given: out for out, given in plan.aliases}
    for index, shape in enumerate(plan.inputs):
        what = f"parameter {index}, shape |{shape}| at ShapeIndex {{}}"
        yield "input", index, shape_bytes(shape), what + (", maybe-live-out" if index in aliased else "")
    for index, shape in enumerate(plan.outputs):
        yield "output", index, shape_bytes(shape), f"output shape is |{shape}|, maybe-live-out"
    for index, data in enumerate(plan.constants):
        yield "const", index, len(data), "constant"
    yield "temp", 0, dims.sample(plan.arena_bytes), "preallocated-temp"


def _values(plan: LaunchPlan, instrs: dict[str, Instr]) -> Iterator[_Value]:
    """What each step writes, loops and branches included, in schedule order."""
    for step in walk(plan.steps):
        written = _written(step)
        shapes = _arrays(instrs.get(step.instr))
        for number, ref in enumerate(written):
            shape = shapes[number] if number < len(shapes) else None
            name = (step.instr or "?") + (f"{{{number}}}" if len(written) > 1 else "")
            yield _Value(ref.kind, ref.index, dims.sample(ref.offset), name, shape)


def _written(step: Step) -> tuple[Ref, ...]:
    """The places a step writes itself."""
    if isinstance(step, (KernelStep, LibraryStep, TfOpStep)):
        return step.outputs
    return (step.target,) if isinstance(step, CopyStep) else ()


def _arrays(instr: Instr | None) -> tuple[Shape, ...]:
    if instr is None:
        return ()
    return _flat(instr.shape)


def _flat(shape: Shape) -> tuple[Shape, ...]:
    if not shape.is_tuple:
        return (shape,)
    return tuple(leaf for element in shape.elements for leaf in _flat(element))


def _by_name(module: Module) -> dict[str, Instr]:
    return {instr.name: instr for comp in module.computations() for instr in comp.instrs}
