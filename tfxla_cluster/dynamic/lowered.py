"""A module as TensorFlow lowered it, read as far as it is asked for: most are only held beside one that is known."""

from __future__ import annotations

import functools
from typing import Any

from ..ir import proto as hlo_proto
from ..ir.node import Computation, Module
from ..ir.shape import Shape
from . import rows
from .rows import Rows

# What a proof does not look at: names, where things come from, and shapes that instructions say again.
_APART = ("name", "id", "entry_computation_name", "host_program_shape", "stack_frame_index")


class Lowered:
    """shapes: of the parameters. ParseError for bytes that are no module; `module` raises it too."""

    def __init__(self, proto: bytes) -> None:
        self.proto = proto
        self.shapes: tuple[Shape, ...] = hlo_proto.parameter_shapes(hlo_proto.decode(proto))

    @functools.cached_property
    def listed(self) -> tuple[Module, tuple[Computation, ...]]:
        """The module, and its computations as the proto has them."""
        return hlo_proto.read_listed(self.proto)

    @property
    def module(self) -> Module:
        """All of it."""
        return self.listed[0]

    @functools.cached_property
    def rows(self) -> Rows:
        """Those of the module."""
        return rows.of_module(self.module)

    def bare(self) -> Any:
        """The proto without what a proof does not look at, of the caller's own."""
        message = hlo_proto.decode(self.proto)
        message.DiscardUnknownFields()  # as reading does: a custom call's say the shapes of its operands again
        for name in _APART:
            message.ClearField(name)
        for comp in message.computations:
            comp.ClearField("name")
            comp.ClearField("program_shape")
            for instr in comp.instructions:
                instr.ClearField("name")
                op_type = instr.metadata.op_type
                instr.ClearField("metadata")
                if op_type:
                    instr.metadata.op_type = op_type
                listed = instr.frontend_attributes.map
                if len(listed) > 1:  # in an order that the bridge draws
                    listed.sort(key=_by_key)
        return message


def _by_key(entry: Any) -> tuple[str, str]:
    return entry.key, entry.value
