"""What has to hold of a thread, of TensorFlow's and Python's state there, for a direct call: one table, for Python
(which says what does not hold) and for machine code (`native_op.direct`)."""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import Any

from tensorflow.python import pywrap_tfe  # pylint: disable=no-name-in-module
from tensorflow.python.eager import cancellation, context
from tensorflow.python.eager.polymorphic_function import eager_function_run
from tensorflow.python.framework import ops
from tensorflow.python.saved_model import save_context

from .. import devices
from ..native_op.direct import FALSE, SAME, TRUE, Condition, State, is_available

_tape_is_empty = pywrap_tfe.TFE_Py_TapeSetIsEmpty


def _table(ctx: Any) -> list[tuple[str, Condition]]:
    """(name of the guard, condition), the guards' names those of fast_path.GUARDS."""
    local, graphs = ctx._thread_local_data, ops._default_graph_stack
    strategies = ("_global_default_graph", "_thread_local", "_distribution_strategy_stack")
    return [
        ("eager", Condition(context, ("_context",), SAME, ctx)),
        ("eager", Condition(eager_function_run, ("RUN_FUNCTIONS_EAGERLY",), FALSE)),
        ("eager", Condition(local, ("is_eager",), TRUE)),
        ("device", Condition(local, ("device_name",), FALSE)),
        ("device", Condition(ctx, ("_logical_devices",), SAME, getattr(ctx, "_logical_devices", None))),
        ("callbacks", Condition(local, ("op_callbacks",), FALSE)),
        ("callbacks", Condition(cancellation, ("_active_context",), SAME, None)),
        ("eager", Condition(graphs, ("stack",), FALSE)),
        ("strategy", Condition(graphs, strategies, FALSE)),
        ("callbacks", Condition(save_context._save_context, ("_in_save_context",), FALSE)),
    ]


class ThreadState:
    """The table for a context of TensorFlow's and its devices, for any thread."""

    def __init__(self, ctx: Any) -> None:
        self.context, self.has_missing = ctx, devices.has_missing()
        self.devices = getattr(ctx, "_logical_devices", None)
        table = _table(ctx)
        self.rows = [(name, attrgetter(".".join(c.names)), c) for name, c in table]

    @functools.cached_property
    def direct(self) -> State | None:
        """The table as machine code reads it; None where there are no direct calls: what lies on a GPU goes through
        TensorFlow, for its stream and its memory."""
        if devices.has_accelerator() or not is_available():
            return None
        job, task = devices.machine().task
        host = f"/job:{job}/replica:0/task:{task}/device:CPU:0"
        return State([condition for _, _, condition in self.rows], host, self.context, self.context._thread_local_data)

    def blocked_by(self) -> str:
        """The guard that forbids a direct call on this thread now, '' when none does."""
        if self.has_missing:
            return "device"
        for name, get, condition in self.rows:
            value = get(condition.start)
            if value is not condition.wanted if condition.asked == SAME else bool(value) != condition.asked:
                return name
        return "" if _tape_is_empty() else "tape"


class _Known:
    state: ThreadState | None = None


def current() -> ThreadState | None:
    """The table for TensorFlow's context as it is now; None: it has none yet."""
    ctx = context._context
    if ctx is None:
        return None
    known = _Known.state
    if known is None or known.context is not ctx or known.devices is not getattr(ctx, "_logical_devices", None):
        known = _Known.state = ThreadState(ctx)
    return known


def blocked_by() -> str:
    """The guard on this thread's state that forbids a direct call now, '' when none does."""
    state = current()
    if state is None:
        return "eager"
    ops.get_default_graph()._distribution_strategy_stack  # noqa: B018 - TensorFlow makes it when it is first asked for
    return state.blocked_by()
