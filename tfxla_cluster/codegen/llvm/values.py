"""Values of kernel variables while code is emitted."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.dtype import DType
from .asm import Asm
from .operand import Reg


@dataclass(frozen=True, slots=True)
class Value:
    """What a `Var` is: `parts` holds one register, or two for a complex number.

    With a `stride`, lane l of the value is `parts[0] + l * stride`, both scalars (an index that moves with
    the vector loop).
    """

    dtype: DType
    parts: tuple[Reg, ...]
    stride: Reg | None = None

    @property
    def varying(self) -> bool:
        """True when lanes may differ."""
        return self.stride is not None or any(p.lanes > 1 for p in self.parts)


def registers(asm: Asm, value: Value, lanes: int) -> tuple[Reg, ...]:
    """The value's registers: vectors of `lanes` where lanes may differ, scalars otherwise."""
    if value.stride is None:
        return value.parts
    base = value.parts[0]
    if value.stride.value is not None:
        return (asm.splat(base, lanes) + asm.lane_numbers(base.type, lanes, int(value.stride.value)),)
    steps = asm.splat(value.stride, lanes) * asm.lane_numbers(base.type, lanes)
    return (asm.splat(base, lanes) + steps,)


def combine_strides(asm: Asm, opcode: str, a: Value, b: Value) -> tuple[Reg, Reg] | None:
    """(base, stride) of `a opcode b` where it is again linear in the lane, else None."""
    if any(p.lanes > 1 for p in (*a.parts, *b.parts)):
        return None
    x, y = a.parts[0], b.parts[0]
    dx, dy = a.stride, b.stride

    def none_to_zero(stride: Reg | None) -> Reg:
        return asm.literal(x.type, 0) if stride is None else stride

    if opcode == "multiply":
        if dx is not None and dy is not None:
            return None
        return x * y, dx * y if dx is not None else none_to_zero(dy) * x
    a_step, b_step = none_to_zero(dx), none_to_zero(dy)
    return (x + y, a_step + b_step) if opcode == "add" else (x - y, a_step - b_step)
