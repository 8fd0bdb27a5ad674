"""Hook H: top-level must-compile functions run natively.

Every eager execution of a function passes `Context.call_function`: forward, backward, Keras, SavedModel. A
function that carries `_XlaMustCompile` gets a Route at its first call: the native op alone, or a rewritten
function that reads and assigns its variables around the op. Other functions pass with one dictionary look-up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from ... import bugs, flags
from ...counters import add as count
from ...decision import Decision
from ...errors import LoweringError, RankError, RecompileLimitError, TuningError, UninitializedError
from ...tf2xla import bridge, sources
from .. import devices
from ..compiler_port import Compiler
from ..functions import function_names, marks, origins, shape_check, uninitialised
from ..native_op import op as native_op
from . import function_graph, uncompiled
from .fallbacks import refusal_text, say_fallback
from .route import Elsewhere, Fallback, Route
from .uncompiled import MUST_COMPILE


class Hook:
    """The installed hook: `install()` and `remove()` it; calls on other threads may be under way."""

    def __init__(self, compiler: Compiler, on_removed: Callable[[list[str]], None] = lambda names: None) -> None:
        self.compiler, self.on_removed = compiler, on_removed
        # By name of the function: how it runs; and how where a call may lie on a device without a backend.
        self.routes: dict[bytes, Fallback | None] = {}
        self.elsewhere: dict[bytes, Fallback | None] = {}
        self.lock = threading.RLock()
        self.dropped: deque[Fallback] = deque()
        self.originals: dict[str, Any] = {}
        self.unwatch: Callable[[], None] = lambda: None
        self.everything = False
        self.removed: deque[str] = deque(maxlen=100_000)

    def sweep(self) -> None:
        """Tell `on_removed` which functions TensorFlow removed since the last call, and free what was theirs."""
        names = []
        while self.removed:
            names.append(self.removed.popleft())
        if names:
            self.on_removed(names)

    def install(self, selected_only: bool = False) -> None:
        """Route must-compile functions, of `jit` only or all. Functions traced earlier are covered."""
        with self.lock:
            if not selected_only and not self.everything:
                self.everything = True
                for table in (self.routes, self.elsewhere):
                    for known in [n for n, route in table.items() if route is None]:
                        del table[known]
            if self.originals:
                return
            native_op.explain_failures(self.compiler.explain)
            seed = context.global_seed()
            if seed is not None:
                self.compiler.seed_random(int(seed))
            for name, make in (
                ("call_function", self._make_call),
                ("remove_function", self._make_remove),
                ("_set_global_seed", self._make_set_seed),
            ):
                original = getattr(context.Context, name)
                self.originals[name] = original
                setattr(context.Context, name, make(original))
            self.unwatch = origins.watch()

    def remove(self) -> None:
        """Put TensorFlow's own methods back and free everything compiled."""
        with self.lock:
            for name, original in self.originals.items():
                setattr(context.Context, name, original)
            self.originals.clear()
            self.unwatch()
            origins.clear()
            self.everything = False
            for table in (self.routes, self.elsewhere):
                for route in filter(None, table.values()):
                    route.end()
                    self.dropped.append(route)
                table.clear()
            self._free_dropped()

    def _make_call(self, original: Any) -> Any:
        routes, elsewhere, has_missing = self.routes, self.elsewhere, devices.has_missing

        def call_function(ctx: Any, name: bytes, tensor_inputs: list[Any], num_outputs: int) -> Any:
            try:
                if has_missing() and not devices.decide(ctx.device_name or ""):
                    route = elsewhere[name]
                else:
                    route = routes[name]
            except KeyError:
                route = self._route(ctx, name, tensor_inputs)
            if route is None:
                marks.note_plain(name, tensor_inputs)
                return _traced(original, ctx, name, tensor_inputs, num_outputs)
            route.calls.append(None)
            try:
                if route.closed:
                    return original(ctx, name, tensor_inputs, num_outputs)
                if route.fallback:
                    return _traced(route.call, original, ctx, name, tensor_inputs, num_outputs)
                assert isinstance(route, Route)
                return self._run(route, original, ctx, name, tensor_inputs, num_outputs)
            finally:
                route.calls.pop()

        return call_function

    def _make_remove(self, original: Any) -> Any:
        tables, dropped, removed = (self.routes, self.elsewhere), self.dropped, self.removed

        def remove_function(ctx: Any, name: bytes) -> Any:
            # Called from __del__ at any point of any thread: no lock may be taken here.
            text = name.decode() if isinstance(name, bytes) else name
            removed.append(text)
            origins.forget(text)
            for table in tables:
                route = table.pop(name, None)
                if route is not None:
                    route.gone = True
                    route.end()
                    dropped.append(route)
            return original(ctx, name)

        return remove_function

    def _make_set_seed(self, original: Any) -> Any:
        def set_global_seed(ctx: Any, seed: Any) -> None:
            """Starts eager random ops over; compiled ones too."""
            original(ctx, seed)
            self.compiler.seed_random(None if seed is None else int(seed))

        return set_global_seed

    def route(self, name: bytes) -> Route | None:
        """The route of a function that was called, if it runs natively."""
        found = self.routes.get(name)
        return found if isinstance(found, Route) and not found.fallback else None

    def _route(self, ctx: Any, name: bytes, inputs: list[Any]) -> Fallback | None:
        placed = devices.decide(ctx.device_name or "")
        table = self.routes if placed else self.elsewhere
        with self.lock:
            if name in table:
                return table[name]
            self._free_dropped()
            self.sweep()
            origins.note(name.decode())
            made = None
            if self.everything or function_names.JIT_PREFIX.encode() in name:
                definition = ctx.get_function_def(name)
                made = self._make_route(name, definition, inputs, placed) if is_must_compile(definition) else None
            table[name] = made
            return made

    def _make_route(self, name: bytes, definition: Any, inputs: list[Any], placed: Decision) -> Fallback | None:
        if not placed:
            return Elsewhere(name, placed.reason)
        if uncompiled.has_variants(definition):
            made = Fallback(name)
            made.fall_back("a tensor list crosses its border", uncompiled.copy(definition))
            return made
        try:
            route = Route(self.compiler, name, definition, inputs)
        except Exception as error:  # noqa: BLE001 - a bug of the rewriter must not break a program that worked
            say_fallback(name.decode(), bugs.failed(f"rewriting {name.decode()}", error))
            return None
        count("functions")
        function_graph.record(name.decode(), "must_compile", route.interface, definition)
        return route

    def _run(self, route: Route, original: Any, ctx: Any, name: bytes, inputs: list[Any], outputs: int) -> Any:
        if route.distinct and route.is_aliased(inputs):
            return original(ctx, name, inputs, outputs)
        route.noted.note(inputs)
        if route.is_misfit(inputs):
            return route.call(original, ctx, name, inputs, outputs)
        try:
            return route.run(ctx, inputs, outputs) or None
        except tf.errors.OpError as error:
            failure = route.program.failure_of(error)
            if isinstance(failure, UninitializedError) or (failure is None and uninitialised.is_said_by(error)):
                # Stock code says so, or runs where the function only writes the variable.
                return original(ctx, name, inputs, outputs)
            if failure is None:
                error._message = _restore_name(route, error.message)
                raise
            self._raise_or_fall_back(route, inputs, failure)
        return route.call(original, ctx, name, inputs, outputs)

    def _raise_or_fall_back(self, route: Route, inputs: Sequence[Any], failure: BaseException) -> None:
        """Return when stock XLA is to run the function."""
        if not isinstance(failure, Exception):
            raise failure
        raises = flags.get("tfxla_must_compile_fallback") == "raise"
        if route.is_full and isinstance(failure, RecompileLimitError) and not raises:
            return None
        definition, reason = bridge.function_def(route.name), str(failure)
        if isinstance(failure, RankError):
            raise tf.errors.UnavailableError(None, None, reason) from None
        ours = isinstance(failure, TuningError) or uncompiled.has_user_kernels(definition, bridge.library)
        if ours or isinstance(failure, LoweringError):  # what stock XLA cannot do, or was not asked to
            raise tf.errors.InvalidArgumentError(None, None, reason) from None
        if raises:
            raise tf.errors.InvalidArgumentError(None, None, refusal_text(route.name.decode(), reason)) from failure
        misfit = isinstance(failure, shape_check.BranchError)
        unsafe = uncompiled.is_unsafe_in_stock(definition, bridge.library, misfit)
        plain_copy = uncompiled.copy(definition) if unsafe else None
        if misfit and unsafe:
            return route.leave_sizes(inputs, reason, plain_copy)
        if isinstance(failure, RecompileLimitError):
            return route.fill(reason, plain_copy, failure.key)
        return route.fall_back(reason, plain_copy)

    def _free_dropped(self) -> None:
        for route in [self.dropped.popleft() for _ in range(len(self.dropped))]:
            if route.calls:
                self.dropped.append(route)
            else:
                route.close()


def _traced(call: Callable[..., Any], *args: Any) -> Any:
    """`call(*args)`, noting that this thread executes the function args[-3], so that user lines are found."""
    outer = sources.enter(args[-3])
    try:
        return call(*args)
    finally:
        sources.leave(outer)


def is_must_compile(definition: Any) -> bool:
    """The FunctionDef carries `_XlaMustCompile=true`."""
    return MUST_COMPILE in definition.attr and definition.attr[MUST_COMPILE].b


def _restore_name(route: Route, message: str) -> str:
    """The message with the user's function in place of ours, so that TensorFlow adds its stack trace."""
    return message.replace(route.wrapper.decode(), route.name.decode()) if route.wrapper else message
