"""Runs a FunctionDef in eager TensorFlow, an op at a time; branches, loops and calls are entered."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry, tensor_util

from ...tf2xla.function_calls import Library
from ..graph.view import argument_types

Values = list[Any]
"""Eager tensors."""
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
IFS, CASES = frozenset({"If", "StatelessIf"}), frozenset({"Case", "StatelessCase"})
WHILES = frozenset({"While", "StatelessWhile"})
ENTERED = CALLS | IFS | CASES | WHILES
_DEAD = ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond")


class CannotRunError(Exception):
    """Eager TensorFlow has no way to run this function op by op; the message says why."""


@dataclass(frozen=True)
class Step:
    """An op that ran: the node of the FunctionDef named `function`, what it took and gave."""

    function: str
    node: Any
    inputs: Values
    outputs: Values


Visit = Callable[[Step], None]


def run(definition: Any, args: Sequence[Any], library: Library, visit: Visit = lambda step: None) -> Values:
    """What the FunctionDef returns; `visit` sees every op, those of callees before the op that calls them.

    `library(name)` gives the FunctionDefs that it calls, which the eager context knows too. Variables are handles, and
    are assigned. Errors of ops are TensorFlow's; CannotRunError for control flow of TensorFlow 1.
    """
    return _Run(definition, args, library, visit).results()


def control_inputs(node: Any) -> list[str]:
    return [text[1:] for text in node.input if text.startswith("^")]


def data_inputs(node: Any) -> list[str]:
    return [text for text in node.input if not text.startswith("^")]


def producer(reference: str) -> str:
    """The node, or argument, that `node:output:index` or `argument` names."""
    return reference.partition(":")[0]


def order(definition: Any) -> list[Any]:
    """The nodes, producers first."""
    nodes = {node.name: node for node in definition.node_def}
    needs = {
        name: [n for n in (*map(producer, data_inputs(node)), *control_inputs(node)) if n in nodes]
        for name, node in nodes.items()
    }
    return [nodes[name] for name in graphlib.TopologicalSorter(needs).static_order()]


def output_types(node: Any) -> list[int]:
    """The TF dtype number of each output; of a call of a library function that is no op, none."""
    known = op_def_registry.get(node.op)
    return [kind for argument in known.output_arg for kind in argument_types(node, argument)] if known else []


def port_names(node: Any) -> list[str]:
    """What a FunctionDef calls each output: `argument:index`."""
    known = op_def_registry.get(node.op)
    return [
        f"{argument.name}:{k}"
        for argument in (known.output_arg if known else ())
        for k in range(len(argument_types(node, argument)))
    ]


class _Run:
    def __init__(self, definition: Any, args: Sequence[Any], library: Library, visit: Visit) -> None:
        self.definition, self.library, self.visit = definition, library, visit
        names = (argument.name for argument in definition.signature.input_arg)
        self.values: dict[str, Any] = dict(zip(names, args, strict=True))

    def results(self) -> Values:
        for node in order(self.definition):
            inputs = [self.values[text] for text in data_inputs(node)]
            outputs = self._outputs(node, inputs)
            names = port_names(node) if op_def_registry.get(node.op) else self._callee_ports(node)
            self.values.update((f"{node.name}:{name}", value) for name, value in zip(names, outputs, strict=True))
            self.visit(Step(self.definition.signature.name, node, inputs, outputs))
        return [self.values[self.definition.ret[out.name]] for out in self.definition.signature.output_arg]

    def _callee_ports(self, node: Any) -> list[str]:
        return [f"{out.name}:0" for out in self._function(node.op).signature.output_arg]

    def _outputs(self, node: Any, inputs: Values) -> Values:
        if node.op == "Const":
            return [tf.constant(tensor_util.MakeNdarray(node.attr["value"].tensor))]
        if node.op in CALLS:
            return self._call(node.attr["f"].func.name, inputs)
        if node.op in IFS:
            return self._call(branch(node, inputs[0]), inputs[1:])
        if node.op in CASES:
            return self._call(branch(node, inputs[0]), inputs[1:])
        if node.op in WHILES:
            return self._loop(node, inputs)
        if op_def_registry.get(node.op) is None and self.library(node.op) is not None:
            return self._call(node.op, inputs)
        if node.op in _DEAD:
            raise CannotRunError(f"{node.op} ({node.name}) is control flow of TensorFlow 1")
        return execute_node(node, inputs)

    def _function(self, name: str) -> Any:
        found = self.library(name)
        if found is None:
            raise CannotRunError(f"function {name} is not known")
        return found

    def _call(self, name: str, inputs: Values) -> Values:
        return run(self._function(name), inputs, self.library, self.visit)

    def _loop(self, node: Any, state: Values) -> Values:
        condition, body = node.attr["cond"].func.name, node.attr["body"].func.name
        while is_true(self._call(condition, state)[0]):
            state = self._call(body, state)
        return state


def branch(node: Any, selector: Any) -> str:
    """The function that an If or a Case takes."""
    if node.op in IFS:
        return str(node.attr["then_branch" if is_true(selector) else "else_branch"].func.name)
    branches = node.attr["branches"].list.func
    number = int(selector)
    return str(branches[number if 0 <= number < len(branches) else -1].name)


def is_true(value: Any) -> bool:
    """As If and While take a tensor: a scalar that is not zero or empty, else one that has elements."""
    if value.shape.rank:
        return bool(value.shape.num_elements())
    return bool(value.numpy())


def execute_node(node: Any, inputs: Values) -> Values:
    """One op, in eager TensorFlow."""
    definition = op_def_registry.get(node.op)
    if definition is None:
        raise CannotRunError(f"{node.op} ({node.name}) is no op of this TensorFlow")
    attrs = [item for d in definition.attr if d.name in node.attr for item in (d.name, _attr(node.attr[d.name]))]
    outputs = execute.execute(node.op.encode(), len(output_types(node)), inputs, tuple(attrs), context.context())
    return [] if outputs is None else list(outputs)


def _attr(value: Any) -> Any:
    """An AttrValue as TFE_Py_Execute takes it."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return [_item(name.name, item) for name, items in value.list.ListFields() for item in items]
    return _item(kind, getattr(value, kind)) if kind else []


def _item(kind: str, value: Any) -> Any:
    if kind == "shape":
        return None if value.unknown_rank else [d.size if d.size >= 0 else None for d in value.dim]
    if kind == "func":
        return value.name
    return tf.make_ndarray(value) if kind == "tensor" else value
