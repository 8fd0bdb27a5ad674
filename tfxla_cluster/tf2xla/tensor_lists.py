"""Writes into lists of tensors (TensorArray) whose size is right but cannot be seen while lowering.

`x[i:i + 1]` has one row wherever it may be written into a list of [1, n] elements, but the bridge only knows that it
has at most as many as `x`, and refuses the write. Its refusal names the write and both shapes; where algebra says that
the sizes are equal, the write then takes a slice of the list's own element shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ..errors import LoweringError
from . import list_checks, part_sizes
from .function_tree import Rewriting

_REFUSED = re.compile(
    r"Invalid TensorList shape: \(\w+\[([\d,]*)\], s32\[\]\), expected: \(\w+\[([\d,<=]*)\], "
    r"s32\[\]\)\s*\[\[\{\{node ([^}]+)\}\}\]\]"
)
_I32 = tf.int32.as_datatype_enum


@dataclass(frozen=True)
class Write:
    """A refused write: the `node` that writes, the list's element dims, and the bounds of the value's dims."""

    node: str
    element: tuple[int, ...]
    value: tuple[int, ...]


def refused(error: LoweringError) -> Write | None:
    """The write that the bridge refused, if the value may have the list's element shape at run time."""
    match = _REFUSED.search(str(error.__cause__))
    if match is None:
        return None
    element, value = (tuple(int(d.strip("<=")) for d in text.split(",") if d)[1:] for text in match.groups()[:2])
    fits = len(element) == len(value) and all(e <= v for e, v in zip(element, value))
    return Write(match.group(3), element, value) if fits else None


def is_right(write: Write, met: Iterable[list_checks.Write]) -> bool:
    """Has the value the list's element shape wherever the node is met?"""
    found = [w for w in met if w.node.name == write.node]
    return bool(found) and all(
        part_sizes.is_of(w.definition, w.inferred, w.node.input[2], write.element) for w in found
    )


def sliced(writes: Mapping[str, Write]) -> Rewriting:
    """The rewriting that gives those writes (by name) values of the element shape."""

    def rewrite(definition: Any) -> tuple[list[Any], Mapping[str, str]] | None:
        nodes: list[Any] = []
        for node in definition.node_def:
            if node.op == "TensorListSetItem" and node.name in writes:
                nodes += _sliced(node, writes[node.name])
            else:
                nodes.append(node)
        return (nodes, {}) if len(nodes) > len(definition.node_def) else None

    return rewrite


def _sliced(node: Any, write: Write) -> list[Any]:
    """The write and the nodes that slice its value (input 2)."""
    kind, value = node.attr["element_dtype"].type, node.input[2]
    nodes = []
    for axis in (k for k, (e, v) in enumerate(zip(write.element, write.value)) if e < v):
        index = _constant(f"{node.name}/tfxla_axis_{axis}", np.array(axis, np.int32))
        whole = _node(
            f"{node.name}/tfxla_whole_{axis}",
            "XlaRemoveDynamicDimensionSize",
            [value, f"{index.name}:output:0"],
            T=kind,
        )
        value = f"{whole.name}:output:0"
        nodes += [index, whole]
    begin = _constant(f"{node.name}/tfxla_begin", np.zeros(len(write.element), np.int32))
    size = _constant(f"{node.name}/tfxla_size", np.array(write.element, np.int32))
    part = _node(
        f"{node.name}/tfxla_element",
        "Slice",
        [value, f"{begin.name}:output:0", f"{size.name}:output:0"],
        T=kind,
        Index=_I32,
    )
    copy = type(node)()
    copy.CopyFrom(node)
    copy.input[2] = f"{part.name}:output:0"
    return [*nodes, begin, size, part, copy]


def _node(name: str, op: str, inputs: list[str], **types: int) -> Any:
    node = tf.compat.v1.NodeDef(name=name, op=op, input=inputs)
    for key, kind in types.items():
        node.attr[key].type = kind
    return node


def _constant(name: str, value: np.ndarray) -> Any:
    node = _node(name, "Const", [], dtype=_I32)
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return node
