"""From a registered function to a native Program: on a miss, lower at the sizes seen, compile, set guards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

from ... import trace
from ...counters import add as count
from ...errors import LoweringError, UnsupportedError
from ...flag_options import are_data_checked
from ...ir import guard as guards
from ...ir.dim import symbols
from ...tf2xla import bridge, function_def, list_checks, must_be_constant, sources
from .. import devices
from ..compiler_port import Compiler, CompileRequest, Loaded, Served
from ..native_op import op as native_op
from ..native_op.op import InputView, Program
from ..native_op.records import UNREAD, Entry, Output
from ..rewrites import rewritten_functions
from ..watch import watcher
from . import kept_lowering, origins, shape_check
from .function_names import dynamic_of, family_of, user_name
from .lowered_function import InputNames, LoweredFunction
from .marks import Marks, Noted
from .variables import Interface


def program(
    compiler: Compiler,
    interface: Interface,
    kind: str = "must",
    name: str = "",
    *,
    on_refusal: Callable[[UnsupportedError], None] | None = None,
    check: Callable[[Sequence[InputView]], None] | None = None,
    tells_failures: bool = False,
    noted: Noted | None = None,
) -> Program:
    """A Program that runs `interface.function`: op inputs are `interface.inputs` (of a variable its value), op
    outputs its data outputs, then the new values of `interface.updated`.

    The function and its callees have to be registered in the eager context whenever the program misses.
    A refusal of the bridge raises LoweringError, one of the compiler UnsupportedError; `check` is called before,
    and may raise too. `on_refusal`, `tells_failures`: as Program has them.
    `noted`: the marks on what it is called with.
    """

    title = name or interface.function
    family = f"{family_of(title)} of {len(interface.inputs)}"

    def compile(inputs: list[InputView], device: str) -> Entry:
        if check is not None:
            check(inputs)
        return compile_function(
            compiler,
            interface,
            inputs,
            kind,
            title,
            family,
            device=device,
            earlier=made.entries_on(device),
            noted={} if noted is None else noted.marks,
        )

    made = Program(
        title,
        interface.input_types,
        interface.output_types,
        compile,
        on_refusal,
        tells_failures=tells_failures,
        line_of=functools.partial(sources.line_of, interface.function),
        host=_constants(interface) if devices.has_accelerator() else (),
    )
    if watcher.is_asked_for():
        made.watcher = _watcher(interface)
    return made


def _watcher(interface: Interface) -> watcher.Watcher:
    return watcher.Watcher(
        user_name(interface.function),
        bridge.function_def(interface.function),
        interface.inputs,
        interface.updated,
        {i: interface.args[i] for i in interface.resources},
        bridge.library,
        sources.line_of,
    )


def _constants(interface: Interface) -> Iterator[int]:
    """The op inputs whose values lowering needs; not those of variables, which lie where the variable is."""
    needed = must_be_constant.constant_args(bridge.function_def(interface.function), bridge.library)
    return (k for k, arg in enumerate(interface.inputs) if arg in needed - interface.resources)


def report_recompile(interface: Interface, entries: Sequence[Entry], inputs: Sequence[InputView], name: str) -> None:
    """Record which guards of the closest executable these inputs fail; nothing at the first compilation."""
    if not entries or not trace.wants("recompile"):
        return
    closest = min((guards.failed(entry.guards, inputs) for entry in entries), key=len)
    names = InputNames(interface, inputs)
    trace.record(
        "recompile",
        function=name,
        executables=len(entries),
        failed=[guards.explain(guard, inputs, names) for guard in closest],
    )


@function_def.remembered()
def compile_function(
    compiler: Compiler,
    interface: Interface,
    inputs: Sequence[InputView],
    kind: str,
    name: str,
    family: str,
    lines: Mapping[str, str] | None = None,
    device: str = devices.HOST,
    earlier: Sequence[Entry] = (),
    origin: str | None = None,
    noted: Marks = MappingProxyType({}),
) -> Entry:
    """Lower and compile at the sizes of `inputs`; the entry's guards are these sizes, or those that the executable is
    trusted with, and the values used.

    `family`: the same for all traces of one function of the program. `lines`: TF node -> the user's `file:line`, where
    the function's own traces do not tell. `device`: what to compile for, as devices.device_of names it. `earlier`: the
    executables there are. `origin`: the traced function that the user wrote ('' unknown), by default this one.
    `noted`: marks by (argument, axis), besides those of the function itself.
    """
    origin = interface.function if origin is None else origin
    args = _args(interface, inputs)
    with trace.phase("lowering", function=name) as timed:
        lowered = _lower(compiler, interface.function, args, device)
    facts = LoweredFunction(interface, inputs, args, lowered, origin)
    marked, known = facts.marks(noted), origins.of(origin)
    if lines is None:
        lines = sources.LazyLines(lambda: sources.all_lines(interface.function))
        lines = dict(lines) if marked else lines  # which are kept longer than the function
    request = CompileRequest(
        name=name,
        kind=kind,
        inputs=facts.words,
        lines=lines,
        guards=facts.guards,
        names=InputNames(interface, tuple(inputs)),
        device=device,
        family=family,
        named=facts.names,
        variables=facts.variables,
        dynamic=dynamic_of(name),
        open=facts.open,
        relower=lambda sizes: _relowered(compiler, interface, args, lowered, name, device, sizes),
        marks=marked,
        constants=facts.constants,
        integers=facts.integers,
        title=user_name(origin),
        place=functools.partial(origins.place, origin, known.defined),
        python=known.python,
        costs=facts.costs(timed.seconds * 1e3),
        called=known.stack,
        stack=functools.partial(sources.stack, origin),
        untold=facts.untold,
        traced=facts.trace,
        ordered=config.is_op_determinism_enabled(),
        question=facts.question,
    )
    served = compiler.compile_hlo(lowered.proto, request)
    if served.compiled:
        report_recompile(interface, earlier, inputs, name)
    return _entry(facts, served)


def _args(interface: Interface, inputs: Sequence[InputView]) -> list[bridge.Arg]:
    """What the bridge is told of each argument of the function."""
    seen = dict(zip(interface.inputs, inputs))
    return [
        bridge.Arg(seen[i].dtype, seen[i].dims, i in interface.resources, value=seen[i].array)
        if i in seen
        else bridge.Arg(kind, (), is_resource=True)
        for i, kind in enumerate(interface.args)
    ]


def _relowered(
    compiler: Compiler,
    interface: Interface,
    args: Sequence[bridge.Arg],
    lowered: bridge.Lowered,
    name: str,
    device: str,
    sizes: Mapping[tuple[int, int], int],
) -> bytes:
    """The module at other sizes of some (HLO parameter, axis); LoweringError where the function is another one."""
    changed = list(args)
    for (parameter, axis), size in sizes.items():
        arg = lowered.parameters[parameter]
        dims = changed[arg].dims
        changed[arg] = replace(changed[arg], dims=(*dims[:axis], size, *dims[axis + 1 :]))
    with trace.phase("lowering", function=name):
        try:
            found = _lower(compiler, interface.function, changed, device)
        except UnsupportedError as error:  # at these sizes: at its own it may compile
            raise LoweringError(error.message, error.remedy, error.where) from error
    if (found.parameters, found.constants) != (lowered.parameters, lowered.constants):
        raise LoweringError(f"{name} takes other values while compiling at other sizes")
    return found.proto


def _lower(compiler: Compiler, function: str, args: Sequence[bridge.Arg], device: str) -> bridge.Lowered:
    """Now, or what it lowered to before."""

    def make(args: Sequence[bridge.Arg]) -> bridge.Lowered:
        lowered = _lowered(function, args, device)
        count("lowerings")
        return lowered

    return kept_lowering.lower(compiler, function, args, device, make)


def _lowered(function: str, args: Sequence[bridge.Arg], device: str) -> bridge.Lowered:
    try:
        if not shape_check.was_traced_for(function, args):
            shape_check.check(bridge.function_def(function), args)
        list_checks.check(function, bridge.known_values(args), bridge.library)
        checks = are_data_checked(device)
        return rewritten_functions.lowered(function, lambda name: bridge.lower(name, args), checks)
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
        raise


def _entry(facts: LoweredFunction, served: Served) -> Entry:
    interface, lowered = facts.interface, facts.lowered
    loaded, updates = served.loaded, dict(lowered.updates)
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
    return Entry(
        _guards(facts, served),
        loaded.record,
        loaded.entry,
        parameters,
        tuple(outputs),
        len(loaded.outputs),
        sizes,
        handed=served.handed,
        keep=loaded,
    )


def _guards(facts: LoweredFunction, served: Served) -> tuple[guards.Guard, ...]:
    """What the executable holds for, about the op's inputs; of inputs that it does not get, what lowering saw."""
    if served.exact:
        return facts.guards
    position = {arg: k for k, arg in enumerate(facts.interface.inputs)}
    parameters = [position.get(arg, UNREAD) for arg in facts.lowered.parameters]
    own = guards.moved(guards.narrowed(served.loaded.guards, served.ranges), parameters)
    seen = [g for g in native_op.exact(facts.inputs) if g.kind == "dtype" or g.place[0] not in parameters]
    return guards.ordered([*seen, *own, *facts.values])


def _output(kind: int, loaded: Loaded, result: int) -> Output:
    shape, declared = loaded.outputs[result], np.dtype(tf.dtypes.as_dtype(kind).as_numpy_dtype)
    if declared.names is None and declared != shape.element_type.numpy:  # quantized ones have fields
        raise UnsupportedError(f"result {result} is {declared.name}, and compiled it is {shape.element_type}")
    made = {s.symbol for s in loaded.sizes if s.is_produced}
    return Output(
        kind, shape.element_type.itemsize, shape.dims, result, produced=any(symbols(dim) & made for dim in shape.dims)
    )
