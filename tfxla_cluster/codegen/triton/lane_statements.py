"""`Update` and `SortLanes` statements as Triton source."""

from __future__ import annotations

from ..kernel.lane_ir import SortLanes, Update
from .types import constant, integer_type
from .writer import Writer

_ATOMICS = {"add": "add", "maximum": "max", "minimum": "min", "and": "and", "or": "or", "xor": "xor"}


def emit_update(e: Writer, stmt: Update) -> None:
    """One atomic operation an element; the least and the greatest float by those of its bits."""
    dtype, axes = stmt.buffer.dtype, e.axes_of(stmt.offset, stmt.value, stmt.mask)
    mask = e.mask(axes, stmt.mask)
    place = f"{e.pointer(stmt.buffer)} + {e.place(stmt.offset, axes, mask)}"
    value, mask = e.name(stmt.value), mask or "True"
    if dtype.is_float and stmt.opcode != "add":
        types = (integer_type(dtype.bits, signed) for signed in (True, False))
        e.put(f"_update_float({place}, {value}, {mask}, {', '.join(types)}, {stmt.opcode == 'maximum'})")
    else:
        e.put(f"tl.atomic_{_ATOMICS[stmt.opcode]}({place}, {value}, mask={mask}, sem='relaxed')")


def emit_sort_lanes(e: Writer, stmt: SortLanes) -> None:
    """Idle lanes come last."""
    axis = e.position[stmt.lane]
    if axis != e.rank - 1:
        raise e.unsupported("a sort of lanes that have others within")
    value, mask = e.spread(stmt.value), e.open[axis].mask
    if mask:
        value = f"tl.where({mask}, {value}, {constant(2**stmt.out.dtype.bits - 1, stmt.out.dtype)})"
    e.define(stmt.out, f"tl.sort({value}, {axis})", e.every_axis())
