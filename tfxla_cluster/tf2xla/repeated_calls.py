"""The calls of ops that were lowered once (`repeated_ops`), written out again in the serialised module.

    label = s32[] custom-call(), custom_call_target="tfxla_once", metadata={op_name="a/tfxla_label"}
    t = (f32[n]) call(x, label), to_apply={ROOT (tanh(x))}      -->      a = f32[n] tanh(x), metadata={op_name="a"}
    a = f32[n] get-tuple-element(t), index=0

On messages, not on the IR: most modules are not read here, but by who takes them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..ir.proto.reader import LOCAL
from ..ir.proto.schema import MESSAGES
from .repeated_ops import LABEL, MARK

_RETURNED = "XLA_Retvals"  # what the bridge adds at the end of a function


def written_out(module: bytes) -> bytes:
    """A serialised HloModuleProto without these calls; the same bytes where there is none."""
    if MARK.encode() not in module:
        return module
    proto = MESSAGES["HloModuleProto"].FromString(module)
    bodies = {comp.id: comp for comp in proto.computations if MARK in comp.name}
    others = {comp.id: comp for comp in proto.computations if comp.id not in bodies}
    numbers = itertools.count(1 + max(_number(i.name) for comp in others.values() for i in comp.instructions))
    for comp in others.values():
        _Writer(comp, bodies, others, numbers).write()
    kept = MESSAGES["HloModuleProto"]()
    kept.CopyFrom(proto)
    del kept.computations[:]
    kept.computations.extend(others.values())
    return bytes(kept.SerializeToString())


def _number(name: str) -> int:
    """At the end of a name."""
    found = re.search(r"\.(\d+)$", name)
    return int(found.group(1)) if found else 0


class _Writer:
    """A computation without calls of `bodies`; `others`: those that stay, `numbers`: of new names in the module."""

    def __init__(self, comp: Any, bodies: Mapping[int, Any], others: Mapping[int, Any], numbers: Iterator[int]) -> None:
        self._comp, self._bodies, self._others, self._numbers = comp, bodies, others, numbers
        self._ids = itertools.count(1 + max((i.id for i in comp.instructions), default=0))
        self._labels: dict[int, str] = {}
        self._results: dict[int, list[int]] = {}  # of calls
        self._stands_for: dict[int, int] = {}
        self._instrs: list[Any] = []

    def write(self) -> None:
        """Does nothing to one without such calls."""
        comp = self._comp
        if not any(self._body(instr) is not None for instr in comp.instructions):
            return
        for instr in comp.instructions:
            self._instruction(instr)
        comp.root_id = self._now(comp.root_id)
        del comp.instructions[:]
        comp.instructions.extend(self._instrs)

    def _body(self, instr: Any) -> Any:
        """What an instruction calls, where it was lowered once."""
        return self._bodies.get(instr.called_computation_ids[0]) if instr.opcode == "call" else None

    def _now(self, number: int) -> int:
        return self._stands_for.get(number & LOCAL, number)

    def _instruction(self, instr: Any) -> None:
        own, body = instr.id & LOCAL, self._body(instr)
        if instr.opcode == "custom-call" and instr.custom_call_target == MARK:
            self._labels[own] = instr.metadata.op_name.removesuffix(LABEL)
        elif body is not None:
            operands = [self._now(number) for number in instr.operand_ids]
            self._results[own] = self._copied(body, operands, self._labels[operands[-1] & LOCAL])
        elif instr.opcode == "get-tuple-element" and instr.operand_ids[0] & LOCAL in self._results:
            self._stands_for[own] = self._results[instr.operand_ids[0] & LOCAL][instr.tuple_index]
        else:
            for ids in (instr.operand_ids, instr.control_predecessor_ids):
                ids[:] = [self._now(number) for number in ids]
            self._instrs.append(instr)

    def _copied(self, body: Any, operands: list[int], node: str) -> list[int]:
        """The ids of the results of the body's instructions on these operands."""
        ids: dict[int, int] = {}
        shapes: dict[int, Any] = {}
        for instr in body.instructions:
            own, read = instr.id & LOCAL, [number & LOCAL for number in instr.operand_ids]
            if instr.opcode == "parameter":
                ids[own] = operands[instr.parameter_number]
            elif instr.id == body.root_id and instr.opcode == "tuple":
                return [ids[number] for number in read]
            elif instr.metadata.op_name == _RETURNED and instr.opcode == "reshape" and instr.shape == shapes[read[0]]:
                ids[own] = ids[read[0]]
            else:
                ids[own] = self._copy(instr, [ids[number] for number in read], node)
            shapes[own] = instr.shape
        raise AssertionError(f"the results of {body.name} are no tuple")

    def _copy(self, instr: Any, operands: list[int], node: str) -> int:
        copy = type(instr)()
        copy.CopyFrom(instr)
        copy.id, copy.operand_ids[:] = next(self._ids), operands
        self._rename(copy, node)
        copy.name = f"{node.rpartition('/')[2]}.{next(self._numbers)}"
        self._instrs.append(copy)
        return int(copy.id)

    def _rename(self, instr: Any, node: str) -> None:
        """Of that node are an instruction and what it calls, of which each call of a body has its own."""
        instr.metadata.op_name = node
        for number in instr.called_computation_ids:
            for inner in self._others[number].instructions:
                self._rename(inner, node)
