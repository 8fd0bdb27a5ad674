"""Non-maximum suppression of fewer boxes than it may select, none at all too.

TensorFlow's bridge takes the first `max_output_size` of the boxes, and a first one. With boxes added whose score is
-inf, which no threshold lets pass, there are as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ..errors import LoweringError
from . import sources
from .function_tree import Rewriting

_OP = "NonMaxSuppressionV3"
_REFUSED = ("limit index (", "Slice dim size 1 greater than dynamic slice dimension: 0")
_I32 = tf.int32.as_datatype_enum


def refused(error: LoweringError, function: str) -> bool:
    """May the bridge have refused such an op, which the function or one that it calls holds?"""
    if not any(words in str(error.__cause__) for words in _REFUSED):
        return False
    return any(node.op == _OP for definition in sources.reachable(function) for node in definition.node_def)


def padded() -> Rewriting:
    """The rewriting that adds such boxes."""

    def rewrite(definition: Any) -> tuple[list[Any], Mapping[str, str]] | None:
        nodes: list[Any] = []
        for node in definition.node_def:
            nodes += _padded(node) if node.op == _OP else [node]
        return (nodes, {}) if len(nodes) > len(definition.node_def) else None

    return rewrite


def _padded(node: Any) -> list[Any]:
    """The node after those that pad its boxes by `max_output_size` + 1 rows."""
    kind, made = node.attr["T"].type, []

    def add(name: str, op: str, inputs: list[str], output: str, **types: int) -> str:
        new = tf.compat.v1.NodeDef(name=f"{node.name}/tfxla_{name}", op=op, input=inputs)
        for key, value in types.items():
            new.attr[key].type = value
        made.append(new)
        return f"{new.name}:{output}:0"

    def constant(name: str, value: Any, dtype: int = _I32) -> str:
        text = add(name, "Const", [], "output", dtype=dtype)
        made[-1].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.dtypes.as_dtype(dtype)))
        return text

    more = add("more", "AddV2", [node.input[2], constant("one", 1)], "z", T=_I32)
    whole = add("rows", "Reshape", [more, constant("shape", [1, 1])], "output", T=_I32, Tshape=_I32)
    rows = add("padding", "Pad", [whole, constant("before", [[0, 0], [1, 0]])], "output", T=_I32)
    made[-1].attr["Tpaddings"].type = _I32
    both = add("paddings", "Pad", [rows, constant("after", [[0, 1], [0, 0]])], "output", T=_I32)
    made[-1].attr["Tpaddings"].type = _I32
    boxes = add("boxes", "Pad", [node.input[0], both], "output", T=kind, Tpaddings=_I32)
    least = constant("least", -np.inf, kind)
    scores = add("scores", "PadV2", [node.input[1], rows, least], "output", T=kind, Tpaddings=_I32)
    copy = type(node)()
    copy.CopyFrom(node)
    copy.input[0], copy.input[1] = boxes, scores
    return [*made, copy]
