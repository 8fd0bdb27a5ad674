"""Which functions a node calls: the one answer for NodeDefs of graphs and of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tensorflow.python.framework import op_def_registry

Library = Callable[[str], Any]
"""Name -> FunctionDef, or None."""

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
LOOPS = ("While", "StatelessWhile")

# Attributes that name functions are read in this order, others by name: a loop's condition before its body.
_ATTRIBUTES = ("f", "cond", "body", "then_branch", "else_branch", "branches")
# Ops whose functions take the op's inputs as their arguments, in order (after a selector, where there is one).
PASSING = frozenset((*CALLS, *LOOPS, *("If", "StatelessIf", "Case", "StatelessCase", "SymbolicGradient", "RemoteCall")))


def functions(value: Any) -> list[Any]:
    """The NameAttrLists that an attribute's value holds: one, or a list (to write into the other would drop it)."""
    kind = value.WhichOneof("value")
    return [value.func] if kind == "func" else list(value.list.func) if kind == "list" else []


def in_attributes(node: Any) -> list[str]:
    """Names of the functions that a node's attributes hold (calls, branches, loops, data sets)."""
    attributes, plain = node.attr, plain_attributes(node.op)
    found = {name: held for name in attributes if name not in plain and (held := functions(attributes[name]))}
    return [f.name for name in sorted(found, key=_place) for f in found[name] if f.name]


@functools.lru_cache(maxsize=4096)  # asked of each node
def plain_attributes(op: str) -> frozenset[str]:
    """The attributes of an op of TensorFlow's that are no functions, by their type."""
    definition = op_def_registry.get(op)
    listed = definition.attr if definition is not None else ()
    return frozenset(attr.name for attr in listed if attr.type not in ("func", "list(func)"))


def _place(attribute: str) -> tuple[int, str]:
    known = attribute in _ATTRIBUTES
    return (_ATTRIBUTES.index(attribute) if known else len(_ATTRIBUTES)), attribute


def called(node: Any, library: Library) -> list[str]:
    """As `in_attributes`, and the op itself where the library has a function of that name."""
    return [*in_attributes(node), *([node.op] if library(node.op) is not None else [])]


def passing(node: Any, library: Library) -> list[Any]:
    """FunctionDefs that a node calls with its own inputs as their arguments: those that the library has."""
    names = in_attributes(node) if node.op in PASSING else [node.op]
    return [definition for definition in map(library, names) if definition is not None]


def reachable(names: Iterable[str], library: Library) -> Iterator[Any]:
    """FunctionDefs of these functions and of all that they call, each once, outer first; others are left out."""
    pending = list(dict.fromkeys(names))
    seen = set(pending)
    for name in pending:
        definition = library(name)
        if definition is None:
            continue
        yield definition
        for node in definition.node_def:
            fresh = [n for n in (*in_attributes(node), node.op) if n not in seen]
            seen.update(fresh)
            pending += fresh
