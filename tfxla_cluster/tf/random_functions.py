"""Whole functions with ops rewritten so that compiled they give TensorFlow's values (random_ops, op_forms).

Those in functions they call too.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensorflow.python.eager import context

from ..lower import bridge
from ..lower.function_def import fresh_name
from . import op_forms, random_ops
from .random_normal import NORMALS


@contextmanager
def expanded(function: str) -> Iterator[str]:
    """The name of a registered function that, compiled, gives what TensorFlow's kernels give for `function`.

    It is `function` itself where no op is rewritten, else a copy that lives as long as the block.
    """
    made: dict[str, str] = {}
    try:
        yield _expand(function, made)
    finally:
        for old, new in made.items():
            if new != old:
                context.context().remove_function(new.encode())


def _expand(name: str, made: dict[str, str]) -> str:
    """The new name of a function (its own where it stays); `made` holds those of all seen."""
    if name in made:
        return made[name]
    made[name] = name  # a function that calls itself stays
    definition = bridge.library(name)
    if definition is None:
        return name
    called = {callee: _expand(callee, made) for node in definition.node_def for callee in _called(node)}
    nodes = random_ops.expand(definition.node_def, named=True, more=NORMALS)
    nodes = op_forms.expand(nodes if nodes is not None else definition.node_def) or nodes
    if nodes is None and all(old == new for old, new in called.items()):
        return name
    copy = _copy(definition, nodes, called)
    context.context().add_function_def(copy)
    made[name] = copy.signature.name
    return made[name]


def _copy(definition: Any, nodes: list[Any] | None, called: dict[str, str]) -> Any:
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.signature.name = fresh_name(definition.signature.name)
    if nodes is not None:
        del copy.node_def[:]
        copy.node_def.extend(nodes)
        names = random_ops.renamed(definition.node_def)
        for key, source in list(copy.ret.items()):
            copy.ret[key] = names.get(source, source)
    for node in copy.node_def:
        node.op = called.get(node.op, node.op)
        for value in node.attr.values():
            for function in (value.func, *value.list.func) if _holds_functions(value) else ():
                function.name = called.get(function.name, function.name)
    return copy


def _called(node: Any) -> list[str]:
    """Functions in a node's attributes, and its op, which may be one."""
    found = [node.op] if bridge.library(node.op) is not None else []
    for value in node.attr.values():
        if _holds_functions(value):
            found += [f.name for f in (value.func, *value.list.func) if f.name]
    return found


def _holds_functions(value: Any) -> bool:
    return bool(value.HasField("func") or (value.HasField("list") and value.list.func))
