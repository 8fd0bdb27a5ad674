"""The first op of a function whose compiled value parts from eager TensorFlow's.

All values that the wrong result needs are compiled as results of one function. Where none of them parts (only the
fused program is wrong) functions that end at one of them are compiled, by bisection. Calls, branches and the bodies of
loops that part are entered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from . import op_by_op
from .difference import Difference, between, is_comparable, shake
from .op_by_op import CALLS, CASES, IFS, WHILES, Step, Values
from .watched import Draws, Watched, array, needed

_MOST = 2000  # results of one function


@dataclass(frozen=True)
class Parting:
    """A node of the FunctionDef named `function`, and how its compiled value differs."""

    function: str
    node: Any
    difference: Difference


def locate(watched: Watched, values: Mapping[int, Any], results: Sequence[str]) -> Parting | None:
    """Where the compiled `results` (references of the function's body) begin to part, at argument values `values`;
    None where no op can be told."""
    run = _Eager(watched, values)
    candidates = [r for r in run.references() if op_by_op.producer(r) in needed(watched.definition, results)]
    found = _together(watched, values, run, candidates[-_MOST:]) or _apart(watched, values, run, candidates)
    if found is None:
        return None
    return _inside(watched, run, found) or found


class _Eager:
    """The function run op by op: its own steps, and which values can be compared; also with shaken inputs."""

    def __init__(self, watched: Watched, values: Mapping[int, Any]) -> None:
        self.name, self.steps, self.draws = watched.name, dict[str, Step](), Draws()
        self.value: dict[str, Any] = {}
        op_by_op.run(
            watched.definition,
            watched.arguments({i: shake(x) for i, x in values.items()}),
            watched.library,
            self._visit,
        )
        self.shaken, self.value = self.value, {}
        op_by_op.run(watched.definition, watched.arguments(values), watched.library, self._visit)

    def _visit(self, step: Step) -> None:
        self.draws.visit(step)
        if step.function == self.name:
            self.steps[step.node.name] = step
            names = op_by_op.port_names(step.node)
            self.value.update((f"{step.node.name}:{name}", x) for name, x in zip(names, step.outputs))

    def references(self) -> list[str]:
        """What can be compared, in the order in which it was made."""
        return [
            name
            for name, value in self.value.items()
            if self.steps[op_by_op.producer(name)].node.op != "Const"
            and is_comparable(value.dtype)
            and not self.draws.has(value)
        ]

    def parting(self, reference: str, compiled: Any) -> Parting | None:
        """How a compiled value parts."""
        difference = between(array(self.value[reference]), array(compiled), array(self.shaken[reference]))
        node = self.steps[op_by_op.producer(reference)].node
        return None if difference is None else Parting(self.name, node, difference)


def _together(watched: Watched, values: Mapping[int, Any], run: _Eager, references: Sequence[str]) -> Parting | None:
    compiled = watched.compiled(references, watched.arguments(values))
    found = (run.parting(*pair) for pair in zip(references, compiled))
    return next((parting for parting in found if parting is not None), None)


def _apart(watched: Watched, values: Mapping[int, Any], run: _Eager, references: Sequence[str]) -> Parting | None:
    """By bisection: the last of `references` parts, or nothing does."""

    def parting(reference: str) -> Parting | None:
        return run.parting(reference, watched.compiled([reference], watched.arguments(values))[0])

    found = parting(references[-1]) if references else None
    low, high = 0, len(references) - 1
    while found is not None and low < high:
        middle = (low + high) // 2
        earlier = parting(references[middle])
        found, low, high = (found, middle + 1, high) if earlier is None else (earlier, low, middle)
    return found


def _inside(watched: Watched, run: _Eager, parting: Parting) -> Parting | None:
    """Where a call, a branch or a loop's body parts; None where the node is none of these or takes a variable."""
    step = run.steps[parting.node.name]
    node, inputs = step.node, step.inputs
    if any(value.dtype in (tf.resource, tf.variant) for value in inputs):
        return None
    if node.op in CALLS:
        return _callee(watched, node.attr["f"].func.name, inputs)
    if node.op in IFS | CASES:
        return _callee(watched, op_by_op.branch(node, inputs[0]), inputs[1:])
    return _loop(watched, node, inputs) if node.op in WHILES else None


def _callee(watched: Watched, name: str, inputs: Values) -> Parting | None:
    """Where this function parts at these inputs."""
    definition = watched.library(name)
    callee = replace(watched, definition=definition, variables={})
    values = dict(enumerate(map(array, inputs)))
    results = [definition.ret[out.name] for out in definition.signature.output_arg]
    return locate(callee, values, [r for r in results if ":" in r])


def _loop(watched: Watched, node: Any, state: Values) -> Parting | None:
    """Where the body parts in the first iteration in which it does."""
    condition, body = (watched.library(node.attr[name].func.name) for name in ("cond", "body"))
    while op_by_op.is_true(op_by_op.run(condition, state, watched.library)[0]):
        found = _callee(watched, body.signature.name, state)
        if found is not None:
            return found
        state = op_by_op.run(body, state, watched.library)
    return None
