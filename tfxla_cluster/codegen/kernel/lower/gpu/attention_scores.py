"""Elements of scores: f32, with what is computed for each of them as cheap as their precision allows.

There are more scores than anything else in attention. An exponential is one instruction; a division by what is the
same for many scores is a multiplication. Both are right to some units in the last place of f32, and the results for
zero, infinity and NaN are those of the exact operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .....fusion.index import Access, Splitter
from .....fusion.moves import sources
from .....fusion.softmax import wide
from .....ir.dtype import F32
from .....ir.node import Instr
from ...ir import Var
from ..inline import elementwise
from ..wide_emit import WideEmitter

LOG2E = math.log2(math.e)
_SAFE = (2.0**-100, 2.0**100)  # whose reciprocals are as precise as they


_MOVES = ("broadcast", "reshape", "bitcast", "transpose", "copy")
_LINEAR = ("convert", "add", "subtract", "negate", "select", "multiply", "divide")


class ScoreEmitter(WideEmitter):
    def _element(self, instr: Instr, values: Sequence[Var]) -> Var:
        if instr.opcode == "exponential" and instr.shape.dtype == F32:
            return self.b.op("exponential", values[0], approximate=True)
        if instr.opcode == "divide" and instr.shape.dtype == F32:
            reciprocal = self._reciprocal(instr, values[1])
            if reciprocal is not None:
                return self.b.op("multiply", values[0], reciprocal)
        return elementwise(self.b, instr, values)

    def times(self, access: Access, factor: float) -> Var:
        """The f32 `access` times a number, multiplied where the least elements are and with the numbers there are.

        Rounded otherwise than the product of both, and infinite or NaN where a step leaves the range of f32.
        """
        b, instr = self.b, access.instr
        if access in self.replaced or instr.control:
            return self._multiplied(access, factor)
        parts = sources(access, Splitter()) if instr.opcode in (*_MOVES, *_LINEAR) else ()
        if instr.opcode in _MOVES or (instr.opcode == "convert" and _is_f32_of_float(instr)):
            return self.times(parts[0], factor)
        if instr.opcode in ("add", "subtract"):
            return b.op(instr.opcode, *(self.times(p, factor) for p in parts))
        if instr.opcode == "negate":
            return self.times(parts[0], -factor)
        if instr.opcode == "select":
            return b.op("select", self.value(parts[0]), *(self.times(p, factor) for p in parts[1:]), dtype=F32)
        if instr.opcode in ("multiply", "divide"):
            for n, other in ((0, 1), (1, 0))[: 1 if instr.opcode == "divide" else 2]:
                number = _constant(instr.operands[other])
                product = None if not number else factor * number if instr.opcode == "multiply" else factor / number
                if product is not None and _SAFE[0] < abs(product) < _SAFE[1]:
                    return self.times(parts[n], product)
        return self._multiplied(access, factor)

    def _multiplied(self, access: Access, factor: float) -> Var:
        return self.b.op("multiply", self.value(access), self.b.const(float(np.float32(factor)), F32))

    def _reciprocal(self, instr: Instr, divisor: Var) -> Var | None:
        """Of a constant, or of the sum of a row that the divided exponential is part of, and which so is at least 1."""
        number = _constant(instr.operands[1])
        if number is not None:
            safe = _SAFE[0] < abs(number) < _SAFE[1]
            return self.b.const(float(np.float32(1) / np.float32(number)), F32) if safe else None
        if wide(instr.operands[0]).opcode == "exponential":
            return self.b.op("divide", self.b.const(1.0, F32), divisor)
        return None


def weight_and_factor(weight: Access) -> tuple[Access, float]:
    """A weight as another one times a number, by which the sum may be multiplied instead. Not of f16, whose range
    the weight needs the number for."""
    factor = 1.0
    while True:
        instr = weight.instr
        parts = sources(weight, Splitter())
        if instr.shape.element_type.name == "f16":
            return weight, factor
        if wide(instr) is not instr:
            (weight,) = parts
            continue
        numbers = [_constant(p.instr) for p in parts]
        if instr.opcode == "multiply" and (numbers[0] is None) != (numbers[1] is None):
            number, other = (numbers[1], 0) if numbers[0] is None else (numbers[0], 1)
        elif instr.opcode == "divide" and numbers[0] is None and numbers[1]:
            number, other = 1 / numbers[1], 0
        else:
            return weight, factor
        assert number is not None
        if not _SAFE[0] < abs(number) < _SAFE[1]:
            return weight, factor
        weight, factor = parts[other], factor * number


def _is_f32_of_float(convert: Instr) -> bool:
    """Whether all that it does is to widen, or to round what is f32 here anyway."""
    return all(i.shape.element_type.is_float and i.shape.element_type.bits <= 32 for i in (convert, *convert.operands))


def _constant(value: Instr) -> float | None:
    """The number that `value` is everywhere; None where it is none."""
    while value.opcode in ("broadcast", "reshape") or wide(value) is not value:
        value = value.operands[0]
    return float(value.attrs["literal"]) if value.opcode == "constant" and value.shape.rank == 0 else None
