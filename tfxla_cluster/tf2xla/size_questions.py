"""What a function asks about the sizes of its arguments, by which it may be another program at some of them.

TensorFlow folds what follows from sizes before it lowers: `tf.cond(tf.shape(x)[0] == 33, ...)` is one of its branches.
No module at other sizes tells of such a question, unless it happens to be on its other side. So values that sizes and
constants alone decide are followed through a function and those that it calls, to what answers in yes or no, or by a
remainder. What runs decides is none of these: it is an instruction at each size.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from . import function_calls
from .function_calls import LOOPS, Library
from .must_be_constant import METADATA_OPS, SELECTOR_FIRST, loop_invariant


class Known(IntEnum):
    """What decides a value; of several the last. COUNTED: constants decide each element, sizes how many there are."""

    CONSTANT = 0
    SIZES = 1
    COUNTED = 2
    RUN = 3


_QUESTIONS = frozenset(
    [
        *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "ApproximateEqual", "InTopKV2"),
        *("ArgMax", "ArgMin", "TopKV2", "Sign", "Floor", "Ceil", "Round", "Rint"),
        *("FloorMod", "Mod", "TruncateMod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"),
    ]
)
_DIVISIONS = frozenset(("FloorDiv", "TruncateDiv", "Div"))
"""A question where a constant divides: the rest is lost. In gradients of means sizes divide sizes, and nothing is."""
_ASK_THEMSELVES = frozenset(
    f"Resize{kind}{grad}" for kind in ("Bilinear", "Bicubic", "NearestNeighbor") for grad in ("", "Grad")
)
"""Ops that TensorFlow lowers in another way where two sizes are equal."""
_SIZED = METADATA_OPS - {"Rank", "VarIsInitializedOp"}
_ELEMENTS: Mapping[str, tuple[int, ...]] = {
    "Range": (),
    "LinSpace": (),
    "Empty": (),
    "Fill": (1,),
    "BroadcastTo": (0,),
    "Tile": (0,),
    "OneHot": (0, 2, 3),
}
"""Ops of arrays whose extents are values -> inputs that their elements are made of."""
_DRAWING = ("Random", "Stateless", "Stateful", "Truncated", "Parameterized", "Multinomial")
"""How names of ops begin that draw numbers of a shape, and of no function."""
_OF_ELEMENTS = frozenset(
    ("Max", "Min", "Sum", "Prod", "Any", "All", "Mean", "Gather", "GatherV2", "GatherNd", "StridedSlice", "Slice")
)
"""Ops by which single elements, or what they come to, are taken of an array."""
_WHOLE = (tf.int32, tf.int64, tf.int16, tf.int8, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool)
_TO_WHOLE = frozenset(kind.as_datatype_enum for kind in _WHOLE)


@dataclass(frozen=True)
class Question:
    """A node of a function that asks."""

    function: str
    node: str
    op: str


def questions(name: str, constants: Collection[int], library: Library) -> Iterator[Question]:
    """Those of a registered function, of which some arguments, by number, are constants when it is lowered."""
    scopes = _Scopes(functools.cache(library))
    definition = library(name)
    count = 0 if definition is None else len(definition.signature.input_arg)
    scopes.results(name, [Known.CONSTANT if k in constants else Known.RUN for k in range(count)])
    yield from scopes.found


@dataclass
class _Scopes:
    """The functions met, each as often as something else is known of its arguments."""

    library: Library
    found: list[Question] = field(default_factory=list)
    known: dict[tuple[str, tuple[Known, ...]], tuple[Known, ...]] = field(default_factory=dict)

    def results(self, name: str, args: Sequence[Known]) -> tuple[Known, ...]:
        key, definition = (name, tuple(args)), self.library(name)
        if definition is None:
            return ()
        if key not in self.known:
            self.known[key] = (Known.RUN,) * len(definition.signature.output_arg)  # a function that calls itself
            self.known[key] = _Scope(self, definition, args).results()
        return self.known[key]


class _Scope:
    """One function, for arguments of which this is known."""

    def __init__(self, scopes: _Scopes, definition: Any, args: Sequence[Known]) -> None:
        self.scopes, self.definition = scopes, definition
        self.values = {arg.name: value for arg, value in zip(definition.signature.input_arg, args)}

    def results(self) -> tuple[Known, ...]:
        for node in _in_order(self.definition.node_def):
            self._visit(node)
        returned = (self.definition.ret[out.name] for out in self.definition.signature.output_arg)
        return tuple(map(self._value, returned))

    def _value(self, text: str) -> Known:
        found = self.values.get(text)
        return self.values.get(text.partition(":")[0], Known.RUN) if found is None else found

    def _visit(self, node: Any) -> None:
        inputs = [self._value(text) for text in node.input if not text.startswith("^")]
        callees = function_calls.passing(node, self.scopes.library)
        if callees:
            self._call(node, callees, inputs)
        else:
            self.values[node.name] = _result(node, inputs)
        if _asks(node, inputs):
            self.scopes.found.append(Question(self.definition.signature.name, node.name, node.op))

    def _call(self, node: Any, callees: Sequence[Any], inputs: Sequence[Known]) -> None:
        taken = inputs[1:] if node.op in SELECTOR_FIRST else inputs
        if node.op in LOOPS:
            kept = loop_invariant(callees[-1])  # others change from one trip to the next
            taken = [value if k in kept else Known.RUN for k, value in enumerate(inputs)]
        found = [self.scopes.results(callee.signature.name, taken) for callee in callees]
        results = taken if node.op in LOOPS else [max(of) for of in zip(*found)]
        is_op = node.op == callees[0].signature.name
        for k, (arg, value) in enumerate(zip(callees[0].signature.output_arg, results)):
            self.values[f"{node.name}:{arg.name}:0" if is_op else f"{node.name}:output:{k}"] = value


def _asks(node: Any, inputs: Sequence[Known]) -> bool:
    if node.op in _ASK_THEMSELVES:
        return True
    if max(inputs, default=Known.RUN) is not Known.SIZES:
        return node.op in SELECTOR_FIRST and inputs[:1] == [Known.SIZES]
    whole = node.op == "Cast" and node.attr["DstT"].type in _TO_WHOLE and node.attr["SrcT"].type not in _TO_WHOLE
    truth = node.op == "Cast" and node.attr["DstT"].type == tf.bool.as_datatype_enum
    return node.op in _QUESTIONS or whole or truth or (node.op in _DIVISIONS and inputs[1] is Known.CONSTANT)


def _result(node: Any, inputs: Sequence[Known]) -> Known:
    """Of a node that calls no function."""
    if node.op in _SIZED:
        return Known.SIZES
    if node.op in ("Rank", "Const"):
        return Known.CONSTANT
    of = max(inputs, default=Known.RUN)
    if of is Known.RUN or _is_stateful(node.op) or node.op.startswith("TensorList"):
        return Known.RUN
    if node.op in _ELEMENTS or node.op.startswith(_DRAWING):
        elements = max((inputs[k] for k in _ELEMENTS.get(node.op, ())), default=Known.CONSTANT)
        return elements if elements is not Known.CONSTANT or of is Known.CONSTANT else Known.COUNTED
    is_one = node.op in _OF_ELEMENTS and (node.op != "StridedSlice" or node.attr["shrink_axis_mask"].i)
    return Known.SIZES if of is Known.COUNTED and is_one else of


@functools.lru_cache(maxsize=4096)  # asked of each node
def _is_stateful(op: str) -> bool:
    definition = op_def_registry.get(op)
    return definition is None or definition.is_stateful


def _in_order(nodes: Sequence[Any]) -> Iterator[Any]:
    """Each after those whose values it takes."""
    named = {node.name: node for node in nodes}
    done: set[str] = set()
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            sources = (text.lstrip("^").partition(":")[0] for text in node.input)
            waiting = [named[source] for source in sources if source in named and source not in done]
            if node.name in done or not waiting:
                stack.pop()
                if node.name not in done:
                    done.add(node.name)
                    yield node
            else:
                stack += waiting
