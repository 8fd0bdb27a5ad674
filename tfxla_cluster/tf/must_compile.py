"""Hook H: top-level must-compile functions run natively.

Every eager execution of a function passes `Context.call_function`: forward, backward, Keras, SavedModel. A
function that carries `_XlaMustCompile` gets a Route at its first call: the native op alone, or a rewritten
function that reads and assigns its variables around the op. Other functions pass with one dictionary look-up.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe  # pylint: disable=no-name-in-module
from tensorflow.python.eager import cancellation, context, execute
from tensorflow.python.util import function_utils

from .. import flags, trace
from ..counters import add as count
from ..lower import bridge
from ..lower.function_def import fresh_name
from . import compiling, native_op, variables

MUST_COMPILE = "_XlaMustCompile"
# In the names of functions that `jit` makes: they run natively without `enable()` too.
JIT_PREFIX = "tfxla_jit_"


class Route:
    """How calls of one must-compile function run. `fallback` is the reason when stock XLA runs it."""

    def __init__(self, name: bytes, definition: Any, inputs: Sequence[Any]) -> None:
        self.name, self.fallback, self.closed = name, "", False
        dtypes = {i: _value_dtype(t) for i, t in enumerate(inputs) if t.dtype == tf.resource}
        self.interface = variables.interface(definition, bridge.library, {i: d for i, d in dtypes.items() if d})
        self.program = compiling.program(self.interface, "must", name.decode())
        self.wrapper = b""
        self.op = native_op.RUN
        self.attrs: tuple[Any, ...] = self.program.attrs
        if not self.interface.is_pure:
            self._wrap(definition)
        written = self.interface.updated and len(self.interface.resources) > 1
        self.distinct = sorted(self.interface.resources) if written else []

    def _wrap(self, definition: Any) -> None:
        wrapper = fresh_name(self.name.decode())
        context.context().add_function_def(variables.wrap(definition, self.interface, self.program, wrapper))
        self.wrapper, self.op = wrapper.encode(), wrapper
        # One op between reads and writes: nothing for grappler to do, nothing to run in parallel.
        self.attrs = ("executor_type", "SINGLE_THREADED_EXECUTOR",
                      "config_proto", function_utils.get_disabled_rewriter_config())

    def run(self, ctx: Any, inputs: list[Any], outputs: int) -> list[Any]:
        """The function's flat outputs. Raises as the op does; nothing is changed where it raises."""
        token = cancellation.context()
        if token is None:
            return pywrap_tfe.TFE_Py_Execute(  # type: ignore[no-any-return]
                ctx._handle, ctx.device_name, self.op, inputs, self.attrs, outputs)
        return execute.execute_with_cancellation(  # type: ignore[no-any-return]
            self.op, outputs, inputs, self.attrs, ctx, token)

    def is_aliased(self, inputs: Sequence[Any]) -> bool:
        """One variable is passed twice and written: reads before and writes after would lose an update."""
        return len({id(inputs[i]) for i in self.distinct}) < len(self.distinct)

    def close(self) -> None:
        """Free the wrapper and the executables."""
        self.closed = True
        ctx = context.context()
        if self.wrapper and ctx.has_function(self.wrapper):
            ctx.remove_function(self.wrapper)
        self.program.close()


def _value_dtype(handle: Any) -> int:
    data = getattr(handle, "_handle_data", None)
    return data.shape_and_type[0].dtype if data is not None and data.shape_and_type else 0


class Hook:
    """The installed hook: `install()` and `remove()` it; calls on other threads may be under way."""

    def __init__(self) -> None:
        self.routes: dict[bytes, Route | None] = {}
        self.lock = threading.RLock()
        self.dropped: deque[Route] = deque()
        self.originals: dict[str, Any] = {}
        self.everything = False
        self.removed: deque[str] = deque(maxlen=100_000)

    def take_removed(self) -> list[str]:
        """Names of functions that TensorFlow removed since the last call."""
        names = []
        while self.removed:
            names.append(self.removed.popleft())
        return names

    def install(self, selected_only: bool = False) -> None:
        """Route must-compile functions, of `jit` only or all. Functions traced earlier are covered."""
        with self.lock:
            if not selected_only and not self.everything:
                self.everything = True
                for plain in [n for n, route in self.routes.items() if route is None]:
                    del self.routes[plain]
            if self.originals:
                return
            native_op.ensure_registered()
            for name, make in (("call_function", self._make_call), ("remove_function", self._make_remove)):
                original = getattr(context.Context, name)
                self.originals[name] = original
                setattr(context.Context, name, make(original))

    def remove(self) -> None:
        """Put TensorFlow's own methods back and free everything compiled."""
        with self.lock:
            for name, original in self.originals.items():
                setattr(context.Context, name, original)
            self.originals.clear()
            self.everything = False
            for route in filter(None, self.routes.values()):
                route.closed = True
                self.dropped.append(route)
            self.routes.clear()
            self._free_dropped()

    def _make_call(self, original: Any) -> Any:
        routes = self.routes

        def call_function(ctx: Any, name: bytes, tensor_inputs: list[Any], num_outputs: int) -> Any:
            try:
                route = routes[name]
            except KeyError:
                route = self._route(ctx, name, tensor_inputs)
            if route is None or route.fallback:
                return original(ctx, name, tensor_inputs, num_outputs)
            return self._run(route, original, ctx, name, tensor_inputs, num_outputs)

        return call_function

    def _make_remove(self, original: Any) -> Any:
        routes, dropped, removed = self.routes, self.dropped, self.removed

        def remove_function(ctx: Any, name: bytes) -> Any:
            # Called from __del__ at any point of any thread: no lock may be taken here.
            removed.append(name.decode() if isinstance(name, bytes) else name)
            route = routes.pop(name, None)
            if route is not None:
                route.closed = True
                dropped.append(route)
            return original(ctx, name)

        return remove_function

    def route(self, name: bytes) -> Route | None:
        """The route of a function that was called, if it is must-compile."""
        return self.routes.get(name)

    def _route(self, ctx: Any, name: bytes, inputs: list[Any]) -> Route | None:
        with self.lock:
            if name in self.routes:
                return self.routes[name]
            self._free_dropped()
            made = None
            if self.everything or JIT_PREFIX.encode() in name:
                definition = ctx.get_function_def(name)
                made = self._make_route(name, definition, inputs) if is_must_compile(definition) else None
            self.routes[name] = made
            return made

    def _make_route(self, name: bytes, definition: Any, inputs: list[Any]) -> Route | None:
        try:
            route = Route(name, definition, inputs)
        except Exception as error:  # noqa: BLE001 - a bug of the rewriter must not break a program that worked
            say_fallback(name.decode(), f"internal error: {type(error).__name__}: {error}")
            return None
        count("functions")
        trace.record("function", name=name.decode(), route="must_compile", variables=len(route.interface.resources),
                     updated=len(route.interface.updated))
        return route

    def _run(self, route: Route, original: Any, ctx: Any, name: bytes, inputs: list[Any], outputs: int) -> Any:
        if route.distinct and route.is_aliased(inputs):
            return original(ctx, name, inputs, outputs)
        try:
            return route.run(ctx, inputs, outputs) or None
        except tf.errors.OpError as error:
            if _is_uninitialised(error):
                # Stock code says so, or runs where the function only writes the variable.
                return original(ctx, name, inputs, outputs)
            failure = route.program.failure
            if failure is None or native_op.describe(failure)[1] not in error.message:
                error._message = _restore_name(route, error.message)
                raise
            self._raise_or_fall_back(route, failure)
        return original(ctx, name, inputs, outputs)

    def _raise_or_fall_back(self, route: Route, failure: BaseException) -> None:
        """Return when stock XLA is to run the function."""
        if isinstance(failure, tf.errors.OpError):
            raise type(failure)(None, None, failure.message) from None
        if not isinstance(failure, Exception):
            raise failure
        reason = str(failure)
        if flags.get("tfxla_must_compile_fallback") == "raise":
            raise tf.errors.InvalidArgumentError(
                None, None, f"function {route.name.decode()} cannot be compiled: {reason}. "
                "Set --tfxla_must_compile_fallback=xla to let stock XLA compile such functions") from failure
        route.fallback = reason
        say_fallback(route.name.decode(), reason)

    def _free_dropped(self) -> None:
        while self.dropped:
            self.dropped.popleft().close()


def is_must_compile(definition: Any) -> bool:
    """The FunctionDef carries `_XlaMustCompile=true`."""
    return MUST_COMPILE in definition.attr and definition.attr[MUST_COMPILE].b


def _restore_name(route: Route, message: str) -> str:
    """The message with the user's function in place of ours, so that TensorFlow adds its stack trace."""
    return message.replace(route.wrapper.decode(), route.name.decode()) if route.wrapper else message


def _is_uninitialised(error: tf.errors.OpError) -> bool:
    """A variable has no value yet (the second: its handle was made by an earlier write that failed)."""
    return isinstance(error, tf.errors.FailedPreconditionError) or "got INVALID" in error.message


def say_fallback(name: str, reason: str) -> None:
    """Count, record and say once that stock XLA compiles a function."""
    count("fallbacks", reason=reason)
    trace.record("fallback", what=name, reason=reason, to="xla")
    trace.once(f"fallback:{name}", f"function {name} is compiled by stock XLA: {reason}")


HOOK = Hook()


def prepare(fn_name: bytes, inputs: Sequence[Any]) -> Route | None:
    """The route that a call of this registered function with these tensors would take (made if lacking)."""
    try:
        return HOOK.routes[fn_name]
    except KeyError:
        return HOOK._route(context.context(), fn_name, list(inputs)) if HOOK.originals else None


