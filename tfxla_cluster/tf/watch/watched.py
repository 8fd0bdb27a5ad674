"""A function that is watched: its arguments from plain values, and what it gives op by op and compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from ...tf2xla import function_calls
from ...tf2xla.function_calls import Library
from ...tf2xla.function_def import fresh_name
from . import op_by_op
from .op_by_op import Values

MUST_COMPILE = "_XlaMustCompile"
_NAME = "tfxla_jit_watch"  # compiled here whether or not all functions are
# Ops whose compiled values are other draws than TensorFlow's.
_DRAWS = frozenset(
    {
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "StatelessMultinomial",
        "StatelessParameterizedTruncatedNormal",
        "StatelessRandomNormal",
        "StatelessRandomUniform",
        "StatelessTruncatedNormal",
        "StatelessTruncatedNormalV2",
        "StochasticCastToInt",
        "TruncatedNormal",
    }
)


@dataclass(frozen=True)
class Watched:
    """`definition`: the FunctionDef as the program has it. variables: TF dtype number of the value by argument that is
    one. `library`: the FunctionDefs that it calls. line_of(function, node): the user's `file:line`, '' unknown."""

    definition: Any
    variables: Mapping[int, int]
    library: Library
    line_of: Callable[[str, str], str]

    @property
    def name(self) -> str:
        return str(self.definition.signature.name)

    def arguments(self, values: Mapping[int, Any]) -> Values:
        """Tensors, and handles of new variables, of these values by argument; without one a variable has none."""
        return [
            _variable(self.variables[i], values.get(i)) if i in self.variables else tf.constant(values[i])
            for i in range(len(self.definition.signature.input_arg))
        ]

    def compiled(self, references: Sequence[str], args: Sequence[Any]) -> Values:
        """These values of the function (`node:output:index`), compiled without what they do not need."""
        name = fresh_name(_NAME)
        context.context().add_function_def(_part(self.definition, references, name))
        try:
            found = context.context().call_function(name.encode(), list(args), len(references))
        finally:
            context.context().remove_function(name.encode())
        return list(found or ())

    @contextmanager
    def registered(self) -> Iterator[None]:
        """The functions that it calls are in the eager context."""
        ctx, added = context.context(), []
        for definition in function_calls.reachable([self.name], self.library):
            name = definition.signature.name
            if name != self.name and not ctx.has_function(name.encode()):
                ctx.add_function_def(definition)
                added.append(name)
        try:
            yield
        finally:
            for name in added:
                ctx.remove_function(name.encode())


class Draws:
    """Which values of a run follow from random draws, that compiled code makes otherwise. A visitor of op_by_op."""

    def __init__(self) -> None:
        self._tensors: dict[int, Any] = {}  # by id, and kept so that none is used again

    def visit(self, step: op_by_op.Step) -> None:
        if step.node.op in _DRAWS or any(map(self.has, step.inputs)):
            self._tensors.update((id(value), value) for value in step.outputs)

    def has(self, value: Any) -> bool:
        return id(value) in self._tensors


def array(value: Any) -> np.ndarray:
    """The value of an eager tensor."""
    return np.asarray(value.numpy())


def read(handle: Any, dtype: int) -> Any:
    """The value of a variable."""
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.dtypes.as_dtype(dtype))


def _variable(dtype: int, value: Any) -> Any:
    kind = tf.dtypes.as_dtype(dtype)
    name = context.anonymous_name()  # which goes with its handle
    handle = tf.raw_ops.VarHandleOp(dtype=kind, shape=tf.TensorShape(None), shared_name=name)
    if value is not None:
        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(value, kind))
    return handle


def needed(definition: Any, references: Collection[str]) -> set[str]:
    """The nodes that these values need, those that only run before them included."""
    nodes = {node.name: node for node in definition.node_def}
    pending = [name for name in map(op_by_op.producer, references) if name in nodes]
    found = set(pending)
    for name in pending:
        node = nodes[name]
        before = {*map(op_by_op.producer, op_by_op.data_inputs(node)), *op_by_op.control_inputs(node)}
        new = sorted((before & nodes.keys()) - found)
        found.update(new)
        pending += new
    return found


def _part(definition: Any, references: Sequence[str], name: str) -> Any:
    """A must-compile function that returns these values."""
    part = type(definition)()
    part.CopyFrom(definition)
    part.signature.name = name
    part.attr[MUST_COMPILE].b = True
    kept = needed(definition, references)
    types = {node.name: op_by_op.output_types(node) for node in definition.node_def if node.name in kept}
    ports = {node.name: op_by_op.port_names(node) for node in definition.node_def if node.name in kept}
    del part.node_def[:]
    part.node_def.extend(node for node in definition.node_def if node.name in kept)
    del part.signature.output_arg[:]
    del part.signature.control_output[:]
    part.ret.clear()
    part.control_ret.clear()
    for k, reference in enumerate(references):
        node, _, port = reference.partition(":")
        part.signature.output_arg.add(name=f"value_{k}", type=types[node][ports[node].index(port)])
        part.ret[f"value_{k}"] = reference
    return part
