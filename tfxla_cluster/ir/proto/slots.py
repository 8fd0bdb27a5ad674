"""Where in the proto of an instruction the numbers stand that are expressions over sizes in the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ..dim import Dim, DimExpr, has_produced
from ..node import Instr
from ..shape import Shape
from ..size_values import SIZED, window_sizes

Slot = tuple[DimExpr, Callable[[int], None]]
"""An expression, and what writes a number in its place."""
# Attribute -> the repeated field of numbers that it is.
_LISTS = {"dynamic_slice_sizes": "dynamic_slice_sizes", "slice_sizes": "gather_slice_sizes", "fft_length": "fft_length"}
_SLICE = ("start", "limit", "stride")
_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")
_WINDOW = ("size", "padding_low", "padding_high")


def slots(instr: Instr, proto: Any) -> Iterator[Slot]:
    """Those of an instruction's shape and attributes in its HloInstructionProto. Sizes that a run produces have none:
    a proto says their bound alone."""
    yield from _of_shape(instr.shape, proto.shape)
    if instr.opcode == "constant":
        yield from _of_shape(instr.shape, proto.literal.shape)
    name = SIZED.get(instr.opcode, "")
    value = instr.attrs.get(name)
    if value is None:
        return
    if name in _LISTS:
        yield from _of_list(value, getattr(proto, _LISTS[name]))
    elif name == "slice":
        yield from _of_messages(value, proto.slice_dimensions, _SLICE)
    elif name == "padding":
        yield from _of_messages(value, proto.padding_config.dimensions, _PADDING)
    else:
        yield from _of_messages(list(map(window_sizes, value)), proto.window.dimensions, _WINDOW)


def _of_shape(shape: Shape, proto: Any) -> Iterator[Slot]:
    yield from _of_list(shape.dims, proto.dimensions)
    for element, part in zip(shape.elements, proto.tuple_shapes):
        yield from _of_shape(element, part)


def _of_list(dims: Sequence[Dim], numbers: Any) -> Iterator[Slot]:
    for place, dim in enumerate(dims):
        if isinstance(dim, DimExpr) and not has_produced(dim):
            yield dim, partial(numbers.__setitem__, place)


def _of_messages(rows: Sequence[Sequence[Dim]], messages: Any, fields: Sequence[str]) -> Iterator[Slot]:
    for row, message in zip(rows, messages):
        for dim, field in zip(row, fields):
            if isinstance(dim, DimExpr) and not has_produced(dim):
                yield dim, partial(setattr, message, field)
