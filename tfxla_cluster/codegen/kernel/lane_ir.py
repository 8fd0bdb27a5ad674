"""Statements of kernel IR for GPUs that are more than scalar code in lanes: updates of elements that other tasks update
too, and sorts of lanes."""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Buffer, Region, Template, Var

UPDATES = ("add", "maximum", "minimum", "and", "or", "xor")
"""Opcodes of an `Update`."""


@dataclass(frozen=True, slots=True, eq=False)
class Update(Template):
    """`buffer[offset] = opcode(buffer[offset], value)` where `mask` holds, whole: lanes and tasks may meet there,
    in any order, where no other statement of any reads or stores it.

    `opcode`: one of UPDATES. Of integers of 32 or 64 bits any, of f32 and f64 'add', 'maximum' and 'minimum' (NaN if
    there is one): all but a sum of floats is the same in any order. Denormals may count as 0 in a sum of f32.
    """

    buffer: Buffer
    offset: Var
    value: Var
    opcode: str
    mask: Var | None = None

    def regions(self) -> tuple[Region, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class SortLanes(Template):
    """`out` in lane l of those in use of the innermost tile, whose variable is `lane`, is the l-th smallest `value` of
    them; unsigned integers."""

    lane: Var
    value: Var
    out: Var

    def regions(self) -> tuple[Region, ...]:
        return ()
