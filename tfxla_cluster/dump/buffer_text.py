"""A launch plan's buffers as XLA's buffer assignment text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir import dim as dims
from ..ir.node import Instr, Module
from ..ir.shape import Shape
from .cost import shape_bytes


@dataclass(frozen=True, slots=True)
class _Value:
    kind: str
    index: int
    offset: int
    name: str
    shape: Shape | None


def buffer_assignment(plan: Any, module: Module) -> str:
    """Text of a runtime.plan.LaunchPlan: a line an allocation (an input, an output, a constant, the
    temporary arena), then its values with their bytes and offset. Sizes are those of the sample."""
    params = [_Value("input", n, 0, p.name, p.shape) for n, p in enumerate(module.entry.params)]
    numbered = {value: n for n, value in enumerate([*params, *_values(plan.steps, _by_name(module))])}
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


def _allocations(plan: Any) -> Iterator[tuple[str, int, int, str]]:
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


def _values(steps: Sequence[Any], instrs: dict[str, Instr]) -> Iterator[_Value]:
    """What each step writes, loops and branches included, in schedule order."""
    for step in steps:
        written = getattr(step, "outputs", None) or ((step.target,) if hasattr(step, "target") else ())
        shapes = _arrays(instrs.get(step.instr))
        for number, ref in enumerate(written):
            shape = shapes[number] if number < len(shapes) else None
            name = (step.instr or "?") + (f"{{{number}}}" if len(written) > 1 else "")
            yield _Value(ref.kind, ref.index, dims.sample(ref.offset), name, shape)
        nested = [*getattr(step, "branches", ()), getattr(step, "condition", ()), getattr(step, "body", ())]
        for inner in nested:
            yield from _values(inner, instrs)


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
