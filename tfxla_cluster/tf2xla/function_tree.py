"""Functions rewritten whole: a function and all that it calls, as copies that live as long as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tensorflow.python.eager import context

from ..errors import LoweringError
from .function_def import fresh_name, library

Rewriting = Callable[[Any], "tuple[list[Any], Mapping[str, str]] | None"]
"""FunctionDef -> its new NodeDefs and the outputs of nodes whose names changed (old -> new); None: it stays."""


@contextmanager
def rewritten(function: str, rewriting: Rewriting) -> Iterator[str]:
    """The name of a registered function like `function` with `rewriting` done in it and in those it calls.

    It is `function` itself where nothing changes, else a copy that lives as long as the block. A LoweringError raised
    in the block names the functions that were copied.
    """
    tree = _Tree(rewriting)
    try:
        yield tree.copy(function)
    except LoweringError as error:
        raise tree.renamed(error) from error.__cause__
    finally:
        for old, new in tree.made.items():
            if new != old:
                context.context().remove_function(new.encode())


class _Tree:
    def __init__(self, rewriting: Rewriting) -> None:
        self.rewriting = rewriting
        self.made: dict[str, str] = {}

    def copy(self, name: str) -> str:
        """The new name of a function (its own where it stays); `made` holds those of all seen."""
        if name in self.made:
            return self.made[name]
        self.made[name] = name  # a function that calls itself stays
        definition = library(name)
        if definition is None:
            return name
        called = {callee: self.copy(callee) for node in definition.node_def for callee in _called(node)}
        changed = self.rewriting(definition)
        if changed is None and all(old == new for old, new in called.items()):
            return name
        made = _copy(definition, changed, called)
        context.context().add_function_def(made)
        self.made[name] = made.signature.name
        return self.made[name]

    def renamed(self, error: LoweringError) -> LoweringError:
        """The error with the functions' own names in it."""
        message = error.message
        for old, new in self.made.items():
            message = message.replace(new, old)
        return type(error)(message, error.remedy, error.where, error.op, error.node)


def _copy(definition: Any, changed: tuple[list[Any], Mapping[str, str]] | None, called: Mapping[str, str]) -> Any:
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.signature.name = fresh_name(definition.signature.name)
    if changed is not None:
        nodes, names = changed
        del copy.node_def[:]
        copy.node_def.extend(nodes)
        for key, source in list(copy.ret.items()):
            copy.ret[key] = names.get(source, source)
    for node in copy.node_def:
        node.op = called.get(node.op, node.op)
        for value in node.attr.values():
            for function in _functions(value):
                function.name = called.get(function.name, function.name)
    return copy


def _called(node: Any) -> list[str]:
    """Functions in a node's attributes, and its op, which may be one."""
    found = [node.op] if library(node.op) is not None else []
    return found + [f.name for value in node.attr.values() for f in _functions(value) if f.name]


def _functions(value: Any) -> list[Any]:
    """The functions that an attribute holds: one, or a list (to write into the other would drop it)."""
    kind = value.WhichOneof("value")
    return [value.func] if kind == "func" else list(value.list.func) if kind == "list" else []
