"""What the program knows of a traced function and its FunctionDef does not: names of variables, Python values that it
was traced for, from where it was called first, what tracing it took.

TensorFlow hands the runtime a name and tensors. The ConcreteFunction that it does so for stands further up on the
stack at the first call, and holds the traced functions that it calls.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import tensorflow as tf
from tensorflow.core.function.trace_type import default_types
from tensorflow.python.eager.polymorphic_function import atomic_function, concrete_function, polymorphic_function
from tensorflow.python.framework import func_graph as func_graphs
from tensorflow.python.framework import ops
from tensorflow.python.ops import handle_data_util
from tensorflow.python.util import tf_decorator

from ... import bugs
from ...tf2xla import function_def, sources
from . import python_ints

_NEAR = 8  # frames between the runtime's door and the ConcreteFunction
_MOST_FRAMES = 50
_LONGEST = 80  # characters of a Python value


@dataclass(frozen=True)
class Origin:
    """names: the user's names of arguments, by number, where they are known better than the FunctionDef has them.
    constants: the arguments that are tensors which the function captures. values: the dims of the values of arguments
    that are variables, where the trace knew all of them; None where it was not seen.
    python: what Python value each parameter, or part of one, had that is no tensor. stack: that of the first call,
    outermost first. trace_ms: milliseconds that TensorFlow traced for, None where nobody looked or once `spent`.
    defined: `file:line` of the Python function, '' where nobody looked. number: of the tf.function, 0 unknown."""

    names: Mapping[int, str] = field(default_factory=dict)
    python: Mapping[str, str] = field(default_factory=dict)
    stack: tuple[sources.Frame, ...] = ()
    trace_ms: float | None = None
    defined: str = ""
    constants: frozenset[int] = frozenset()
    number: int = 0
    values: Mapping[int, tuple[int, ...]] | None = None


UNKNOWN = Origin()
_known: dict[str, Origin] = {}
_traced: weakref.WeakKeyDictionary[Any, tuple[float, str, int]] = weakref.WeakKeyDictionary()
"""FuncGraph -> milliseconds, where its Python function is defined, and the number of the tf.function."""
_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_drawn = itertools.count(1)


def of(function: str) -> Origin:
    """Of a registered function; UNKNOWN for one that was not called yet, or not by Python."""
    return _known.get(function, UNKNOWN)


def spent(function: str) -> float | None:
    """Milliseconds that tracing took, as long as nobody asked: each trace is paid once."""
    known = _known.get(function)
    if known is None or known.trace_ms is None:
        return None
    _known[function] = replace(known, trace_ms=None)
    return known.trace_ms


def place(function: str, defined: str) -> str | None:
    """`file:line` at which a traced function begins: `defined`, or its first op's where that is not known or no line of
    the user (Keras' steps). '' unknown; None for one that TensorFlow removed."""
    if not sources.is_user_file(defined.rpartition(":")[0]):
        return sources.first_line(function)
    return defined if function_def.exists(function) else None


def forget(function: str) -> None:
    """TensorFlow removed the function; takes no lock."""
    _known.pop(function, None)


def clear() -> None:
    """All functions: those that are called again are noted again."""
    _known.clear()


def note(function: str) -> None:
    """The function of this name is called for the first time, by whoever calls this. Only messages, records and names
    of inputs need what is found."""
    caller = sys._getframe(1)
    try:
        atomic, concrete = _called(caller)
        if atomic is not None and atomic.name.decode() == function:
            python = _function(caller)
            before = "" if python is None else definition(python.python_function)
            _note(atomic, concrete or atomic, {}, _stack(caller), before)
    except Exception as error:  # noqa: BLE001 - it reads what TensorFlow keeps to itself
        bugs.failed(f"looking for the names of {function}", error)


def _called(frame: FrameType | None) -> tuple[Any, Any]:
    """The AtomicFunction that these frames call, and the ConcreteFunction that it is of."""
    atomic = None
    for _ in range(_NEAR):
        this = None if frame is None else frame.f_locals.get("self")
        if atomic is None and isinstance(this, atomic_function.AtomicFunction):
            atomic = this
        if atomic is not None and isinstance(this, concrete_function.ConcreteFunction):
            return atomic, this
        frame = None if frame is None else frame.f_back
    return atomic, None


def _note(
    atomic: Any, traced: Any, outer: Mapping[int, str], stack: tuple[sources.Frame, ...], defined: str = ""
) -> None:
    """Of a function and those it calls; `traced`: the one that Python knows, which this is or is made of by gradients.
    `outer`: id of a tensor of the function around it -> its name. `defined`: where it is, if nobody saw its trace."""
    signature, graph = traced.function_type, atomic._cached_graph
    if graph is None:  # restored from a file
        _known[atomic.name.decode()] = Origin({}, dict(_values(signature)), stack)
        return
    captured = {**outer, **{id(v.handle): v.name.partition(":")[0] for v in graph.variables}}
    inner = {id(internal): captured[id(external)] for external, internal in graph.captures if id(external) in captured}
    names = {k: inner[id(tensor)] for k, tensor in enumerate(graph.inputs) if id(tensor) in inner}
    given = [name for name, part in _parts(signature) for _ in part.flatten()]
    if len(given) + len(graph.captures) == len(graph.inputs):
        names |= {k: name for k, name in enumerate(given) if k not in names}
    trace_ms, defined, number = _traced.get(traced.graph, (None, defined, 0))
    outside = {id(internal) for external, internal in graph.captures if _is_constant(external, internal)}
    constants = frozenset(k for k, tensor in enumerate(graph.inputs) if id(tensor) in outside)
    held = {k: _held_dims(tensor) for k, tensor in enumerate(graph.inputs) if tensor.dtype == tf.resource}
    values = {k: dims for k, dims in held.items() if dims is not None}
    python = dict(_values(signature))
    _known[atomic.name.decode()] = Origin(names, python, stack, trace_ms, defined, constants, number, values)
    for child in atomic.children:
        if child.name.decode() not in _known:
            _note(child, child, inner, stack)


def _held_dims(handle: Any) -> tuple[int, ...] | None:
    """Of the value behind a handle, None where the trace did not know them."""
    data = handle_data_util.get_resource_handle_data(handle)
    return known_dims(data.shape_and_type[0].shape) if data.is_set and len(data.shape_and_type) == 1 else None


def known_dims(shape: Any) -> tuple[int, ...] | None:
    """Of a TensorShapeProto, None where one is unknown."""
    dims = tuple([dim.size for dim in shape.dim])
    return None if shape.unknown_rank or -1 in dims else dims


def _is_constant(external: Any, internal: Any) -> bool:
    """A tensor of the program that a trace captures: no variable, nothing of the function around it."""
    return isinstance(external, ops.EagerTensor) and external.dtype != tf.resource and not python_ints.is_one(internal)


def _parts(signature: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of a FunctionType, and the parts of those that are lists, tuples and dicts, in the order of the
    tensors."""
    for parameter in signature._sorted_parameters:
        yield from _leaves(parameter.name, parameter.type_constraint)


def _leaves(name: str, kind: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(kind, default_types.Dict):
        for key in sorted(kind.mapping):
            yield from _leaves(f"{name}[{key!r}]", kind.mapping[key])
    elif isinstance(kind, (default_types.Tuple, default_types.List)):
        parts = kind.components if isinstance(kind, default_types.Tuple) else kind.components_tuple.components
        for number, part in enumerate(parts):
            yield from _leaves(f"{name}[{number}]", part)
    elif isinstance(kind, default_types.NamedTuple):
        for attribute, part in zip(kind.attribute_names, kind.attributes.components):
            yield from _leaves(f"{name}.{attribute}", part)
    else:
        yield name, kind


def told_apart(names: Sequence[str]) -> Iterator[str]:
    """`x`, `x` as `x`, `x (2)`: the tensors of one value (a ragged tensor's) have one name."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"


def _values(signature: Any) -> Iterator[tuple[str, str]]:
    """The Python values of a FunctionType: no tensors."""
    for name, kind in _parts(signature):
        if isinstance(kind, default_types.Literal):
            yield name, "nan" if kind.value is default_types.NanMarker else _short(repr(kind.value))
        elif isinstance(kind, default_types.Weakref):
            yield name, _object(kind._ref())
        elif not kind.flatten():
            yield name, _short(repr(kind))


def _object(value: Any) -> str:
    """An object that TensorFlow tells from others by what it is, not by what it says of itself."""
    if value is None:
        return "an object that is gone"
    return f"{type(value).__name__} at 0x{id(value):x}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _stack(frame: FrameType | None) -> tuple[sources.Frame, ...]:
    """From the program's start to here."""
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(sources.frame(*at) for at in reversed(found))


def timed(original: Callable[..., Any]) -> Callable[..., Any]:
    """`func_graph.func_graph_from_py_func`, noting what each trace takes."""

    @functools.wraps(original)
    def func_graph_from_py_func(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        graph = original(*args, **kwargs)
        number = _number(sys._getframe(1))
        _traced[graph] = (time.perf_counter() - start) * 1e3, _defined(*args, **kwargs), number
        return graph

    return func_graph_from_py_func


def _number(frame: FrameType | None) -> int:
    """That of the tf.function that these frames trace; 0 for none."""
    found = _function(frame)
    return 0 if found is None else _numbers.setdefault(found, next(_drawn))


def _function(frame: FrameType | None) -> Any:
    """The tf.function that these frames trace or call, None for none."""
    for _ in range(_NEAR):
        this = None if frame is None else frame.f_locals.get("self")
        if isinstance(this, polymorphic_function.Function):
            return this
        frame = None if frame is None else frame.f_back
    return None


def _defined(name: str, python_func: Any, *rest: Any, **more: Any) -> str:
    return definition(python_func)


def definition(python_func: Any) -> str:
    """Where a Python function, or the `__call__` of an object, begins; '' for what has no code. Of a decorated one:
    where the program's own begins, for a decorator's line is that of all functions that it wraps."""
    plain = _unwrapped(python_func)
    plain = _unwrapped(plain.func) if isinstance(plain, functools.partial) else plain
    code = getattr(plain, "__code__", None) or getattr(vars(type(plain)).get("__call__"), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _unwrapped(function: Any) -> Any:
    """What is decorated, by TensorFlow or by `functools.wraps`."""
    return inspect.unwrap(tf_decorator.unwrap(function)[1])


def watch() -> Callable[[], None]:
    """From now on traces are timed; what ends that."""
    original = func_graphs.func_graph_from_py_func
    func_graphs.func_graph_from_py_func = timed(original)

    def stop() -> None:
        func_graphs.func_graph_from_py_func = original

    return stop
