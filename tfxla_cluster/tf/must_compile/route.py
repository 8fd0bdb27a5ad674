"""How a must-compile function runs: the native op alone, or a rewritten function that reads and assigns its variables
around the op; or as TensorFlow runs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe  # pylint: disable=no-name-in-module
from tensorflow.python.eager import cancellation, context, execute
from tensorflow.python.util import function_utils

from ... import flags
from ...tf2xla import bridge
from ...tf2xla.function_def import fresh_name
from .. import devices
from ..compiler_port import Compiler
from ..functions import function_compiler, uninitialised, variables
from ..functions.marks import Noted
from ..native_op import op as native_op
from ..native_op.records import Words
from . import uncompiled
from .fallbacks import leave_where_placed, refusal_text, say_fallback


class Fallback:
    """A must-compile function that TensorFlow runs: `fallback` is the reason ('': it runs natively), `runs` the
    function called instead: itself, compiled by stock XLA, or a copy that is not compiled."""

    def __init__(self, name: bytes) -> None:
        self.name, self.runs, self.fallback, self.closed = name, name, "", False
        self.live = Words([1])  # 0 once it is closed or falls back: machine code looks at it before it runs a program
        self.gone = False  # TensorFlow removed the function: nobody can call it any more
        # An item for each call under way: a thread adds one, then looks at `closed`; who closes looks here after.
        self.calls: deque[None] = deque()

    def fall_back(self, reason: str, plain_copy: Any = None, key: str = "") -> None:
        """From now on TensorFlow runs the function, uncompiled where a copy is given; `key`: as say_fallback has it."""
        self._register_copy(plain_copy)
        self.fallback = reason
        self.live[0] = 0
        say_fallback(self.name.decode(), reason, uncompiled=self.runs != self.name, key=key)

    def _register_copy(self, plain_copy: Any) -> None:
        if plain_copy is not None and self.runs == self.name:
            context.context().add_function_def(plain_copy)
            self.runs = plain_copy.signature.name.encode()

    def call(self, original: Any, ctx: Any, name: bytes, inputs: list[Any], outputs: int) -> Any:
        """As `Context.call_function`, `original`, of `name`."""
        try:
            return original(ctx, self.runs, inputs, outputs)
        except tf.errors.OpError as error:
            # With the user's function in place of ours TensorFlow adds its stack trace.
            error._message = error.message.replace(self.runs.decode(), self.name.decode())
            raise

    def end(self) -> None:
        """From now on no call begins; of those under way, `calls` and the program tell."""
        self.closed = True
        self.live[0] = 0

    def close(self) -> None:
        """Free what was registered."""
        self.end()
        _unregister(self.runs if self.runs != self.name else b"")


class Elsewhere(Fallback):
    """A must-compile function as it is called on a device without a backend: stock XLA's, or an error."""

    def __init__(self, name: bytes, reason: str) -> None:
        super().__init__(name)
        self.fallback = reason
        if flags.get("tfxla_must_compile_fallback") != "raise":
            leave_where_placed(name.decode(), reason)

    def call(self, original: Any, ctx: Any, name: bytes, inputs: list[Any], outputs: int) -> Any:
        """As `Context.call_function`, `original`, of `name`; the flag may be set after the first call."""
        if flags.get("tfxla_must_compile_fallback") == "raise":
            raise tf.errors.InvalidArgumentError(None, None, refusal_text(self.name.decode(), self.fallback))
        return super().call(original, ctx, name, inputs, outputs)


def _unregister(name: bytes) -> None:
    ctx = context.context()
    if name and ctx.has_function(name):
        ctx.remove_function(name)


class Route(Fallback):
    """A must-compile function that runs natively: the op alone, or a wrapper that handles its variables."""

    def __init__(self, compiler: Compiler, name: bytes, definition: Any, inputs: Sequence[Any]) -> None:
        super().__init__(name)
        dtypes = {i: _value_dtype(t) for i, t in enumerate(inputs) if t.dtype == tf.resource}
        self.interface = variables.interface(definition, bridge.library, {i: d for i, d in dtypes.items() if d})
        self.noted = Noted()
        self.program = function_compiler.program(
            compiler,
            self.interface,
            "must",
            name.decode(),
            check=uninitialised.checked(self.interface),
            tells_failures=True,
            noted=self.noted,
        )
        self.wrapper = b""
        self.op = native_op.RUN
        self.attrs: tuple[Any, ...] = self.program.attrs
        if not self.interface.is_pure or self._crosses_memories() or self.program.watcher is not None:
            self._wrap(definition)
        written = self.interface.updated and len(self.interface.resources) > 1
        self.distinct = sorted(self.interface.resources) if written else []
        self.is_full = False  # it gets no more executables: TensorFlow runs what those that there are do not serve
        self.misfits: set[tuple[tuple[int, ...], ...]] = set()

    def _crosses_memories(self) -> bool:
        """On a GPU some inputs or results are to be in the host's memory: a function around the op copies them."""
        returns_int32 = tf.int32.as_datatype_enum in self.program.output_types
        return devices.has_accelerator() and (bool(self.program.host) or returns_int32)

    def _wrap(self, definition: Any) -> None:
        wrapper = fresh_name(self.name.decode())
        context.context().add_function_def(variables.wrap(definition, self.interface, self.program, wrapper))
        self.wrapper, self.op = wrapper.encode(), wrapper
        # One op between reads and writes: nothing for grappler to do, nothing to run in parallel but copies.
        executor = "" if devices.has_accelerator() else "SINGLE_THREADED_EXECUTOR"
        self.attrs = ("executor_type", executor, "config_proto", function_utils.get_disabled_rewriter_config())

    def run(self, ctx: Any, inputs: list[Any], outputs: int) -> list[Any]:
        """The function's flat outputs. Raises as the op does; nothing is changed where it raises."""
        token = cancellation.context()
        if token is None:
            return pywrap_tfe.TFE_Py_Execute(ctx._handle, ctx.device_name, self.op, inputs, self.attrs, outputs)
        return execute.execute_with_cancellation(self.op, outputs, inputs, self.attrs, ctx, token)

    def is_aliased(self, inputs: Sequence[Any]) -> bool:
        """One variable is passed twice and written: reads before and writes after would lose an update."""
        return len({id(inputs[i]) for i in self.distinct}) < len(self.distinct)

    def leave_sizes(self, inputs: Sequence[Any], reason: str, plain_copy: Any) -> None:
        """From now on calls with inputs of these shapes run as the copy, which is not compiled."""
        self._register_copy(plain_copy)
        self.misfits.add(uncompiled.shapes(inputs))
        say_fallback(self.name.decode(), reason, uncompiled=True)

    def fill(self, reason: str, plain_copy: Any, key: str) -> None:
        """From now on only calls that the executables there are serve run natively."""
        if not any(entry.record for entry in self.program.entries):
            return self.fall_back(reason, plain_copy, key)
        self._register_copy(plain_copy)
        self.is_full = True
        return say_fallback(self.name.decode(), reason, uncompiled=self.runs != self.name, key=key)

    def is_misfit(self, inputs: Sequence[Any]) -> bool:
        """Calls with inputs of these shapes are not compiled."""
        return bool(self.misfits) and uncompiled.shapes(inputs) in self.misfits

    def close(self) -> None:
        """Free the wrapper and the executables."""
        super().close()
        _unregister(self.wrapper)
        self.program.close(recyclable=self.gone)


def _value_dtype(handle: Any) -> int:
    data = getattr(handle, "_handle_data", None)
    return data.shape_and_type[0].dtype if data is not None and data.shape_and_type else 0
