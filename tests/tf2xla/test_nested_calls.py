"""Functions that call each other very often, or very deep: what looks at all of them ends.

The FunctionDefs are made by hand: TensorFlow itself takes time exponential in the depth to trace them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context

from tfxla_cluster.tf.functions import variables
from tfxla_cluster.tf2xla import function_tree, must_be_constant

FLOAT, INT, RESOURCE = (t.as_datatype_enum for t in (tf.float32, tf.int32, tf.resource))


def function(name: str) -> Any:
    """(x, shape, v) -> y, without nodes."""
    made = function_pb2.FunctionDef()
    made.signature.name = name
    for arg, kind in (("x", FLOAT), ("shape", INT), ("v", RESOURCE)):
        made.signature.input_arg.add(name=arg, type=kind)
    made.signature.output_arg.add(name="y", type=FLOAT)
    return made


def chain(depth: int, times: int) -> Mapping[str, Any]:
    """f0 reshapes and assigns; each of f1 .. f(depth) calls the one before it `times` times."""
    first = function("f0")
    node = first.node_def.add(name="r", op="Reshape", input=["x", "shape"])
    node.attr["T"].type, node.attr["Tshape"].type = FLOAT, INT
    first.node_def.add(name="a", op="AssignVariableOp", input=["v", "r:output:0"]).attr["dtype"].type = FLOAT
    first.ret["y"] = "r:output:0"
    found = {"f0": first}
    for number in range(1, depth + 1):
        made = function(f"f{number}")
        source = "x"
        for call in range(times):
            node = made.node_def.add(name=f"c{call}", op="PartitionedCall", input=[source, "shape", "v"])
            node.attr["f"].func.name = f"f{number - 1}"
            node.attr["Tin"].list.type.extend([FLOAT, INT, RESOURCE])
            node.attr["Tout"].list.type.append(FLOAT)
            source = f"c{call}:output:0"
        made.ret["y"] = source
        found[made.signature.name] = made
    return found


@pytest.mark.parametrize(("depth", "times"), [(31, 2), (3000, 1)])
def test_which_arguments_must_be_constant(depth: int, times: int) -> None:
    library = chain(depth, times)
    assert must_be_constant.constant_args(library[f"f{depth}"], library.get) == {1}


def test_what_is_done_with_a_variable() -> None:
    library = chain(31, 2)
    uses = variables.resource_uses(library["f31"], library.get)
    assert [(arg, use.written, use.dtype) for arg, use in uses.items()] == [(2, True, FLOAT)]


@pytest.mark.parametrize(("depth", "times"), [(31, 2), (1500, 1)])
def test_a_tree_is_rewritten_once(depth: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in the innermost function makes a copy of each that leads to it."""
    library, added, removed = dict(chain(depth, times)), [], []
    monkeypatch.setattr(function_tree, "library", library.get)
    monkeypatch.setattr(context.Context, "add_function_def", lambda ctx, made: added.append(made.signature.name))
    monkeypatch.setattr(context.Context, "remove_function", lambda ctx, name: removed.append(name.decode()))

    def rewriting(definition: Any) -> Any:
        return (list(definition.node_def), {}) if definition.signature.name == "f0" else None

    with function_tree.rewritten(f"f{depth}", rewriting) as name:
        assert name == added[-1]
        assert len(added) == depth + 1
        assert not removed
    assert sorted(removed) == sorted(added)
