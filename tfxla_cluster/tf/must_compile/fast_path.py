"""Hook F: calls of must-compile functions that skip TensorFlow's binding, tracing look-up and interpolation.

`Function.__call__` -> guards on the thread's state -> a key of the arguments -> a plan (our op, the captures,
how to pack results) -> one TFE_Py_Execute. Whatever a guard does not hold for takes TensorFlow's own path, which
also learns: after it ran, the plan is made and checked to bind the very tensors TensorFlow binds.

Keys hold each tensor's dtype and shape, and Python scalars with their types. The names of guards are GUARDS.

On CPUs a plan without variables has a direct form too (`native_op.direct`): machine code looks at the guards, knows
the arguments and runs the executable, without TensorFlow's eager runtime. It is tried first, and where it declines
all goes as above.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe  # pylint: disable=no-name-in-module
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops

from ... import flags
from ..native_op import direct
from ..native_op.op import RUN
from . import thread_state
from .hook import Hook
from .route import Route

Function = polymorphic_function.Function
GUARDS = {
    "eager": "called while a graph is built, or functions run eagerly",
    "device": "inside tf.device, or in a process with a device that has no backend",
    "tape": "a gradient tape or forward accumulator is recording",
    "strategy": "inside a distribution strategy",
    "callbacks": "an op callback, a cancellation manager or a save context is active",
    "keywords": "called with keyword arguments",
    "argument": "an argument is no tensor, number, string, None, or list, tuple or dict of these",
    "signature": "first call with these dtypes, shapes and values",
    "binding": "TensorFlow binds other tensors than those passed",
    "captures": "captures are evaluated at each call",
    "route": "the function is not compiled natively",
    "failed": "the direct call failed, TensorFlow's path says why",
}
MAX_PLANS = 1024
MAX_DIRECT = 64  # plans of a function that are tried one after another
_execute = pywrap_tfe.TFE_Py_Execute
_EAGER = ops.EagerTensor
_SCALARS = frozenset({int, float, bool, str, bytes, type(None)})
_OPAQUE = frozenset(t.as_datatype_enum for t in (tf.string, tf.resource, tf.variant))


class Plan:
    """A direct call: `op` with `attrs` on the argument tensors and `captures`.

    flat: the direct form for the arguments as they are, None where there is none. slot: another one, called with the
    argument tensors alone, where arguments are or hold something else. Both are made at the second call.
    """

    __slots__ = ("attrs", "captures", "concrete", "flat", "op", "outputs", "pack", "route", "slot", "tried")

    def __init__(self, concrete: Any, route: Route, captures: list[Any]) -> None:
        kind = concrete.function_type
        self.concrete, self.route, self.captures = concrete, route, captures
        self.op, self.attrs = route.op, route.attrs
        self.outputs = len(kind.flat_outputs)
        self.pack = _packer(kind)
        self.flat: direct.DirectPlan | None = None
        self.slot: direct.Slot | None = None
        self.tried = False

    def make_direct(self, args: Sequence[Any], tensors: Sequence[Any], state: thread_state.ThreadState) -> None:
        """The direct forms for these arguments, which hold these tensors, where the program has them."""
        self.tried = True
        program = self.route.program
        types = {*program.input_types, *program.output_types}
        if self.op != RUN or types & _OPAQUE or state.direct is None:
            return
        pack = None if self.pack is _only else self.pack
        described = [(tensor._datatype_enum(), tensor._shape_tuple()) for tensor in tensors]
        if all(type(arg) is _EAGER or type(arg) in _SCALARS for arg in args):
            rows = iter(described)
            arguments = [next(rows) if type(arg) is _EAGER else (arg,) for arg in args]
            self.flat = direct.DirectPlan(program, self.route.live, arguments, self.captures, pack)
        if len(tensors) < len(args) or self.flat is None:
            self.slot = direct.Slot()
            plan = direct.DirectPlan(program, self.route.live, described, self.captures, pack)
            self.slot.publish([plan], state.direct)


def _packer(kind: Any) -> Callable[[list[Any]], Any]:
    """Flat outputs -> what the function returns."""
    if isinstance(kind.output, tf.TensorSpec) and len(kind.flat_outputs) == 1:
        return _only
    return kind.pack_output


def _only(flat: list[Any]) -> Any:
    return flat[0]


class Plans(dict[Any, "Plan | None"]):
    """A Function's plans by key, None where there can be none; `misses` counts guards that failed by name.

    Lives in the Function's attributes: pickles and copies as empty.
    """

    def __init__(self) -> None:
        super().__init__()
        self.misses: Counter[str] = Counter()
        self.through_op = 0
        self.slot: direct.Slot | None = None
        self.direct: Callable[[tuple[Any, ...]], Any] = _decline

    @classmethod
    def of(cls, function: Any) -> Plans:
        """Those of a Function, made when they are first asked for."""
        known: Plans = function.__dict__.get("_tfxla_plans") or function.__dict__.setdefault("_tfxla_plans", cls())
        return known

    @property
    def calls(self) -> int:
        """How many calls went by a plan."""
        slots = [self.slot, *(plan.slot for plan in self.values() if plan is not None)]
        return self.through_op + sum(slot.calls for slot in slots if slot is not None)

    def offer(self, plan: Plan, args: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Try the direct form of a plan, which a call found by its key, if it is not tried yet."""
        state = thread_state.current()
        if state is None or state.direct is None:
            return
        if not plan.tried:
            plan.make_direct(args, tensors, state)
        if plan.slot is not None and plan.slot.state is not state.direct:
            plan.slot.publish(plan.slot.plans, state.direct)
        if plan.flat is None:
            return
        if self.slot is None:
            self.slot = direct.Slot()
            self.direct = self.slot.call
        known = self.slot.plans if self.slot.state is state.direct else ()
        if plan.flat not in known and len(known) < MAX_DIRECT:
            self.slot.publish([plan.flat, *known], state.direct)

    def clear(self) -> None:
        """Forget all plans."""
        super().clear()
        if self.slot is not None and self.slot.state is not None:
            self.slot.publish([], self.slot.state)

    def __reduce__(self) -> Any:
        return Plans, ()

    def __deepcopy__(self, memo: Any) -> Plans:
        return Plans()


def argument_key(args: Sequence[Any], tensors: list[Any]) -> tuple[Any, ...] | None:
    """A key equal for calls that bind the same trace; appends the tensors. None: no key for such arguments."""
    key: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is _EAGER:
            tensors.append(arg)
            key.append(arg._datatype_enum())
            key.append(arg._shape_tuple())
        elif kind in _SCALARS:
            if arg != arg:
                return None
            key.append(kind)
            key.append(arg)
        elif kind is list or kind is tuple:
            inner = argument_key(arg, tensors)
            if inner is None:
                return None
            key.append((kind, inner))
        elif kind is dict:
            inner = _dict_key(arg, tensors)
            if inner is None:
                return None
            key.append(inner)
        else:
            return None
    return tuple(key)


def _dict_key(arg: dict[Any, Any], tensors: list[Any]) -> tuple[Any, ...] | None:
    try:
        names = sorted(arg)
    except TypeError:
        return None
    inner = argument_key([arg[name] for name in names], tensors)
    return None if inner is None else (dict, tuple(names), inner)


def _decline(args: tuple[Any, ...]) -> Any:
    return NotImplemented


class FastPath:
    """The installed hook on `Function.__call__`."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.original: Any = None

    def __deepcopy__(self, memo: Any) -> FastPath:
        return self  # a copy of what `jit` returns is called as it is

    def install(self) -> None:
        """Calls of functions traced earlier are covered too."""
        if self.original is not None:
            return
        self.original = original = Function.__call__

        @functools.wraps(original)
        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:
            plans = function._tfxla_plans
            if plans is not None and not kwargs:
                result = plans.direct(args)
                if result is not NotImplemented:
                    return result
            if not function._jit_compile:
                return original(function, *args, **kwargs)
            return self.call(original, function, args, kwargs)

        Function._tfxla_plans = None
        Function.__call__ = __call__

    def remove(self) -> None:
        """Put TensorFlow's method back; plans made so far are never used again."""
        if self.original is not None:
            Function.__call__, self.original = self.original, None

    def call(self, original: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of a must-compile Function."""
        plans = Plans.of(function)
        guard = "keywords" if kwargs else thread_state.blocked_by()
        if guard:
            plans.misses[guard] += 1
            return original(function, *args, **kwargs)
        tensors: list[Any] = []
        key = argument_key(args, tensors)
        if key is None:
            plans.misses["argument"] += 1
            return original(function, *args)
        plan = plans.get(key)
        if plan is None or plan.route.closed or plan.route.fallback:
            return self._learn(original, function, args, plans, key, tensors)
        plans.offer(plan, args, tensors)
        if plan.slot is not None:
            result = plan.slot.call(tuple(tensors))
            if result is not NotImplemented:
                return result
        calls = plan.route.calls
        calls.append(None)
        try:
            if plan.route.closed:
                return original(function, *args)
            flat = _execute(context._context._handle, "", plan.op, tensors + plan.captures, plan.attrs, plan.outputs)
        except tf.errors.OpError:  # nothing was changed: TensorFlow's path runs it again, with its own message
            plans.misses["failed"] += 1
            return original(function, *args)
        finally:
            calls.pop()
        plans.through_op += 1
        return plan.pack(flat)

    def _learn(
        self, original: Any, function: Any, args: tuple[Any, ...], plans: Plans, key: Any, tensors: list[Any]
    ) -> Any:
        """TensorFlow's own path, then a plan for the next such call."""
        result = original(function, *args)
        known = plans.get(key, 0)
        if known is not None and flags.get("tfxla_fast_path"):
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plans[key], reason = make_plan(self.hook, function, args, tensors)
            plans.misses[reason or "signature"] += 1
        return result


def make_plan(hook: Hook, function: Any, args: tuple[Any, ...], tensors: Sequence[Any]) -> tuple[Plan | None, str]:
    """(plan, '') of a Function that was just called with `args`, or (None, the guard that forbids one)."""
    from tensorflow.python.eager.polymorphic_function import function_type_utils, tracing_compilation

    bound = function_type_utils.canonicalize_function_inputs(
        args, {}, function._function_type, function._default_values, function._is_pure
    )
    created = function._created_variables
    config = function._no_variable_creation_config if created else function._variable_creation_config
    if config is None:
        return None, "route"
    concrete = tracing_compilation.trace_function(bound.args, bound.kwargs, config)
    flat = concrete.function_type.unpack_inputs(concrete.function_type.bind(*bound.args, **bound.kwargs))
    if len(flat) != len(tensors) or any(a is not b for a, b in zip(flat, tensors)):
        return None, "binding"
    if concrete.graph.function_captures.by_ref_internal or concrete.graph.deferred_external_captures:
        return None, "captures"
    route = hook.route(concrete._inference_function.name)
    captures = list(concrete.captured_inputs)
    if route is None or route.fallback or route.is_misfit([*tensors, *captures]):
        return None, "route"
    return Plan(concrete, route, captures), ""
