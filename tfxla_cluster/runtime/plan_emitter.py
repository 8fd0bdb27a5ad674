"""The steps of a fused module over virtual buffers, before they get places.

The emitter walks a computation and keeps, for each instruction, the buffers its arrays lie in. Tuples,
reshapes and their like name their operands' buffers; a unit gets new ones; a loop carries its state in
buffers of its own. Every hand-over is written as a copy; `buffers.assign` later removes those it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..codegen.kernel.abi import scratch_layout
from ..codegen.kernel.buffer_use import overwritable, read_inputs
from ..codegen.kernel.ir import Kernel
from ..codegen.kernel.unit import Unit, UnitKernel, UnitLibrary, UnitRef
from ..errors import UnsupportedError
from ..ir import trip_count
from ..ir.dim import Dim, capacity, is_produced
from ..ir.node import Computation, Instr, Module
from ..ir.shape import Shape
from . import random_state, schedule
from .buffers import Affinity, Buffer
from .liveness import Effect
from .plan import BranchStep, CopyStep, KernelStep, Launch, LibraryStep, LoopStep, Ref, SizeStep, Step
from .schedule import SAME_BUFFERS, element_slice, leaves, unchanged

Buffers = tuple[int, ...]


@dataclass
class Emitter:
    """Steps over virtual buffers. `affinities` are the hand-overs; `depth` counts enclosing loops."""

    units: Mapping[Instr, Unit]
    launches: Mapping[Kernel, Launch]
    buffers: list[Buffer] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    effects: dict[int, Effect] = field(default_factory=dict)
    affinities: list[Affinity] = field(default_factory=list)
    produced: dict[str, Dim] = field(default_factory=dict)
    input_shapes: tuple[Shape, ...] = ()
    output_shapes: tuple[Shape, ...] = ()
    outputs: Buffers = ()
    depth: int = 0
    _steps: list[Step] = field(default_factory=list)
    _constant_index: dict[bytes, int] = field(default_factory=dict)

    # --- buffers ---
    def new(self, size: Dim, name: str, place: Ref | None = None) -> int:
        self.buffers.append(Buffer(capacity(size), place, name))
        return len(self.buffers) - 1

    def results(self, instr: Instr) -> Buffers:
        return tuple(self.new(leaf.byte_size, instr.name) for leaf in leaves(instr.shape))

    def constant(self, value: np.ndarray, name: str) -> int:
        data = np.ascontiguousarray(value).tobytes()
        index = self._constant_index.setdefault(data, len(self.constants))
        if index == len(self.constants):
            self.constants.append(data)
        return self.new(len(data), name, Ref("const", index))

    def copy(self, source: int, target: int, size: Dim, name: str) -> None:
        if source != target:
            step = CopyStep(_virtual(source), _virtual(target), size, name)
            self._steps.append(step)
            self.affinities.append(Affinity(source, target, id(step), self.depth))

    # --- computations ---
    def entry(self, module: Module) -> tuple[Step, ...]:
        params = module.entry.params
        shapes = [leaves(p.shape) for p in params]
        self.input_shapes = tuple(s for found in shapes for s in found)
        self.output_shapes = tuple(leaves(module.entry.root.shape))
        numbers = iter(range(len(self.input_shapes)))
        arguments = [
            tuple(self.new(s.byte_size, p.name, Ref("input", next(numbers))) for s in found)
            for p, found in zip(params, shapes)
        ]
        roots = self.computation(module.entry, arguments)
        name = module.entry.root.name
        self.outputs = tuple(self.new(s.byte_size, name, Ref("output", n)) for n, s in enumerate(self.output_shapes))
        for source, target, shape in zip(roots, self.outputs, self.output_shapes):
            self.copy(source, target, shape.byte_size, name)
        return tuple(self._steps)

    def computation(self, comp: Computation, arguments: Sequence[Buffers]) -> Buffers:
        """Emit the steps of `comp`; where its root's arrays lie."""
        env: dict[Instr, Buffers] = dict(zip(comp.params, arguments))
        for instr in schedule.order(comp, self._overwritten):
            if instr not in env:
                operands = [env[o] for o in instr.operands]
                env[instr] = _EMIT.get(instr.opcode, Emitter._unit)(self, instr, operands)
        return env[comp.root]

    def nested(self, comp: Computation, arguments: Sequence[Buffers]) -> tuple[list[Step], Buffers]:
        """The steps of `comp` apart from those around it (more may be appended), and its root."""
        outer, self._steps = self._steps, []
        roots = self.computation(comp, arguments)
        inner, self._steps = self._steps, outer
        return inner, roots

    def _overwritten(self, instr: Instr) -> Sequence[int]:
        unit = self.units.get(instr)
        return [operand for _, operand in unit.inplace] if unit else ()

    # --- instructions ---
    def _unit(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        unit, results = self.units[instr], self.results(instr)
        flat = tuple(b for operand in operands for b in operand)
        temps = tuple(self.new(size, instr.name) for size in unit.temps)
        shapes = leaves(instr.shape)
        for result, operand in unit.inplace:
            self.copy(flat[operand], results[result], shapes[result].byte_size, instr.name)
        written = {results[result] for result, _ in unit.inplace}
        lookup = {"operand": flat, "result": results, "temp": temps}
        for step in unit.steps:
            if isinstance(step, UnitKernel):
                self._kernel(step, instr, lookup, written)
            elif isinstance(step, UnitLibrary):
                self._library(step, instr, lookup, written)
            else:
                source, target = (lookup[r.kind][r.index] for r in (step.source, step.target))
                self.copy(source, target, step.bytes, instr.name)
                written.add(target)
        return results

    def _kernel(self, step: UnitKernel, instr: Instr, lookup: Mapping[str, Buffers], written: set[int]) -> None:
        def numbers(refs: Sequence[UnitRef]) -> Buffers:
            return tuple(lookup[r.kind][r.index] for r in refs)

        kernel, inputs, writes = step.kernel, numbers(step.inputs), numbers(step.outputs)
        used = read_inputs(kernel)
        reads = tuple(b for n, b in enumerate(inputs) if n in used)
        launch = self.launches[kernel]
        emitted = KernelStep(
            launch.symbol,
            tuple(map(_virtual, inputs)),
            tuple(map(_virtual, writes)),
            kernel.sizes,
            kernel.tasks,
            kernel.cost,
            scratch_layout(kernel)[1],
            instr.name,
            launch.origin,
            launch.params,
        )
        kills = self._add(emitted, reads, writes, written)
        for number, result in sorted(overwritable(kernel)):
            if inputs.count(inputs[number]) == 1 and writes[result] in kills:
                self.affinities.append(Affinity(inputs[number], writes[result], id(emitted), self.depth, inplace=True))

    def _library(self, step: UnitLibrary, instr: Instr, lookup: Mapping[str, Buffers], written: set[int]) -> None:
        reads, writes = (tuple(lookup[r.kind][r.index] for r in refs) for refs in (step.inputs, step.outputs))
        if step.data:
            reads = (*reads, self.constant(np.frombuffer(step.data, np.uint8), instr.name))
        emitted = LibraryStep(
            step.routine,
            tuple(map(_virtual, reads)),
            tuple(map(_virtual, writes)),
            step.sizes,
            instr.name,
            step.params,
            step.tasks,
            step.cost,
        )
        self._add(emitted, reads, writes, written)

    def _add(self, step: Step, reads: Buffers, writes: Buffers, written: set[int]) -> Buffers:
        """Append a unit's step; what it overwrites. `written` grows: the first step of a unit that writes a buffer
        overwrites it, later ones update."""
        self._steps.append(step)
        kills = tuple(b for b in writes if b not in written)
        updates = tuple(b for b in writes if b in written)
        self.effects[id(step)] = Effect(reads, kills, updates)
        written.update(writes)
        return kills

    def _view(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return operands[0]

    def _tuple(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return tuple(b for operand in operands for b in operand)

    def _element(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return operands[0][element_slice(instr)]

    def _constant(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return tuple(self.constant(value, instr.name) for value in _flatten(instr.attrs["literal"]))

    def _zero(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return (self.constant(np.zeros((), np.uint32), instr.name),)

    def _token(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return ()

    def _call(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        return self.computation(instr.attrs["to_apply"], operands)

    def _while(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        """State that the body hands through unchanged stays where it was; the rest is copied in,
        and at the end of the body the new state is copied over the old."""
        body, condition = instr.attrs["body"], instr.attrs["condition"]
        start, shapes = operands[0], leaves(instr.shape)
        kept = unchanged(body)
        state = tuple(
            b if n in kept else self.new(shape.byte_size, instr.name) for n, (b, shape) in enumerate(zip(start, shapes))
        )
        for source, target, shape in zip(start, state, shapes):
            self.copy(source, target, shape.byte_size, instr.name)
        self.depth += 1
        trips = trip_count.known(instr)
        test: list[Step] = []
        if trips is None:
            test, (flag,) = self.nested(condition, [state])
        else:
            flag = self.constant(np.zeros((), np.bool_), instr.name)
        steps, roots = self.nested(body, [state])
        outer, self._steps = self._steps, steps
        self._move(roots, state, shapes, instr.name)
        self._steps = outer
        self.depth -= 1
        count = -1 if trips is None else trips
        self._steps.append(LoopStep(tuple(test), _virtual(flag), tuple(steps), instr.name, count))
        return state

    def _move(self, roots: Buffers, state: Buffers, shapes: Sequence[Shape], name: str) -> None:
        """state := roots, all at once: a root that is another state buffer is saved first."""
        saved: dict[int, int] = {}
        overwritten = {target for root, target in zip(roots, state) if root != target}
        for root, target, shape in zip(roots, state, shapes):
            if root != target and root in overwritten and root not in saved:
                saved[root] = self.new(shape.byte_size, name)
                self.copy(root, saved[root], shape.byte_size, name)
        for root, target, shape in zip(roots, state, shapes):
            if root != target:
                self.copy(saved.get(root, root), target, shape.byte_size, name)

    def _conditional(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        selector, shapes = operands[0][0], leaves(instr.shape)
        is_pred = "branch_computations" not in instr.attrs or instr.operands[0].shape.element_type.kind == "pred"
        branches = instr.attrs.get("branch_computations") or (
            instr.attrs["true_computation"],
            instr.attrs["false_computation"],
        )
        parts = [self.nested(comp, [given]) for comp, given in zip(branches, operands[1:])]
        results = tuple(
            found[0] if len(set(found)) == 1 else self.new(shape.byte_size, instr.name)
            for shape, *found in zip(shapes, *(roots for _, roots in parts))
        )
        for steps, roots in parts:
            outer, self._steps = self._steps, steps
            for source, target, shape in zip(roots, results, shapes):
                self.copy(source, target, shape.byte_size, instr.name)
            self._steps = outer
        self._steps.append(
            BranchStep(_virtual(selector), is_pred, tuple(tuple(steps) for steps, _ in parts), instr.name)
        )
        return results

    def _random_state(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        """Key and counter of the process's random state (the order of a state of rng-bit-generator)."""
        if instr.shape.dims != (2,):
            raise UnsupportedError(f"{instr.name}: rng-get-and-update-state of {instr.shape}")
        results = self.results(instr)
        step = LibraryStep(
            random_state.ROUTINE, (), tuple(map(_virtual, results)), (int(instr.attrs["delta"]),), instr.name
        )
        self._steps.append(step)
        self.effects[id(step)] = Effect((), results)
        return results

    def _set_dimension_size(self, instr: Instr, operands: Sequence[Buffers]) -> Buffers:
        """The size becomes known here; the data are the operand's where only outermost elements go."""
        axis = int(instr.attrs["dimensions"][0])
        size = instr.shape.dims[axis]
        if any(d != 1 for d in instr.shape.dims[:axis]):
            raise UnsupportedError(f"{instr.name}: set-dimension-size of an inner dimension of {instr.shape}")
        if is_produced(size):
            self.produced.setdefault(size.name, size.bound)
            self._steps.append(SizeStep(size.name, _virtual(operands[1][0]), instr.name))
        return operands[0]


_EMIT: dict[str, Callable[[Emitter, Instr, Sequence[Buffers]], Buffers]] = {
    **dict.fromkeys(SAME_BUFFERS, Emitter._view),
    "tuple": Emitter._tuple,
    "get-tuple-element": Emitter._element,
    "constant": Emitter._constant,
    "partition-id": Emitter._zero,
    "replica-id": Emitter._zero,
    "after-all": Emitter._token,
    "call": Emitter._call,
    "while": Emitter._while,
    "conditional": Emitter._conditional,
    "set-dimension-size": Emitter._set_dimension_size,
    "rng-get-and-update-state": Emitter._random_state,
}


def _flatten(literal: object) -> list[np.ndarray]:
    if isinstance(literal, tuple):
        return [leaf for part in literal for leaf in _flatten(part)]
    return [np.asarray(literal)]


def _virtual(buffer: int) -> Ref:
    return Ref("virtual", buffer)
