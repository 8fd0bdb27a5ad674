"""From a registered function to a native Program: on a miss, lower at the sizes seen, compile, set guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ... import trace
from ...counters import add as count
from ...errors import LoweringError, UnsupportedError
from ...ir.dim import symbols
from ...tf2xla import bridge, sources
from .. import compiler_port, devices
from ..native_op.op import InputView, Program
from ..native_op.records import UNREAD, Entry, Guard, Output
from ..rewrites import rewritten_functions
from .variables import Interface


def program(
    interface: Interface,
    kind: str = "must",
    name: str = "",
    on_refusal: Callable[[UnsupportedError], None] | None = None,
) -> Program:
    """A Program that runs `interface.function`: op inputs are `interface.inputs` (of a variable its value), op
    outputs its data outputs, then the new values of `interface.updated`.

    The function and its callees have to be registered in the eager context whenever the program misses.
    A refusal of the bridge raises tf.errors.InvalidArgumentError, one of the compiler UnsupportedError.
    """

    title = name or interface.function

    def compile(inputs: list[InputView]) -> Entry:
        report_recompile(interface, made.entries, inputs, title)
        return compile_function(interface, inputs, kind, title)

    made = Program(title, interface.input_types, interface.output_types, compile, on_refusal)
    return made


def report_recompile(interface: Interface, entries: Sequence[Entry], inputs: Sequence[InputView], name: str) -> None:
    """Record which guards of the closest executable these inputs fail; nothing at the first compilation."""
    if not entries or not trace.wants("recompile"):
        return
    failed = min((failed_guards(interface, entry, inputs) for entry in entries), key=len)
    trace.record("recompile", function=name, executables=len(entries), failed=failed)


def failed_guards(interface: Interface, entry: Entry, inputs: Sequence[InputView]) -> list[str]:
    """Each guard of `entry` that the inputs do not satisfy, in words: which input, what it was and is."""
    failed = []
    for arg, guard, view in zip(interface.inputs, entry.guards, inputs):
        who = _words(interface, arg)
        if guard.dtype != view.dtype:
            was, now = (tf.dtypes.as_dtype(d).name for d in (guard.dtype, view.dtype))
            failed.append(f"{who}: dtype was {was}, is {now}")
        elif len(guard.dims) != len(view.dims):
            failed.append(f"{who}: rank was {len(guard.dims)}, is {len(view.dims)}")
        else:
            failed += [
                f"{who}: dim {axis} was {was}, is {now}"
                for axis, (was, now) in enumerate(zip(guard.dims, view.dims))
                if was not in (-1, now)
            ]
            if guard.value is not None and guard.value != view.bytes() and guard.dims == view.dims:
                kind = tf.dtypes.as_dtype(guard.dtype).as_numpy_dtype
                was_value = np.frombuffer(guard.value, kind).reshape(guard.dims).tolist()
                failed.append(f"{who}: value was {was_value}, is {view.array().tolist()}")
    return failed


def compile_function(
    interface: Interface,
    inputs: Sequence[InputView],
    kind: str,
    name: str,
    lines: Mapping[str, str] | None = None,
    device: str = devices.HOST,
) -> Entry:
    """Lower and compile at the sizes of `inputs`; the entry's guards are these sizes and the values used.

    `lines`: TF node -> the user's `file:line`, where the function's own traces do not tell. `device`: the device
    type to compile for.
    """
    seen = dict(zip(interface.inputs, inputs))
    args = [
        bridge.Arg(seen[i].dtype, seen[i].dims, i in interface.resources, value=seen[i].array)
        if i in seen
        else bridge.Arg(kind, (), is_resource=True)
        for i, kind in enumerate(interface.args)
    ]
    with trace.phase("lowering", function=name):
        lowered = _lower(interface.function, args)
    count("lowerings")
    if lines is None:
        lines = sources.all_lines(interface.function) if trace.directory() else {}
    request = compiler_port.CompileRequest(
        name,
        kind,
        tuple(_words(interface, i) for i in lowered.parameters),
        lines,
        tuple(f"{_words(interface, i)}: {_guard_text(v, lowered.constants.get(i))}" for i, v in seen.items()),
        device,
    )
    loaded = compiler_port.compile_hlo(lowered.proto, request)
    return _entry(interface, inputs, lowered, loaded)


def _lower(function: str, args: Sequence[bridge.Arg]) -> bridge.Lowered:
    try:
        with rewritten_functions.expanded(function) as name:
            return bridge.lower(name, args)
    except LoweringError as error:
        trace.record(
            "error",
            what=f"lowering {function}",
            error="InvalidArgumentError",
            message=error.message,
            where=error.where,
            op=error.op,
            node=error.node,
        )
        raise tf.errors.InvalidArgumentError(None, None, str(error)) from error


def _entry(
    interface: Interface, inputs: Sequence[InputView], lowered: bridge.Lowered, loaded: compiler_port.Loaded
) -> Entry:
    updates = dict(lowered.updates)
    outputs = [_output(kind, loaded, result) for result, kind in enumerate(interface.outputs)]
    position = {arg: k for k, arg in enumerate(interface.inputs)}
    for arg in interface.updated:
        kind, source = interface.args[arg], position[arg]
        outputs.append(_output(kind, loaded, updates[arg]) if arg in updates else Output(kind, passes=source))
    if len({o.result for o in outputs if o.passes < 0}) < len(loaded.outputs):
        # A variable that lowering had to assign (function_def): its result has no place to go.
        raise UnsupportedError("a function or loop that it calls needs the value of a variable while compiling")
    parameters = tuple(position.get(arg, UNREAD) for arg in lowered.parameters)
    sizes = tuple(
        (s.symbol, UNREAD, s.bound) if s.is_produced else (s.symbol, parameters[s.input], s.axis) for s in loaded.sizes
    )
    values = {position[arg]: value for arg, value in lowered.constants.items()}
    generic = {(source, axis) for _, source, axis in sizes}
    guards = tuple(
        Guard(view.dtype, tuple(-1 if (i, axis) in generic else d for axis, d in enumerate(view.dims)), values.get(i))
        for i, view in enumerate(inputs)
    )
    return Entry(
        guards, loaded.record, loaded.entry, parameters, tuple(outputs), len(loaded.outputs), sizes, keep=loaded
    )


def _output(kind: int, loaded: compiler_port.Loaded, result: int) -> Output:
    shape = loaded.outputs[result]
    made = {s.symbol for s in loaded.sizes if s.is_produced}
    return Output(
        kind, shape.element_type.itemsize, shape.dims, result, produced=any(symbols(dim) & made for dim in shape.dims)
    )


def _words(interface: Interface, arg: int) -> str:
    name = interface.names[arg] if arg < len(interface.names) else str(arg)
    return f"{'variable' if arg in interface.resources else 'argument'} '{name}'"


def _guard_text(view: InputView, value: Any) -> str:
    kind = tf.dtypes.as_dtype(view.dtype).name
    text = f"{kind}[{','.join(map(str, view.dims))}]"
    return text if value is None else f"{text} = {view.array().tolist()}"
