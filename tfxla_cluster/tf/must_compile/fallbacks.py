"""What is said, counted and recorded where a must-compile function is not compiled here."""

from __future__ import annotations

from ... import trace
from ...counters import add as count
from .. import devices


def refusal_text(name: str, reason: str) -> str:
    """What the user is told where stock XLA is not to compile the function `name` either."""
    return (
        f"function {name} cannot be compiled: {reason}. "
        "Set --tfxla_must_compile_fallback=xla to let stock XLA compile such functions"
    )


def leave_where_placed(name: str, reason: str) -> None:
    """Count and record that stock XLA compiles a function for where it is placed; said once for all of them."""
    _count_fallback(name, reason, "xla")
    devices.say_left(reason)


def _count_fallback(name: str, reason: str, to: str) -> None:
    count("fallbacks", reason=reason)
    trace.record("fallback", what=name, reason=reason, to=to)


def say_fallback(name: str, reason: str, uncompiled: bool = False, key: str = "") -> None:
    """Count, record and say once that TensorFlow runs a must-compile function; `key`: the same for all that are one
    thing to the user, by default the name."""
    _count_fallback(name, reason, "ops" if uncompiled else "xla")
    how = "runs uncompiled" if uncompiled else "is compiled by stock XLA"
    trace.once(f"fallback:{key or name}", f"function {name} {how}: {reason}")
