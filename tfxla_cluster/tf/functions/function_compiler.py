"""From a registered function to a native Program: on a miss, lower at the sizes seen, compile, set guards."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

from ... import trace
from ...counters import add as count
from ...errors import LoweringError, UnsupportedError
from ...flag_options import are_data_checked
from ...ir import guard as guards
from ...ir.dim import symbols
from ...size_spec import stronger
from ...tf2xla import bridge, function_def, list_checks, must_be_constant, size_questions, sources
from .. import devices
from ..compiler_port import Compiler, CompileRequest, Loaded, Served
from ..graph.open_sizes import ARG_SHAPES
from ..native_op import op as native_op
from ..native_op.op import InputView, Program
from ..native_op.records import UNREAD, Entry, Output
from ..rewrites import rewritten_functions
from . import kept_lowering, marks, origins, shape_check, traces
from .marks import Marks, Noted
from .variables import Interface

JIT_PREFIX = "tfxla_jit_"
"""In the names of functions that `jit` makes: they run natively without `enable()` too."""
STATIC_MARK = "dynamic_false__"
"""In the name of a function whose sizes each have an executable of their own."""
DYNAMIC_MARK = "dynamic_true__"
"""In the name of one whose first executable is for all sizes."""


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
    return made


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


@dataclass(frozen=True)
class InputNames:
    """ir.guard.Names of the inputs of a function's op."""

    interface: Interface
    inputs: Sequence[InputView]

    def input(self, number: int) -> str:
        """Also of another function of the same name, which may have more inputs."""
        inputs = self.interface.inputs
        return self.interface.words(inputs[number]) if number < len(inputs) else f"argument {number}"

    def dtype(self, number: int) -> str:
        return str(tf.dtypes.as_dtype(number).name)

    def value(self, number: int, data: bytes) -> str:
        """The value in Python's words; of another size than the input, flat."""
        if number >= len(self.inputs):
            return f"{len(data)} bytes"
        view = self.inputs[number]
        dtype = np.dtype(tf.dtypes.as_dtype(view.dtype).as_numpy_dtype)
        if len(data) % dtype.itemsize:  # of another dtype, another function's
            return f"{len(data)} bytes"
        array = np.frombuffer(data, dtype)
        return str((array.reshape(view.dims) if array.size == np.prod(view.dims) else array).tolist())


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
    seen = dict(zip(interface.inputs, inputs))
    args = [
        bridge.Arg(seen[i].dtype, seen[i].dims, i in interface.resources, value=seen[i].array)
        if i in seen
        else bridge.Arg(kind, (), is_resource=True)
        for i, kind in enumerate(interface.args)
    ]
    with trace.phase("lowering", function=name) as timed:
        lowered = _lower(compiler, interface.function, args, device)
    marked = _marked(interface, lowered, noted)
    if lines is None:
        lines = sources.LazyLines(lambda: sources.all_lines(interface.function))
        lines = dict(lines) if marked else lines  # which are kept longer than the function
    known = origins.of(origin)
    tracing = origins.spent(origin)
    constants = known.constants if origin == interface.function else frozenset()
    traced = {} if tracing is None else {"trace": tracing}
    request = CompileRequest(
        name,
        kind,
        tuple(interface.words(i) for i in lowered.parameters),
        lines,
        guards.ordered([*native_op.exact(inputs), *_values(interface, lowered)]),
        InputNames(interface, tuple(inputs)),
        device,
        family,
        tuple(interface.name(arg) for arg in lowered.parameters),
        frozenset(k for k, arg in enumerate(lowered.parameters) if arg in interface.resources),
        _dynamic(name),
        _open(interface, lowered, args),
        lambda sizes: _relowered(compiler, interface, args, lowered, name, device, sizes),
        marked,
        frozenset(k for k, arg in enumerate(lowered.parameters) if arg in constants),
        frozenset(k for k, arg in enumerate(lowered.parameters) if interface.is_integer(arg)),
        user_name(origin),
        functools.partial(sources.first_line, origin),
        known.python,
        {**traced, "lowering": timed.seconds * 1e3},
        known.stack,
        functools.partial(sources.stack, origin),
        known.defined,
        _untold(interface, lowered),
        functools.partial(traces.of, interface.function, known.number if origin == interface.function else 0),
        config.is_op_determinism_enabled(),
        functools.partial(_question, interface.function, lowered.constants),
    )
    served = compiler.compile_hlo(lowered.proto, request)
    if served.compiled:
        report_recompile(interface, earlier, inputs, name)
    return _entry(interface, inputs, lowered, served)


def _dynamic(name: str) -> bool | None:
    """What `jit` was told about the sizes of the function of this name."""
    return False if STATIC_MARK in name else True if DYNAMIC_MARK in name else None


def _open(interface: Interface, lowered: bridge.Lowered, args: Sequence[bridge.Arg]) -> frozenset[tuple[int, int]]:
    """(HLO parameter, axis) of the dimensions that the trace does not know: they are any that the caller has."""
    known = _known_shapes(interface)
    return frozenset(
        (position, axis)
        for position, arg in enumerate(lowered.parameters)
        for axis in range(len(args[arg].dims) if arg in known and arg not in interface.resources else 0)
        if known[arg].unknown_rank or known[arg].dim[axis].size < 0
    )


def _untold(interface: Interface, lowered: bridge.Lowered) -> frozenset[int]:
    """The HLO parameters of whose sizes the function says nothing, whether it is for any or not."""
    known = _known_shapes(interface)
    return frozenset(k for k, arg in enumerate(lowered.parameters) if arg not in known or arg in interface.resources)


def _question(function: str, constants: Mapping[int, bytes]) -> str:
    """What it asks about its sizes, in words."""
    found = next(size_questions.questions(function, frozenset(constants), bridge.library), None)
    if found is None:
        return ""
    line = sources.line_of(found.function, found.node)
    return f"it asks about a size (node '{found.node}', op {found.op}{f', {line}' if line else ''})"


def _known_shapes(interface: Interface) -> dict[int, Any]:
    """What the function was traced with, by argument; of a variable, that of its handle."""
    listed = {
        number: attrs.attr[ARG_SHAPES].list.shape
        for number, attrs in bridge.function_def(interface.function).arg_attr.items()
        if ARG_SHAPES in attrs.attr
    }
    return {number: shapes[0] for number, shapes in listed.items() if shapes}


def _marked(interface: Interface, lowered: bridge.Lowered, noted: Marks) -> Marks:
    """The marks on the dimensions of the HLO parameters."""
    marked = marks.of_definition(bridge.function_def(interface.function))
    for place, mark in noted.items():
        marked[place] = stronger(marked.get(place), mark)
    position = {arg: k for k, arg in enumerate(lowered.parameters)}
    return {(position[arg], axis): mark for (arg, axis), mark in marked.items() if arg in position}


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


def family_of(function: str) -> str:
    """The name that all traces of a function of the program share: TensorFlow numbers them, forwards and backwards."""
    return re.sub(r"(_\d+)+_?$", "", function)


def user_name(function: str) -> str:
    """What the user called a traced function."""
    name = family_of(function).removeprefix("__inference_").removeprefix(JIT_PREFIX)
    return name.removeprefix(STATIC_MARK).removeprefix(DYNAMIC_MARK)


def _entry(interface: Interface, inputs: Sequence[InputView], lowered: bridge.Lowered, served: Served) -> Entry:
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
        _guards(interface, inputs, lowered, served),
        loaded.record,
        loaded.entry,
        parameters,
        tuple(outputs),
        len(loaded.outputs),
        sizes,
        handed=served.handed,
        keep=loaded,
    )


def _guards(
    interface: Interface, inputs: Sequence[InputView], lowered: bridge.Lowered, served: Served
) -> tuple[guards.Guard, ...]:
    """What the executable holds for, about the op's inputs; of inputs that it does not get, what lowering saw."""
    if served.exact:
        return guards.ordered([*native_op.exact(inputs), *_values(interface, lowered)])
    position = {arg: k for k, arg in enumerate(interface.inputs)}
    parameters = [position.get(arg, UNREAD) for arg in lowered.parameters]
    own = guards.moved(guards.narrowed(served.loaded.guards, served.ranges), parameters)
    seen = [g for g in native_op.exact(inputs) if g.kind == "dtype" or g.place[0] not in parameters]
    return guards.ordered([*seen, *own, *_values(interface, lowered)])


def _values(interface: Interface, lowered: bridge.Lowered) -> list[guards.Guard]:
    """The values that lowering used."""
    return [guards.Guard("value", interface.inputs.index(arg), value) for arg, value in lowered.constants.items()]


def _output(kind: int, loaded: Loaded, result: int) -> Output:
    shape, declared = loaded.outputs[result], np.dtype(tf.dtypes.as_dtype(kind).as_numpy_dtype)
    if declared.names is None and declared != shape.element_type.numpy:  # quantized ones have fields
        raise UnsupportedError(f"result {result} is {declared.name}, and compiled it is {shape.element_type}")
    made = {s.symbol for s in loaded.sizes if s.is_produced}
    return Output(
        kind, shape.element_type.itemsize, shape.dims, result, produced=any(symbols(dim) & made for dim in shape.dims)
    )
