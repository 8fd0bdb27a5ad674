"""Must-compile functions called inside plain functions: the call node is kept, the function it names is replaced.

Keras' train step is such a call. Keeping the node keeps its name, its control edges and its place in the graph
(TensorFlow keeps side effects by node name). The replacement has the callee's signature:

    reads of its variables -> TfxlaReady -> If(ready, native, stock)

where `native` reads, runs TfxlaRun and assigns, and `stock` calls the original with `_XlaMustCompile`. With
--tfxla_must_compile_fallback=raise there is no branch: it is `native`. A call on a device without a backend is left
as it is; with that flag it raises.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import tensor_util

from ... import flags
from ...counters import add as count
from ...decision import YES, Decision, no
from ...errors import RecompileLimitError, UnsupportedError
from ...tf2xla import function_calls, sources
from ...tf2xla.function_calls import CALLS, Library
from ...tf2xla.function_def import fresh_name
from .. import devices
from ..compiler_port import Compiler
from ..functions import function_compiler, marks, shape_check, uninitialised, variables
from ..functions.marks import Noted
from ..graph import host_memory
from ..graph.view import split_input, type_list
from ..native_op.op import READY, Program
from . import function_graph, uncompiled
from .fallbacks import leave_where_placed, refusal_text, say_fallback
from .uncompiled import MUST_COMPILE

_HOST = "/device:CPU:0"
_CALL_ATTRS = ("config_proto", "config", "executor_type")
# On the calls that are stock XLA's: TensorFlow gives grappler the graph of each function it runs, these too.
_STOCK = "_tfxla_stock"


@dataclass(frozen=True)
class NestedCall:
    """What replaces a must-compile callee. `function`: its name; `library`: FunctionDefs the graph needs; `noted`: the
    marks on what it is called with; `registered`: functions put into the eager context for it."""

    function: str
    library: tuple[Any, ...]
    program: Program | None = None
    noted: Noted = field(default_factory=Noted)
    registered: tuple[str, ...] = ()


def is_must_compile_call(node: Any, library: Library) -> bool:
    """The node calls a function that carries `_XlaMustCompile` (on the call or on the function) and that the
    native op can stand for: no tensor list crosses its border."""
    callee = library(node.attr["f"].func.name) if node.op in CALLS and "f" in node.attr else None
    if callee is None or _STOCK in node.attr or uncompiled.has_variants(callee):
        return False
    carrier = node.attr if MUST_COMPILE in node.attr else callee.attr
    return MUST_COMPILE in carrier and bool(carrier[MUST_COMPILE].b)


def placed(node: Any, graph_def: Any) -> Decision:
    """Do the call, and the variables that it takes from `graph_def`, lie where we compile for, on one device?"""
    decision = devices.decide(node.device)
    if decision and (devices.has_missing() or devices.has_accelerator()):
        taken = {
            split_input(text)[0] for text, kind in zip(node.input, type_list(node, "Tin")) if kind == variables.RESOURCE
        }
        for producer in graph_def.node:
            if producer.name in taken:
                decision = decision & devices.decide(producer.device) & _together(node.device, producer.device)
    return decision


def _together(call: str, variable: str) -> Decision:
    """A branch of the call runs on one device: it reads no variable of another."""
    one, other = devices.place_of(call), devices.place_of(variable)
    if (one.target, one.number) == (other.target, other.number):
        return YES
    return no("device", f"a variable on {other.target}:{other.number} is used on {one.target}:{one.number}")


def arguments(node: Any, graph_def: Any) -> list[int]:
    """Which argument of the function whose graph it is each input of a call is, -1 none."""
    producers = {producer.name: producer for producer in graph_def.node}
    found = []
    for text in node.input:
        producer = None if text.startswith("^") else producers.get(split_input(text)[0])
        while producer is not None and producer.op == "Identity":
            producer = producers.get(split_input(producer.input[0])[0])
        if not text.startswith("^"):
            found.append(-1 if producer is None or producer.op != "_Arg" else int(producer.attr["index"].i))
    return found


class NestedCalls:
    """The replacements made so far, by callee, device and --tfxla_must_compile_fallback=raise."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self._made: dict[tuple[str, str, bool], NestedCall] = {}
        self._left: set[str] = set()
        self._lock = threading.RLock()

    def leave(self, node: Any, reason: str) -> bool:
        """Leave a call to stock XLA for `reason`, counted and recorded once a function; False where it is to raise."""
        if flags.get("tfxla_must_compile_fallback") == "raise":
            return False
        name = node.attr["f"].func.name
        with self._lock:
            first = name not in self._left
            self._left.add(name)
        if first:
            leave_where_placed(name, reason)
        return True

    def rewrite(self, node: Any, library: Library, allowed: Decision = YES, given: Sequence[int] = ()) -> list[Any]:
        """Make a must-compile call node (edited in place) run natively; the FunctionDefs to add to the graph.

        `library(name)` gives the graph's FunctionDefs. Idempotent: the edited node is no must-compile call. Where it is
        not `allowed` to run natively, it raises that. given: as `arguments` gives it.
        """
        name = node.attr["f"].func.name
        with self._lock:
            key = name, node.device if allowed else "", flags.get("tfxla_must_compile_fallback") == "raise"
            if key not in self._made:
                callee = library(name)
                self._made[key] = (
                    self._make(node, callee, library, key[2]) if allowed else _raising(node, callee, allowed.reason)
                )
            call = self._made[key]
        call.noted.add(marks.handed_on(sources.caller(), given))
        node.attr["f"].func.name = call.function
        node.op = "StatefulPartitionedCall"
        for attr in [a for a in node.attr if a.startswith("_Xla")]:
            del node.attr[attr]
        return list(call.library)

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Drop the replacements of these callees (None: of all)."""
        with self._lock:
            wanted = None if names is None else set(names)
            self._left.difference_update(self._left.copy() if wanted is None else wanted)
            for key in [k for k in self._made if wanted is None or k[0] in wanted]:
                call = self._made.pop(key)
                if call.program is not None:
                    call.program.close()
                for name in call.registered:
                    if context.context().has_function(name.encode()):
                        context.context().remove_function(name.encode())

    def forget_removed(self) -> None:
        """Drop the replacements of callees that were removed while nobody watched."""
        ctx = context.context()
        with self._lock:
            self.forget([name for name, *_ in self._made if not ctx.has_function(name.encode())])

    def _make(self, node: Any, callee: Any, library: Library, strict: bool) -> NestedCall:
        interface = variables.interface(callee, library)
        strict = strict or uncompiled.has_user_kernels(callee, library)
        name = callee.signature.name
        registered = _register(callee, library)

        # The graph cannot tell one refusal from another: a function that may not fit never goes to stock XLA.
        suspected = shape_check.may_misfit(callee, library)
        unsafe = not strict and uncompiled.is_unsafe_in_stock(callee, library, suspected)

        def refused(reason: UnsupportedError) -> None:
            if not strict:
                say_fallback(name, str(reason), unsafe, reason.key if isinstance(reason, RecompileLimitError) else "")

        noted = Noted()
        program = function_compiler.program(
            self.compiler,
            interface,
            "must",
            name,
            noted=noted,
            on_refusal=refused,
            check=uninitialised.checked(interface, not strict),
        )
        native = variables.wrap(callee, interface, program, fresh_name(f"native_{name}"), node.device)
        count("functions")
        function_graph.record(name, "nested_must_compile", interface, callee)
        if strict:
            return NestedCall(native.signature.name, (native,), program, noted, registered)
        stock = uncompiled.copy(callee) if unsafe else _stock(node, callee)
        chooser = _chooser(callee, interface, program, native.signature.name, stock.signature.name)
        for made in chooser.node_def:
            if made.op in (READY, "If"):  # where TfxlaRun is; reads are where their variables are
                made.device = node.device
        return NestedCall(chooser.signature.name, (native, stock, chooser), program, noted, registered)


def _register(function: Any, library: Library) -> tuple[str, ...]:
    """The bridge looks the callee and what it calls up in the eager context: put there what it lacks."""
    ctx, added = context.context(), []
    for definition in function_calls.reachable([function.signature.name], library):
        name = definition.signature.name
        if not ctx.has_function(name.encode()):
            ctx.add_function_def(definition)
            added.append(name)
    return tuple(added)


def _empty_like(callee: Any, name: str) -> Any:
    new = type(callee)()
    new.signature.CopyFrom(callee.signature)
    new.signature.name, new.signature.is_stateful = name, True
    del new.signature.control_output[:]
    for i, attrs in callee.arg_attr.items():
        new.arg_attr[i].CopyFrom(attrs)
    return new


def _finish(new: Any, node: str, port: str) -> Any:
    """Return a node's outputs, and keep it alive."""
    for k, out in enumerate(new.signature.output_arg):
        new.ret[out.name] = f"{node}:{port}:{k}"
    new.signature.control_output.append(node)
    new.control_ret[node] = node
    return new


def _raising(node: Any, callee: Any, reason: str) -> NestedCall:
    """A call that raises: `callee` is not compiled for `reason`, and stock XLA is not to compile it."""
    function = _stock(node, callee)
    call = function.node_def[0]
    call.input.append("^refused")
    for name, value in (("never", False), ("message", refusal_text(callee.signature.name, reason))):
        constant = function.node_def.add(name=name, op="Const", device=_HOST)
        constant.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value))
        constant.attr["dtype"].type = constant.attr["value"].tensor.dtype
    check = function.node_def.add(
        name="refused", op="Assert", device=_HOST, input=["never:output:0", "message:output:0"]
    )
    check.attr["T"].list.type.append(tf.string.as_datatype_enum)
    return NestedCall(function.signature.name, (function,))


def _stock(call: Any, callee: Any) -> Any:
    """A function that calls the original, for stock XLA to compile."""
    new = _empty_like(callee, fresh_name(f"stock_{callee.signature.name}"))
    node = new.node_def.add(name="stock", op="StatefulPartitionedCall", input=[a.name for a in new.signature.input_arg])
    for name in _CALL_ATTRS:
        if name in call.attr:
            node.attr[name].CopyFrom(call.attr[name])
    node.attr["f"].func.name = callee.signature.name
    node.attr[MUST_COMPILE].b = node.attr[_STOCK].b = True
    node.attr["Tin"].list.type.extend(a.type for a in new.signature.input_arg)
    node.attr["Tout"].list.type.extend(a.type for a in new.signature.output_arg)
    return _finish(new, "stock", "output")


def _chooser(callee: Any, interface: variables.Interface, program: Program, native: str, stock: str) -> Any:
    """If(TfxlaReady, native, stock) with the callee's signature."""
    new = _empty_like(callee, fresh_name(f"choose_{callee.signature.name}"))
    args = [a.name for a in new.signature.input_arg]
    taken = {*args}
    refs = variables.read_inputs(new, interface, args, taken)
    ready, choose = variables.free_name("ready", taken), variables.free_name("choose", taken)
    new.node_def.append(program.node(ready, refs, READY))
    node = new.node_def.add(name=choose, op="If", input=[f"{ready}:ready:0", *args])
    node.attr["Tcond"].type = 10
    node.attr["Tin"].list.type.extend(a.type for a in new.signature.input_arg)
    node.attr["Tout"].list.type.extend(a.type for a in new.signature.output_arg)
    node.attr["then_branch"].func.name, node.attr["else_branch"].func.name = native, stock
    node.attr["output_shapes"].list.SetInParent()
    host_memory.keep_branch(node)
    return _finish(new, choose, "output")
