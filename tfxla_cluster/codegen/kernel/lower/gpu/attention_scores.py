"""Elements of scores: f32, with what is computed for each of them as cheap as their precision allows.

There are more scores than anything else in attention. An exponential is one instruction; a division by what is the
same for many scores is a multiplication. Both are right to some units in the last place of f32, and the results for
zero, infinity and NaN are those of the exact operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .....fusion.index import Access, Splitter
from .....fusion.moves import sources
from .....fusion.program import Program
from .....fusion.softmax import wide
from .....ir.dtype import F32, PRED
from .....ir.node import Instr
from ...ir import Var
from ..inline import elementwise
from ..wide_emit import WideEmitter
from .attention_cut import root

LOG2E = math.log2(math.e)
NO_LOOPS = Program(*((),) * len(fields(Program)))  # the loops are those of the blocks
_SAFE = (2.0**-100, 2.0**100)  # whose reciprocals are as precise as they


_MOVES = ("broadcast", "reshape", "bitcast", "transpose", "copy")
_LINEAR = ("convert", "add", "subtract", "negate", "select", "multiply", "divide")


class ScoreEmitter(WideEmitter):
    """`known`: what comparisons say for all elements that are emitted until it changes. `logarithm`: gives for a row's
    maximum log2 of the sum of all exponentials of the row, by which its probabilities are powers of 2; None where it
    is not at hand."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.known: Mapping[Access, bool] = {}
        self.logarithm: Callable[[Access], Var] | None = None

    def _sources(self, access: Access) -> tuple[Access, ...]:
        chosen = self._chosen(access)
        if chosen is not None or access in self.known:
            return () if chosen is None else (chosen,)
        return () if self.logarithm and probability_of(access) else super()._sources(access)

    def _compute(self, access: Access) -> Var:
        chosen = self._chosen(access)
        if chosen is not None:
            return self.value(chosen)
        if access in self.known:
            return self.b.const(self.known[access], PRED)
        found = probability_of(access) if self.logarithm else None
        if found is None or self.logarithm is None:
            return super()._compute(access)
        less = self.b.op("subtract", self.times(found.score, LOG2E), self.logarithm(found.top))
        return self.b.op("power", self.b.const(2.0, F32), less, approximate=True)

    def _chosen(self, access: Access) -> Access | None:
        """The operand that a select gives, where it is known."""
        if not self.known or access.instr.opcode != "select" or access in self.replaced:
            return None
        test, *branches = sources(access, Splitter())
        says = self.known.get(root(test))
        return None if says is None else branches[0 if says else 1]

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
            chosen = self._chosen(access)
            if chosen is not None:
                return self.times(chosen, factor)
            return b.op("select", self.value(parts[0]), *(self.times(p, factor) for p in parts[1:]), dtype=F32)
        if instr.opcode in ("multiply", "divide"):
            for n, other in ((0, 1), (1, 0))[: 1 if instr.opcode == "divide" else 2]:
                number = _constant(instr.operands[other])
                product = None if not number else factor * number if instr.opcode == "multiply" else factor / number
                if product is not None and _SAFE[0] < abs(product) < _SAFE[1]:
                    return self.times(parts[n], product)
        return self._multiplied(access, factor)

    def _multiplied(self, access: Access, factor: float) -> Var:
        value = self.value(access)
        wide_value = value if value.dtype == F32 else self.b.op("convert", value, dtype=F32)
        return self.b.op("multiply", wide_value, self.b.const(float(np.float32(factor)), F32))

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


@dataclass(frozen=True)
class Probability:
    """exp(score - top) / total, the two of a row read from memory at one index."""

    score: Access
    top: Access
    total: Access


def probability_of(access: Access) -> Probability | None:
    """What `access` is, if that; None where it is something else. Conversions between floats do nothing here."""
    if access.instr.opcode != "divide" or not access.instr.shape.element_type.is_float:
        return None
    power, total = map(_unwidened, sources(access, Splitter()))
    shifted = _unwidened(sources(power, Splitter())[0]) if power.instr.opcode == "exponential" else power
    if shifted.instr.opcode != "subtract":
        return None
    score, top = sources(shifted, Splitter())
    top, total = root(top), root(total)
    rows = top.instr.opcode == total.instr.opcode == "parameter" and top.index == total.index
    alike = top.instr.shape == total.instr.shape and top.instr.shape.element_type == F32
    return Probability(score, top, total) if rows and alike else None


def _unwidened(access: Access) -> Access:
    while wide(access.instr) is not access.instr:
        (access,) = sources(access, Splitter())
    return access


def _is_f32_of_float(convert: Instr) -> bool:
    """Whether all that it does is to widen, or to round what is f32 here anyway."""
    return all(i.shape.element_type.is_float and i.shape.element_type.bits <= 32 for i in (convert, *convert.operands))


def _constant(value: Instr) -> float | None:
    """The number that `value` is everywhere; None where it is none."""
    while value.opcode in ("broadcast", "reshape") or wide(value) is not value:
        value = value.operands[0]
    return float(value.attrs["literal"]) if value.opcode == "constant" and value.shape.rank == 0 else None
