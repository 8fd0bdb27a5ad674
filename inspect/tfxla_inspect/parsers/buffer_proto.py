"""BufferAssignmentProto as the text that XLA prints of it (parsers/buffers.py reads both)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .hlo_proto import shape_text


def printed(proto: Any) -> str:
    """The allocations of an HloProto and the values in each, '' where it has none."""
    assignment = proto.buffer_assignment
    if not assignment.buffer_allocations:
        return ""
    instrs = {i.id: i for comp in proto.hlo_module.computations for i in comp.instructions}
    places = {b.id: b.defined_at for b in assignment.logical_buffers}
    lines = ["BufferAssignment:"]
    for allocation in assignment.buffer_allocations:
        what = ", ".join(_properties(allocation, proto.hlo_module.host_program_shape)) or "preallocated-temp"
        lines.append(f"allocation {allocation.index}: size {allocation.size}, {what}:")
        for part in sorted(allocation.assigned, key=lambda a: (a.offset, a.logical_buffer_id)):
            value = _value(places.get(part.logical_buffer_id), instrs)
            lines.append(
                f" value: <{part.logical_buffer_id} {value[0]} @0> (size={part.size},offset={part.offset}): {value[1]}"
            )
    return "\n".join(lines) + "\n"


def _value(place: Any, instrs: dict[int, Any]) -> tuple[str, str]:
    """The name and shape of what a logical buffer holds: an instruction, of tuples with the index of its element."""
    instr = instrs.get(place.instruction_id) if place is not None else None
    if instr is None:
        return (place.instruction_name if place is not None else "") or "?", "?"
    shape = instr.shape
    for number in place.shape_index:
        if number >= len(shape.tuple_shapes):
            return instr.name, "?"
        shape = shape.tuple_shapes[number]
    index = _index(place.shape_index) if instr.shape.tuple_shapes else ""
    return instr.name + index, shape_text(shape)


def _index(path: Any) -> str:
    return "{" + ",".join(map(str, path)) + "}"


def _properties(allocation: Any, program: Any) -> Iterator[str]:
    if allocation.is_entry_computation_parameter:
        number, path = allocation.parameter_number, list(allocation.parameter_shape_index)
        shape = program.parameters[number] if number < len(program.parameters) else None
        for part in path:
            shape = shape.tuple_shapes[part] if shape is not None and part < len(shape.tuple_shapes) else None
        shown = f" |{shape_text(shape, False)}|" if shape is not None else ""
        yield f"parameter {number}, shape{shown} at ShapeIndex {_index(path)}"
    if allocation.is_constant:
        yield "constant"
    if allocation.is_thread_local:
        yield "thread-local"
    if allocation.maybe_live_out:
        yield "maybe-live-out"
