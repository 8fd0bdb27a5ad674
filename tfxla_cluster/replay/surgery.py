"""Parts of a module as modules of their own, on the values that they had inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.evaluator import Evaluator
from ..ir.evaluator.modules import bound
from ..ir.node import NO_METADATA, Computation, Instr, Module
from ..ir.rewrite import Names, map_computations
from ..ir.shape import Shape, tuple_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A module with one array for each parameter."""

    module: Module
    inputs: tuple[Array, ...]

    @property
    def size(self) -> int:
        """Instructions of all computations."""
        return sum(len(c.instrs) for c in self.module.computations())


class _Recorder(Evaluator):
    """Remembers on which values each computation ran first."""

    def __init__(self, like: Evaluator) -> None:
        super().__init__(like.meanings, like.env)
        self.called: dict[Computation, Sequence[Any]] = {}

    def run(self, comp: Computation, args: Sequence[Any]) -> Any:
        self.called.setdefault(comp, args)
        return super().run(comp, args)


@dataclass(frozen=True, slots=True)
class Values:
    """`of`: the value of each instruction of a computation. `called`: on what the computations that it calls ran
    first."""

    of: Mapping[Instr, Any]
    called: Mapping[Computation, Sequence[Any]]


def values(module: Module, comp: Computation, args: Sequence[Any], inputs: Sequence[Array]) -> Values:
    """By the evaluator, of `comp`, one of `module`, on `args`; `inputs` of the module bind its sizes. Errors as those
    of `evaluator.evaluate`."""
    recorder = _Recorder(bound(module, inputs))
    found = recorder.values(comp, args)
    return Values(found, recorder.called)


def cut(name: str, results: Sequence[Instr], known: Mapping[Instr, Any], frontier: Iterable[Instr]) -> Program:
    """The program that computes `results` from the values `known` of the instructions in `frontier` (parameters are
    always in it). A result that is a tuple stands for its elements."""
    return _Cutter(known, frozenset(frontier)).program(name, results)


def apart(name: str, instrs: Sequence[Instr], known: Mapping[Instr, Any]) -> tuple[Program, list[Instr]]:
    """The program that computes each of `instrs` from the values `known` of its operands, and of each result the
    instruction that it is of."""
    cutter = _Cutter(known, frozenset(known) - {i for i in known if i.opcode == "constant"})
    found, owners = [], []
    for instr in instrs:
        for operand in instr.operands:
            cutter.instr(operand)
        leaves = cutter.leaves(cutter.copy(instr))
        found += leaves
        owners += [instr] * len(leaves)
    return cutter.finish(name, found), owners


class _Cutter:
    def __init__(self, known: Mapping[Instr, Any], frontier: frozenset[Instr]) -> None:
        self.known, self.frontier = known, frontier
        self.names = Names()
        self.order: list[Instr] = []
        self.inputs: list[Array] = []
        self.new: dict[Instr, Instr] = {}

    def program(self, name: str, results: Sequence[Instr]) -> Program:
        found = [self.instr(result) for result in results]
        return self.finish(name, [leaf for result in found for leaf in self.leaves(result)])

    def finish(self, name: str, arrays: Sequence[Instr]) -> Program:
        """The program with these results."""
        root = (
            arrays[0] if len(arrays) == 1 else self._emit("out", "tuple", tuple_of(*(a.shape for a in arrays)), arrays)
        )
        return Program(Module(name, Computation("entry", tuple(self.order), root)), tuple(self.inputs))

    def instr(self, wanted: Instr) -> Instr:
        stack = [wanted]
        while stack:
            instr = stack[-1]
            if instr in self.new:
                stack.pop()
            elif instr.opcode == "parameter" or instr in self.frontier:
                self.new[instr] = self._given(instr.name, instr.shape, self.known[instr])
            else:
                missing = [o for o in instr.operands if o not in self.new]
                stack += missing
                if not missing:
                    self.new[instr] = self.copy(instr)
        return self.new[wanted]

    def copy(self, instr: Instr) -> Instr:
        made = instr.replace(
            name=self.names.unique(instr.name),
            operands=tuple(self.new[o] for o in instr.operands),
            control=tuple(self.new[c] for c in instr.control if c in self.new),
        )
        self.order.append(made)
        return made

    def _given(self, name: str, shape: Shape, value: Any) -> Instr:
        """A parameter of that value; a tuple of parameters; a token is made anew."""
        if shape.is_tuple:
            parts = [self._given(f"{name}.{n}", s, v) for n, (s, v) in enumerate(zip(shape.elements, value))]
            return self._emit(name, "tuple", shape, parts)
        if not shape.is_array:
            return self._emit(name, "after-all", shape, [])
        self.inputs.append(np.asarray(value))
        return self._emit(name, "parameter", shape, [], parameter_number=len(self.inputs) - 1)

    def leaves(self, instr: Instr) -> list[Instr]:
        if instr.opcode == "tuple":
            return [leaf for operand in instr.operands for leaf in self.leaves(operand)]
        if not instr.shape.is_tuple:
            return [instr] if instr.shape.is_array else []
        parts = (
            self._emit(f"{instr.name}.{n}", "get-tuple-element", shape, [instr], index=n)
            for n, shape in enumerate(instr.shape.elements)
        )
        return [leaf for part in parts for leaf in self.leaves(part)]

    def _emit(self, name: str, opcode: str, shape: Shape, operands: Sequence[Instr], **attrs: Any) -> Instr:
        made = Instr(self.names.unique(name), opcode, shape, tuple(operands), attrs)
        self.order.append(made)
        return made


def plain(module: Module) -> Module:
    """Without what changes no value: metadata, sources, frontend attributes, aliases, a schedule."""

    def bare(comp: Computation) -> Computation:
        new: dict[Instr, Instr] = {}
        for instr in comp.instrs:
            attrs = {k: v for k, v in instr.attrs.items() if k not in ("frontend_attributes", "sharding")}
            new[instr] = instr.replace(
                attrs=attrs,
                operands=tuple(new[o] for o in instr.operands),
                control=tuple(new[c] for c in instr.control),
                metadata=NO_METADATA,
                sources=frozenset(),
            )
        return Computation(comp.name, tuple(new.values()), new[comp.root])

    return map_computations(module, bare).replace(aliases=(), guards=())
