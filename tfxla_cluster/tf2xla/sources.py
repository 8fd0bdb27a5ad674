"""The side table: TF node -> the user's file and line, from the stack traces TensorFlow keeps.

HLO metadata names TensorFlow's own files only, and copies of functions lose their traces: lines are looked
up by node name in the original function and the functions it calls.
"""

from __future__ import annotations

import functools
import linecache
import os
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.util import tf_stack  # pylint: disable=no-name-in-module

from ..errors import UsageError
from . import function_calls
from .function_def import exists, library

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_DEMO = os.path.join(_PACKAGE, "demo")  # a user's program as far as reports go
_STANDARD_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
_INSTALLED = tuple(os.path.join(_STANDARD_LIBRARY, name, "") for name in ("site-packages", "dist-packages"))
Frame = Mapping[str, Any]
"""{file, line, text, function, user} of a stack; user: whether the file is the user's (its `text` is there then)."""


@functools.cache
def _library_roots() -> tuple[str, ...]:
    site = os.path.dirname(os.path.dirname(os.path.abspath(tf.__file__)))
    return (*tuple(os.path.join(site, name) for name in ("tensorflow", "keras", "tf_keras")), _PACKAGE)


@functools.lru_cache(maxsize=4096)  # asked of each frame of each node
def is_user_file(path: str) -> bool:
    """The file belongs to the user: not to TensorFlow, Keras, this package or the interpreter."""
    if not path or path.startswith("<"):
        return False
    full = path if os.path.isabs(path) else "/" + path
    return full.startswith(_DEMO) or not (full.startswith(_library_roots()) or _is_standard_library(full))


def _is_standard_library(path: str) -> bool:
    return path.startswith(_STANDARD_LIBRARY) and not path.startswith(_INSTALLED)


def line_of_trace(frames: Any) -> str:
    """`file:line` of the innermost user frame of one stack trace, '' when there is none."""
    for frame in reversed(list(frames)):
        filename, line = frame[0], frame[1]
        if is_user_file(filename):
            return f"{filename}:{line}"
    return ""


def here() -> str:
    """`file:line` of the user's line that is being executed or traced, '' unknown."""
    return line_of_trace(tf_stack.extract_stack())


def wrong(message: str, remedy: str = "") -> UsageError:
    """An error with the line of the program: where a function is traced, the frames are those of code that AutoGraph
    made."""
    return UsageError(message, remedy, here())


def check_function(value: Any) -> None:
    """UsageError, with the line of the program, where what is to be compiled cannot be called."""
    if not callable(value):
        raise wrong(
            f"what is to be compiled is of type {type(value).__name__}, no function", "Give a function of tensors"
        )


def frame(file: str, line: int, function: str) -> Frame:
    """A frame as records have it."""
    user = is_user_file(file)
    text = linecache.getline(file, line).strip() if user else ""
    return {"file": file, "line": line, "text": text, "function": function, "user": user}


def lines(function: str) -> dict[str, str]:
    """Node name -> `file:line` for the nodes of a registered function that have a trace (may be empty)."""
    found = {name: line_of_trace(frames) for name, frames in _traces(function)}
    return {name: line for name, line in found.items() if line}


def _traces(function: str) -> Iterator[tuple[str, Any]]:
    """Node name and frames, outermost first, of the nodes of a registered function that have a trace."""
    if exists(function):
        traces = tf_stack.LoadTracesFromDebugInfo(context.context().get_graph_debug_info(function))
        yield from ((name.partition("@")[0], frames) for name, frames in _items(traces))


def stack(function: str, node: str) -> list[Frame]:
    """The frames, outermost first, that made a node of a registered function or of one that it calls; [] unknown."""
    for definition in reachable(function):
        for name, frames in _traces(definition.signature.name):
            if name == node:
                return [frame(at[0], at[1], at[2]) for at in frames]
    return []


def _items(traces: Any) -> list[tuple[str, Any]]:
    return list(traces.items()) if isinstance(traces, Mapping) or hasattr(traces, "items") else []


def all_lines(function: str) -> dict[str, str]:
    """As `lines`, for the function and everything it calls; an outer function's node wins over an inner
    one's of the same name."""
    found: dict[str, str] = {}
    for definition in reachable(function):
        found = {**lines(definition.signature.name), **found}
    return found


@functools.lru_cache(maxsize=1024)  # names of functions are never used again
def _first_line(function: str) -> str:
    known, definition = lines(function), library(function)
    # Its arguments and results have the line of the call that traced it.
    nodes = [n.name for n in definition.node_def if n.op not in ("Identity", "NoOp")] if definition else []
    inner = {known[name] for name in nodes if name in known}
    return min(inner, key=lambda line: (line.rpartition(":")[0], int(line.rpartition(":")[2])), default="")


def first_line(function: str) -> str | None:
    """`file:line` of the first op of a traced function, '' when unknown; None for one that TensorFlow removed."""
    if not function:
        return ""
    return _first_line(function) if exists(function) else None


class LazyLines(Mapping[str, str]):
    """Node name -> `file:line`, read when the first is asked for: few compilations say a line, and tracebacks of a
    large function take long."""

    def __init__(self, read: Callable[[], Mapping[str, str]]) -> None:
        self._read = read

    @functools.cached_property
    def _lines(self) -> Mapping[str, str]:
        return self._read()

    def __getitem__(self, node: str) -> str:
        return self._lines[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def reachable(function: str) -> Iterator[Any]:
    """FunctionDefs of a registered function and of everything it calls, outer first."""
    return function_calls.reachable([function], library)


def op_of(function: str, node: str) -> str:
    """The op type of a node of the function or of one it calls; '' when unknown."""
    return next((n.op for definition in reachable(function) for n in definition.node_def if n.name == node), "")


_thread = threading.local()


def enter(function: bytes) -> bytes:
    """Note that this thread begins to execute a function: TensorFlow optimises its graph, under names of
    the graph's own, on the thread that first calls it. The outer function, for `leave`."""
    outer: bytes = getattr(_thread, "function", b"")
    _thread.function = function
    return outer


def leave(outer: bytes) -> None:
    """Back to the outer function."""
    _thread.function = outer


def caller() -> str:
    """The function that this thread is executing, '' for none."""
    return getattr(_thread, "function", b"").decode()


@functools.lru_cache(maxsize=4)
def caller_lines(function: str) -> Mapping[str, str]:
    """`all_lines` of a function that is being executed; names of functions are never used again."""
    return all_lines(function) if function else {}


def place(lines: Mapping[str, str], node: str) -> str:
    """`file:line` of a node of an optimised graph, where inlined nodes carry the name of each call before
    their own; '' when unknown."""
    while node not in lines and "PartitionedCall" in node.partition("/")[0]:
        node = node.partition("/")[2]
    return lines.get(node, "")


def line_of(function: str, node: str) -> str:
    """`file:line` of a node of the function or of one it calls; '' when unknown."""
    return all_lines(function).get(node, "") if node else ""
