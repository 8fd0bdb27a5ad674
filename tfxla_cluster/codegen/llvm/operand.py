"""Operands of LLVM IR text: types, literals, and registers with arithmetic operators."""

from __future__ import annotations

import struct
from functools import cache
from typing import Protocol, Union

Number = Union[int, float, bool]
FLOATS = ("half", "float", "double")
INT_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128}
BITS = {**INT_BITS, "half": 16, "float": 32, "double": 64}


@cache
def type_text(type: str, lanes: int) -> str:
    return type if lanes == 1 else f"<{lanes} x {type}>"


@cache
def mangle(type: str, lanes: int) -> str:
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type, type)
    return short if lanes == 1 else f"v{lanes}{short}"


def literal_text(type: str, value: Number) -> str:
    """`value` as LLVM spells a constant of `type`; floats are exact, in the bits of a double."""
    if type in FLOATS:
        if type == "float":
            value = struct.unpack("<f", _f32_bytes(float(value)))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    if type == "i1":
        return "true" if value else "false"
    return str(int(value))


def _f32_bytes(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


class Writer(Protocol):
    """What a register's operators append instructions to."""

    def op(self, name: str, a: Operand, b: Operand) -> Reg:
        """A binary instruction."""

    def unary(self, name: str, x: Reg) -> Reg:
        """An instruction of one operand."""


class Reg:
    """An operand: scalar `type` in `lanes` lanes, defined in the scope `level`; a literal has a `value`.

    Arithmetic operators append instructions; a Python number beside a Reg takes its type.
    """

    __slots__ = ("asm", "lanes", "level", "text", "type", "value")

    def __init__(self, asm: Writer, text: str, type: str, lanes: int, level: int, value: Number | None = None):
        self.asm, self.text, self.type, self.lanes = asm, text, type, lanes
        self.level, self.value = level, value

    def _binary(self, other: Operand, float_op: str, int_op: str, swap: bool = False) -> Reg:
        op = float_op if self.type in FLOATS else int_op
        return self.asm.op(op, other, self) if swap else self.asm.op(op, self, other)

    def __add__(self, other: Operand) -> Reg:
        return self._binary(other, "fadd", "add")

    def __radd__(self, other: Operand) -> Reg:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Operand) -> Reg:
        return self._binary(other, "fsub", "sub")

    def __rsub__(self, other: Operand) -> Reg:
        return self._binary(other, "fsub", "sub", swap=True)

    def __mul__(self, other: Operand) -> Reg:
        return self._binary(other, "fmul", "mul")

    def __rmul__(self, other: Operand) -> Reg:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Operand) -> Reg:
        return self.asm.op("fdiv", self, other)

    def __rtruediv__(self, other: Operand) -> Reg:
        return self.asm.op("fdiv", other, self)

    def __and__(self, other: Operand) -> Reg:
        return self.asm.op("and", self, other)

    def __or__(self, other: Operand) -> Reg:
        return self.asm.op("or", self, other)

    def __xor__(self, other: Operand) -> Reg:
        return self.asm.op("xor", self, other)

    def __lshift__(self, other: Operand) -> Reg:
        return self.asm.op("shl", self, other)

    def __rshift__(self, other: Operand) -> Reg:
        """Logical shift."""
        return self.asm.op("lshr", self, other)

    def __neg__(self) -> Reg:
        if self.type in FLOATS:
            return self.asm.unary("fneg", self)
        return self.asm.op("sub", 0, self)

    def __invert__(self) -> Reg:
        return self.asm.op("xor", self, True if self.type == "i1" else -1)


Operand = Union[Reg, Number]
