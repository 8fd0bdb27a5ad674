"""A generic module as bytes: what TensorFlow lowers at other sizes is, nearly always, the same proto but for numbers
that follow sizes.

With these numbers written in, equal bytes prove as much as `prove`, at a fraction of its cost: the proto is not read.
Other bytes prove nothing, for the bridge may have written the same in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..decision import Decision
from ..errors import ParseError
from ..ir.dim import DimExpr, evaluate
from ..ir.literal import equal_bits
from ..ir.proto.shapes import read_literal
from ..ir.proto.slots import slots
from . import prove
from .forms import Form, Handed
from .lowered import Lowered
from .unifier import Generic

Place = tuple[int, int]
"""(computation, instruction) of a proto"""
_TIES = frozenset(("opcode", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids")) | frozenset(
    ("custom_call_target", "custom_call_has_side_effect", "channel_id")
)
"""Fields of an instruction that are compared though nothing takes its result."""


class Pattern:
    """Of a generic module and one that it was proven to be. `is_one` may not be asked on two threads at once."""

    def __init__(self, generic: Generic, lowered: Lowered) -> None:
        self._generic = generic
        self._proto = lowered.bare()
        self._slots: dict[DimExpr, list[Any]] = {}
        self._literals: list[tuple[Place, Form]] = []
        places = {
            instr: (number, place)
            for number, comp in enumerate(lowered.listed[1])
            for place, instr in enumerate(comp.instrs)
        }
        for number, (body, own) in enumerate(zip(generic.template.bodies, lowered.rows.bodies)):
            for place, (row, found) in enumerate(zip(body.rows, own.rows)):
                at = places.pop(found.instr)
                form = generic.literals.get((number, place))
                if form is not None and not isinstance(form, Handed):
                    self._literals.append((at, form))
                    _empty(_at(self._proto, at).literal)
                for dim, write in slots(row.instr, _at(self._proto, at)):
                    self._slots.setdefault(dim, []).append(write)
        self._dead = tuple(places.values())  # the bridge leaves some, with numbers that follow sizes too
        for at in self._dead:
            _bare(_at(self._proto, at))

    def is_one(self, lowered: Lowered) -> bool:
        """Is it the generic module at its sizes, proven? No means nothing."""
        env = prove.sizes_of(self._generic, lowered.shapes)
        if isinstance(env, Decision):
            return False
        other = lowered.bare()
        if _lengths(other) != _lengths(self._proto):
            return False
        for dim, writes in self._slots.items():
            number = evaluate(dim, env)
            for write in writes:
                write(number)
        for at, form in self._literals:
            own, literal = _at(self._proto, at).literal, _at(other, at).literal
            if own.shape != literal.shape or not _is_literal(literal, form, env):
                return False
            _empty(literal)
        for at in self._dead:  # whose results nothing takes, as the rest says
            _bare(_at(other, at))
        return bool(self._proto.SerializeToString() == other.SerializeToString())


def _lengths(proto: Any) -> list[int]:
    """How many instructions each computation has."""
    return [len(comp.instructions) for comp in proto.computations]


def _at(proto: Any, place: Place) -> Any:
    """An instruction of a module's proto."""
    return proto.computations[place[0]].instructions[place[1]]


def _empty(literal: Any) -> None:
    """Leave its shape."""
    shape = type(literal.shape)()
    shape.CopyFrom(literal.shape)
    literal.Clear()
    literal.shape.CopyFrom(shape)


def _bare(instr: Any) -> None:
    """Leave what ties it to others, and what it may do besides giving a result."""
    for field, _ in instr.ListFields():
        if field.name not in _TIES:
            instr.ClearField(field.name)


def _is_literal(proto: Any, form: Form, env: Mapping[str, int]) -> bool:
    try:
        return equal_bits(form.at(env), read_literal(proto))
    except (ParseError, ValueError):  # too few bytes
        return False


def made(generic: Generic, lowered: Lowered) -> Pattern | None:
    """None where the module is none of the generic one's, its instructions are not one by one those of its proto, or
    the generic one takes literals of each module, which have to be read."""
    handed = any(isinstance(form, Handed) for form in generic.literals.values())
    if handed or lowered.module.is_scheduled or not prove.prove(generic, lowered.rows):
        return None
    if [len(comp.instrs) for comp in lowered.listed[1]] != _lengths(lowered.bare()):
        return None
    return Pattern(generic, lowered)
