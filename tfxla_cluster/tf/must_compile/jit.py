"""tfxla_cluster.jit: a must-compile function called directly.

It works without `enable()`: then the must-compile hook is installed for functions made here only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ..functions.function_compiler import DYNAMIC_MARK, JIT_PREFIX, STATIC_MARK
from .fast_path import FastPath, Function, Plans


class Jitted:
    """A compiled callable; attributes of the underlying tf.function are reached through it."""

    def __init__(self, function: Any, original: Callable[..., Any], fast_path: FastPath) -> None:
        self.function, self.original, self.fast_path = function, original, fast_path
        functools.update_wrapper(self, original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast_path = self.fast_path
        if not fast_path.hook.originals:
            fast_path.hook.install(selected_only=True)
        return fast_path.call(fast_path.original or Function.__call__, self.function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return Jitted(self.function.__get__(instance, owner), self.original, self.fast_path)

    @property
    def misses(self) -> dict[str, int]:
        """Guard name -> calls that could not go directly because of it (fast_path.GUARDS explains each)."""
        plans = self.function.__dict__.get("_tfxla_plans")
        return dict(plans.misses) if isinstance(plans, Plans) else {}


def jit(
    fast_path: FastPath,
    fn: Callable[..., Any],
    input_signature: Sequence[Any] | None = None,
    dynamic: bool | None = None,
) -> Jitted:
    """Compile `fn` whole, natively; calls go directly to machine code where the guards hold.

    input_signature: as tf.function's. dynamic: None compiles once more, for all sizes of a dimension, when it has a
    second one, and traces each size; True compiles for all sizes from the first call on (where the trace reads a size
    from the second); False compiles each size for itself. Raises ValueError for any other `dynamic`, and
    tf.errors.InvalidArgumentError at the first call when the function cannot be compiled.
    """
    if dynamic not in (None, True, False):
        raise ValueError(f"jit: dynamic is {dynamic!r}, which has to be True, False or None")
    traced = tf.function(_named(fn, dynamic), input_signature=input_signature, jit_compile=True)
    return Jitted(traced, fn, fast_path)


def _named(fn: Callable[..., Any], dynamic: bool | None) -> Callable[..., Any]:
    """`fn` under a name that tells its FunctionDefs (forward and backward too) apart."""

    @functools.wraps(fn)
    def named(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    mark = {False: STATIC_MARK, True: DYNAMIC_MARK, None: ""}[dynamic]
    named.__name__ = JIT_PREFIX + mark + re.sub(r"\W", "_", getattr(fn, "__name__", "function"))
    return named
