"""Bugs of this package met while it compiles: counted apart from what is not supported, and said with how to report
them. The program goes on: TensorFlow runs what could not be compiled."""

from __future__ import annotations

import os
import traceback

from . import counters, trace
from .errors import LoweringError, OutputError, RankError, TuningError, UnsupportedError, UsageError, VersionError

# What may fail without a mistake of ours: what is asked for, or what the machine has, does not allow more.
_NO_BUG = (
    UnsupportedError,
    LoweringError,
    TuningError,
    RankError,
    UsageError,
    OutputError,
    VersionError,
    MemoryError,
    OSError,
)


def is_bug(error: BaseException) -> bool:
    """Whether `error`, raised by our own code while it compiles, is a mistake of this package."""
    return isinstance(error, Exception) and not isinstance(error, _NO_BUG)


def noted(what: str, error: BaseException) -> str:
    """The reason, one line, for which `what` ('compiling cluster_0') did not end well; a bug is counted
    (`internal_errors`) and recorded with its traceback."""
    message = str(error).splitlines()
    said = f"{type(error).__name__}: {message[0][:300]}" if message else type(error).__name__
    if not is_bug(error):
        return said
    counters.add("internal_errors", reason=said)
    trace.record(
        "error",
        what=what,
        error=type(error).__name__,
        message=str(error),
        internal=True,
        traceback="".join(traceback.format_exception(error, limit=-40)),
    )
    return f"internal error: {said}"


def failed(what: str, error: BaseException) -> str:
    """As `noted`, in a program that goes on: a bug is said, once, with what a report needs."""
    reason = noted(what, error)
    if is_bug(error):
        trace.once(f"bug:{reason}", f"{reason} (while {what}). {how_to_report()}")
    return reason


def how_to_report() -> str:
    """What to do about a bug: the files that a report needs are the dump directory's."""
    bug = "This is a bug of tfxla_cluster, not of the program, which goes on with TensorFlow's own code"
    where = trace.directory()
    if where:
        return f"{bug}. Please report it, and attach the directory {os.path.abspath(where)}"
    return f"{bug}. Please report it: run again with --xla_dump_to=DIR in TFXLA_FLAGS, and attach DIR"
