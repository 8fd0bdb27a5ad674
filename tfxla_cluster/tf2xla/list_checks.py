"""What TensorFlow's bridge takes on trust about lists of tensors (TensorArray), checked before it lowers a function.

Compiled, a list has the size and dtype that it was made with: writes beyond its end go into its last element, a value
of another dtype is taken as it lies in memory, a list that values are pushed onto is as long as it may become. A
function that does such a thing is refused; TensorFlow's kernels do or refuse it as they should. So is what ends the
process: pushing a list whose elements have no shape yet.

Lists are followed through calls, branches and loops, with what is known of their lengths and of indices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from ..errors import UnsupportedError
from . import function_calls, sources
from .function_calls import LOOPS, Library
from .known_values import Inferred, Tensor, TensorList, Value, joined, of_constant

_VARIANT = tf.variant.as_datatype_enum
_HANDLES = ("Identity", "ZerosLike", "AddN")
"""Ops that give a list like the first that they take."""


@dataclass(frozen=True)
class Write:
    """A node that puts an element into a list, the function it stands in, and what is known there."""

    definition: Any
    node: Any
    inferred: Inferred


@dataclass
class Lists:
    """Follows the lists of functions; `writes` are the nodes met that put an element into one.

    `refuse(node, reason)` raises; nothing is raised where it returns. `sizes`: those of tensors that go into functions
    are known there too, for which each function is imported.
    """

    library: Library
    refuse: Callable[[Any, str], None]
    sizes: bool = False
    writes: list[Write] = field(default_factory=list)
    _with_lists: dict[str, bool] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[Value, ...]], tuple[Value, ...]] = field(default_factory=dict)

    def results(self, name: str, args: Sequence[Value]) -> tuple[Value, ...]:
        """What is known of a function's results."""
        key = name, tuple(args)
        if key not in self._known:
            self._known[key] = ()  # a function that calls itself
            try:
                self._known[key] = self._results(self.library(name), args)
            except UnsupportedError:
                del self._known[key]  # it may be asked of again, where it never runs
                raise
        return self._known[key]

    def uses(self, name: str) -> bool:
        """Is there a list in the function or in what it calls?"""
        if name not in self._with_lists:
            found = function_calls.reachable([name], self.library)
            self._with_lists[name] = any("TensorList" in node.op for f in found for node in f.node_def)
        return self._with_lists[name]

    def _results(self, definition: Any, args: Sequence[Value]) -> tuple[Value, ...]:
        scope = _Scope(self, definition, Inferred(definition, args), args)
        pending = [node for node in definition.node_def if _is_followed(node, self)]
        while pending:  # in any order that has what a node takes before it
            waiting = {node.name for node in pending}
            ready = [node for node in pending if not waiting & {_producer(text) for text in node.input}]
            if not ready:
                break
            for node in ready:
                scope.visit(node)
            done = {node.name for node in ready}
            pending = [node for node in pending if node.name not in done]
        return tuple(scope.value(definition.ret[out.name]) for out in definition.signature.output_arg)


class _Scope:
    """One function, for arguments of which something is known."""

    def __init__(self, lists: Lists, definition: Any, inferred: Inferred, args: Sequence[Value]) -> None:
        self.lists, self.definition, self.inferred = lists, definition, inferred
        self.values: dict[str, Value] = {arg.name: v for arg, v in zip(definition.signature.input_arg, args)}
        self.nodes = {node.name: node for node in definition.node_def}

    def value(self, text: str) -> Value:
        """What is known of what the function calls `text`: without `Lists.sizes`, of tensors what stands there."""
        if text in self.values:
            return self.values[text]
        if self.lists.sizes:
            return self.inferred.of(text)
        node = self.nodes.get(_producer(text))
        return of_constant(node) if node is not None and node.op == "Const" else Tensor()

    def tensor(self, node: Any, k: int) -> Tensor:
        """All that can be known of the node's k-th input, a tensor."""
        found = self.value(node.input[k])
        if isinstance(found, Tensor) and found == Tensor() and not self._hangs_on_unknown(node.input[k]):
            return self.inferred.of(node.input[k])
        return found if isinstance(found, Tensor) else Tensor()

    def _hangs_on_unknown(self, text: str) -> bool:
        """Is it computed from an argument of which nothing is known? Then neither is anything of it."""
        pending, seen = [text], {text}
        while pending:
            name = pending.pop()
            if self.values.get(name) == Tensor():
                return True
            node = self.nodes.get(_producer(name))
            fresh = [source for source in (node.input if node is not None else ()) if source not in seen]
            seen.update(fresh)
            pending += fresh
        return False

    def visit(self, node: Any) -> None:
        inputs = [self.value(text) for text in node.input if not text.startswith("^")]
        handler = _OPS.get(node.op)
        if handler is not None:
            for name, value in handler(self, node, inputs).items():
                self.values[f"{node.name}:{name}:0"] = value
        elif node.op in LOOPS:
            self._set(node, self._loop(node, inputs))
        elif node.op in _HANDLES:
            self._set(node, inputs[:1], {"ZerosLike": "y", "AddN": "sum"}.get(node.op, "output"))
        else:
            self._call(node, inputs)

    def _set(self, node: Any, values: Sequence[Value], name: str = "output") -> None:
        for k, value in enumerate(values):
            self.values[f"{node.name}:{name}:{k}"] = value

    def _call(self, node: Any, inputs: Sequence[Value]) -> None:
        callees = [f.signature.name for f in function_calls.passing(node, self.lists.library)]
        if not callees:
            return None
        taken = inputs[1:] if node.op in ("If", "StatelessIf", "Case", "StatelessCase") else inputs
        results = self.lists.results(callees[0], taken)
        for callee in callees[1:]:
            results = tuple(map(joined, results, self.lists.results(callee, taken)))
        if node.op != callees[0]:
            return self._set(node, results)
        for arg, value in zip(self.lists.library(node.op).signature.output_arg, results):
            self.values[f"{node.name}:{arg.name}:0"] = value
        return None

    def _loop(self, node: Any, state: Sequence[Value]) -> Sequence[Value]:
        """What holds in each iteration: less is known each time, until nothing changes. A body that is never run may
        read and write beyond lists, but for those of none, of which the bridge lowers no element."""
        cond, body = (node.attr[key].func.name for key in ("cond", "body"))
        self.lists.results(cond, state)
        try:
            found = self.lists.results(body, state)
        except UnsupportedError:
            lists = (value for value in state if isinstance(value, TensorList) and not value.pushed)
            if any(held.length == 0 for held in lists) or not self._is_never_run(node, cond):
                raise
            return state
        while True:
            after = tuple(map(joined, state, found))
            if len(after) < len(state) or after == tuple(state):
                return after
            state = after
            self.lists.results(cond, state)
            found = self.lists.results(body, state)

    def _is_never_run(self, node: Any, cond: str) -> bool:
        """Does the loop end before its first iteration, by what is known of its arguments?"""
        definition = self.lists.library(cond)
        known = [self.tensor(node, k) for k in range(len(definition.signature.input_arg))]
        (result,) = definition.ret.values()
        return Inferred(definition, known).of(result).scalar == 0

    # Ops on lists: the known outputs by name.

    def reserve(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        shaped, length = _is_whole_shape(self.tensor(node, 0)), self.tensor(node, 1).scalar
        return {"handle": TensorList(node.attr["element_dtype"].type, length, shaped)}

    def empty(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        kind, shaped = node.attr["element_dtype"].type, _is_whole_shape(self.tensor(node, 0))
        most = self.tensor(node, 1).scalar
        return {"handle": TensorList(kind, 0, shaped, pushed=True, most=most)}

    def from_tensor(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        dims = self.tensor(node, 0).dims
        return {"output_handle": TensorList(node.attr["element_dtype"].type, dims[0] if dims else None, True)}

    def split(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        dims = self.tensor(node, 2).dims
        return {"output_handle": TensorList(node.attr["element_dtype"].type, dims[0] if dims else None, True)}

    def set_item(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        held, index = inputs[0], self.tensor(node, 1).scalar
        self.lists.writes.append(Write(self.definition, node, self.inferred))
        if not isinstance(held, TensorList):
            return {}
        self._check_dtype(node, held)
        inside = None not in (index, held.length) and 0 <= index < held.length  # type: ignore[operator]
        if node.attr["resize_if_index_out_of_bounds"].b and not inside:
            self.lists.refuse(node, "the list grows by this write, and compiled it keeps its size")
        self._check_index(node, held, index)
        return {"output_handle": replace(held, shaped=True)}

    def get_item(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        if isinstance(inputs[0], TensorList):
            self._check_dtype(node, inputs[0])
            self._check_index(node, inputs[0], self.tensor(node, 1).scalar)
        return {}

    def gather(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        held = inputs[0]
        if isinstance(held, TensorList):
            self._check_dtype(node, held)
            self._check_whole(node, held)
            for index in self.tensor(node, 1).number or ():
                self._check_index(node, held, index)
        return {}

    def push(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        held, pushed = inputs[:2]
        if node.attr["element_dtype"].type == _VARIANT and not (isinstance(pushed, TensorList) and pushed.shaped):
            self.lists.refuse(node, "a list whose elements have no shape yet goes into another list")
        if not isinstance(held, TensorList):
            return {}
        self._check_dtype(node, held)
        if held.length is not None and held.length == held.most:
            self.lists.refuse(node, f"the list is full: it may have {held.most} elements")
        return {"output_handle": replace(held, length=_plus(held.length, 1), shaped=True)}

    def pop(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        held = inputs[0]
        if not isinstance(held, TensorList):
            return {}
        self._check_dtype(node, held)
        if held.length == 0:
            self.lists.refuse(node, "the list is empty")
        return {"output_handle": replace(held, length=_plus(held.length, -1))}

    def whole(self, node: Any, inputs: Sequence[Value]) -> dict[str, Value]:
        """Stack, Concat, Length."""
        held = inputs[0]
        if not isinstance(held, TensorList):
            return {}
        self._check_whole(node, held)
        if node.op == "TensorListLength":
            return {}
        self._check_dtype(node, held)
        wanted = node.attr["num_elements"].i if "num_elements" in node.attr else -1
        if wanted >= 0 and held.length is not None and wanted != held.length:
            self.lists.refuse(node, f"it takes {wanted} elements and the list has {held.length}")
        return {}

    def _check_dtype(self, node: Any, held: TensorList) -> None:
        wanted = node.attr["element_dtype"].type
        if wanted != held.dtype:
            kinds = [tf.dtypes.as_dtype(kind).name for kind in (wanted, held.dtype)]
            self.lists.refuse(node, f"an element of {kinds[0]} of a list of {kinds[1]}")

    def _check_index(self, node: Any, held: TensorList, index: int | None) -> None:
        outside = index is not None and held.length is not None and not 0 <= index < held.length
        if held.length == 0 or outside:
            which = "an element" if index is None else f"element {index}"
            self.lists.refuse(node, f"{which} of a list of {held.length}")

    def _check_whole(self, node: Any, held: TensorList) -> None:
        if held.pushed:
            self.lists.refuse(node, "how many elements were pushed onto the list is not known before it runs")


_OPS: dict[str, Callable[[_Scope, Any, Sequence[Value]], dict[str, Value]]] = {
    "TensorListReserve": _Scope.reserve,
    "EmptyTensorList": _Scope.empty,
    "TensorListFromTensor": _Scope.from_tensor,
    "TensorListSplit": _Scope.split,
    "TensorListSetItem": _Scope.set_item,
    "TensorListGetItem": _Scope.get_item,
    "TensorListGather": _Scope.gather,
    "TensorListPushBack": _Scope.push,
    "TensorListPopBack": _Scope.pop,
    "TensorListStack": _Scope.whole,
    "TensorListConcat": _Scope.whole,
    "TensorListConcatV2": _Scope.whole,
    "TensorListLength": _Scope.whole,
}


def check(name: str, args: Sequence[Value], library: Library) -> None:
    """UnsupportedError where a registered function uses lists as compiled code would not."""

    def refuse(node: Any, reason: str) -> None:
        raise UnsupportedError(f"node '{node.name}' (op {node.op}): {reason}", "", sources.line_of(name, node.name))

    lists = Lists(functools.cache(library), refuse)
    if lists.uses(name):
        lists.results(name, args)


def writes(name: str, args: Sequence[Value], library: Library) -> Iterator[Write]:
    """The nodes that put elements into lists, each as often as something else is known where it stands."""
    lists = Lists(functools.cache(library), lambda node, reason: None, sizes=True)
    lists.results(name, args)
    yield from lists.writes


def _is_followed(node: Any, lists: Lists) -> bool:
    if node.op in _HANDLES:
        return bool(node.attr["T"].type == _VARIANT)
    if node.op in _OPS:
        return True
    return any(lists.uses(f.signature.name) for f in function_calls.passing(node, lists.library))


def _producer(text: str) -> str:
    return text.lstrip("^").partition(":")[0]


def _plus(length: int | None, more: int) -> int | None:
    return None if length is None else length + more


def _is_whole_shape(shape: Tensor) -> bool:
    """Is the value a shape with all its sizes known?"""
    return shape.number is not None and all(size >= 0 for size in shape.number)
