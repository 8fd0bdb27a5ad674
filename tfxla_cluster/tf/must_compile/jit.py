"""tfxla_cluster.jit: a must-compile function called directly.

It works without `enable()`: then the must-compile hook is installed for functions made here only.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import tensorflow as tf

from ... import flags, size_spec
from ...errors import UsageError
from ...size_spec import Size, Source
from ...tf2xla import sources
from ..functions import marks, origins, python_ints
from ..functions.function_names import DYNAMIC_MARK, JIT_PREFIX, STATIC_MARK
from .fast_path import FastPath, Function, Plans

Dynamic = Union[bool, str, Mapping[str, Mapping[int, Union[Size, str]]], None]
"""What `jit` may be told about sizes."""


class Jitted:
    """A compiled callable; attributes of the underlying tf.function are reached through it. `make`: makes one of
    another Python function; None of a bound method."""

    def __init__(
        self,
        function: Any,
        original: Callable[..., Any],
        fast_path: FastPath,
        make: Callable[[Callable[..., Any]], Jitted] | None = None,
    ) -> None:
        self.function, self.original, self.fast_path, self.make = function, original, fast_path, make
        self.plans = Plans.of(function)
        functools.update_wrapper(self, original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            result = self.plans.direct(args)
            if result is not NotImplemented:
                return result
        fast_path = self.fast_path
        if not fast_path.hook.originals:
            fast_path.hook.install(selected_only=True)
        return fast_path.call(fast_path.original or Function.__call__, self.function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "function":  # it is being copied, and has nothing yet
            raise AttributeError(name)
        return getattr(self.function, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Jitted:
        """As of a tf.function: the object that it is a method of is copied too. It is traced anew."""
        if self.make is None:
            return Jitted(copy.deepcopy(self.function, memo), self.original, self.fast_path)
        return self.make(copy.deepcopy(self.original, memo))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return Jitted(self.function.__get__(instance, owner), self.original, self.fast_path)

    @property
    def misses(self) -> dict[str, int]:
        """Guard name -> calls that could not go directly because of it (fast_path.GUARDS explains each)."""
        return dict(self.plans.misses)


def jit(
    fast_path: FastPath, fn: Callable[..., Any], input_signature: Sequence[Any] | None = None, dynamic: Dynamic = None
) -> Jitted:
    """Compile `fn` whole, natively; calls go directly to machine code where the guards hold.

    input_signature: as tf.function's. dynamic: None compiles once more, for all sizes of a dimension, when it has a
    second one, and traces each size; True compiles for all sizes from the first call on (where the trace reads a size
    from the second); False compiles each size for itself. A specification of sizes, as text
    ("x:0=batch[2..512],y:0=batch") or by argument and dimension ({"x": {0: Size("batch", 2, 512)}, "y": {0: "batch"}}),
    marks these as `mark_dynamic` does. Raises UsageError for what is no function, for any other `dynamic` and for a
    specification that does not parse, and at the first call UsageError for one that names no argument or dimension and
    tf.errors.InvalidArgumentError when the function cannot be compiled.
    """
    sources.check_function(fn)
    sizes = _specified(dynamic)

    def make(fn: Callable[..., Any]) -> Jitted:
        traced = tf.function(_named(fn, dynamic, sizes), input_signature=input_signature, jit_compile=True)
        return Jitted(traced, fn, fast_path, make)

    return make(fn)


def _specified(dynamic: Dynamic) -> tuple[Source, ...]:
    """The entries of a specification of sizes; none of True, False, None. UsageError with the user's line."""
    if dynamic is None or isinstance(dynamic, bool):
        return ()
    try:
        if isinstance(dynamic, str):
            return size_spec.parse(dynamic)
        if isinstance(dynamic, Mapping) and all(isinstance(axes, Mapping) for axes in dynamic.values()):
            return tuple(size_spec.entry(name, *item) for name, axes in dynamic.items() for item in axes.items())
    except UsageError as error:
        raise sources.wrong(f"jit: dynamic: {error.message}", error.remedy) from None
    raise sources.wrong(
        f"jit: dynamic is {dynamic!r}, which has to be True, False, None, 'x:0=batch' or {{'x': {{0: 'batch'}}}}"
    )


def _named(fn: Callable[..., Any], dynamic: Dynamic, sizes: Sequence[Source]) -> Callable[..., Any]:
    """`fn` under a name that tells its FunctionDefs (forward and backward too) apart; its arguments are marked as
    `sizes` says."""

    @functools.wraps(fn)
    def named(*args: Any, **kwargs: Any) -> Any:
        integers = python_ints.offer(fn, args, kwargs) if flags.get("tfxla_dynamic_python_ints") else []
        if sizes:
            title = named.__name__.removeprefix(JIT_PREFIX)
            marks.mark_arguments((args, kwargs, integers), sizes, title, origins.definition(fn))
        return fn(*args, **kwargs)

    mark = STATIC_MARK if dynamic is False else DYNAMIC_MARK if dynamic is True else ""
    named.__name__ = JIT_PREFIX + mark + re.sub(r"\W", "_", getattr(fn, "__name__", "function"))
    return named
