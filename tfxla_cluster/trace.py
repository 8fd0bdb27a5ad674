"""The trace: one append-only JSON-lines file a process in the dump directory, and log lines.

`record` appends one line; `phase` times a block and records it. Kinds and fields: dump/schema.py.
With no dump directory and no TFXLA_LOGS both cost a dictionary look-up.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import flags
from .locks import ForkSafeLock
from .phase_times import PhaseTimes

SCHEMA_VERSION = 1
LOGS_ENV = "TFXLA_LOGS"
_TEST_OUTPUTS = ("sponge", "test_undeclared_outputs_dir")

# Topic of TFXLA_LOGS -> kinds of record it prints, and further kinds with a '+' before the topic.
TOPICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "recompiles": (("compile", "limit"), ("recompile", "lowering")),
    "dynamic": (("dynamic",), ("dynamic",)),
    "guards": (("compile", "recompile"), ()),
    "clustering": (("cluster", "fallback"), ("unclustered", "function")),
    "fusion": (("fusion",), ()),
    "kernels": (("kernel",), ("execution", "graph")),
    "cache": (("cache",), ("store",)),
    "autotune": (("autotune",), ()),
    "ranks": (("ranks",), ()),
}
# Kind -> the fields that a line has without a '+', where they say something.
_BRIEF = {
    "autotune": frozenset(("event", "instr", "choice", "ms", "default_ms", "space", "seconds", "reason")),
    "compile": frozenset(
        ("cluster", "what", "id", "hit", "generic", "where", "guards", "reason", "remedies", "ms", "costs", "native")
    ),
}
# Kind -> the fields that no line has: they are long, and for programs, or stand in others in words.
_FOR_PROGRAMS = {
    "compile": frozenset(
        ("module", "inputs", "family", "told", "structure", "serves", "changed", "apart", "called", "passes")
    )
}
ALL = "all"
# Kinds of which a topic without '+' prints only the records with this field true: what was done, not what was refused.
_DONE = {"fusion": "ok", "dynamic": "ok"}


class _Writer:
    """The trace file of this process; reopened after a fork or a change of the dump directory."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.owner: tuple[int, str] | None = None
        self.fd = -1

    def write(self, directory: str, line: str) -> None:
        owner = (os.getpid(), directory)
        with self.lock:
            try:
                if self.owner != owner:
                    self._open(owner)
                if self.fd >= 0:
                    self._append(line.encode())
            except OSError as error:
                self._close()
                dump_failed(directory, error)

    def _append(self, data: bytes) -> None:
        """All of `data`, or OSError: a file system that is nearly full takes part of it without a word."""
        while data:
            data = data[os.write(self.fd, data) :]

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def _open(self, owner: tuple[int, str]) -> None:
        self._close()
        self.owner = owner
        make_directory(owner[1])
        path = Path(owner[1]) / f"trace.{owner[0]}.jsonl"
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


_PATH_MAX = 4096  # Linux's


def make_directory(path: str | os.PathLike[str]) -> None:
    """The directory, made where it is not there yet; an OSError of one line for whatever stands in its place."""
    if len(os.fsencode(path)) >= _PATH_MAX:  # os.makedirs would overflow the stack
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:  # a file, a device, a dangling link
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, str(error)) from None


_writer = _Writer()
_said: set[str] = set()
_said_lock = ForkSafeLock()
_stack = threading.local()
_topics: tuple[str, Mapping[str, bool]] | None = None


def once(key: str, message: str) -> bool:
    """Print one line to stderr the first time `key` is said in this process; True if it was printed."""
    with _said_lock:
        if key in _said:
            return False
        _said.add(key)
    line = " ".join(filter(None, map(str.strip, message.splitlines())))  # what another program says may have several
    print(f"tfxla_cluster: {line}", file=sys.stderr, flush=True)  # noqa: T201
    return True


def dump_failed(directory: str | os.PathLike[str], error: OSError) -> None:
    """Say, once a directory, that its dump is not whole; the program goes on."""
    once(
        f"dump:{os.path.abspath(directory)}",
        f"cannot write the dump in {os.fspath(directory)}: {error.strerror or error}; dumping stops, the program goes "
        "on. Give --xla_dump_to a writable directory with free space",
    )


def target() -> str:
    """Where the dump goes: a directory, '-' for stdout, '' for nowhere. XLA's words for "the directory
    that the test runner collects" are resolved."""
    name = str(flags.get("xla_dump_to")) if flags.get("xla_enable_dumping") else ""
    return os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", "") if name in _TEST_OUTPUTS else name


def directory() -> str:
    """The dump directory, '' when there is none."""
    name = target()
    return "" if name == "-" else name


def logged_kinds() -> Mapping[str, bool]:
    """The kinds of record that TFXLA_LOGS asks to print -> whether all of them (a '+' says so).

    Topics, or 'all', by comma: `+topic` prints more of it, `-topic` nothing. An unknown topic is said once.
    """
    global _topics
    text = os.environ.get(LOGS_ENV, "")
    if _topics is None or _topics[0] != text:
        levels: dict[str, int] = {}
        for word in filter(None, (w.strip() for w in text.split(","))):
            sign, topic = (word[0], word[1:].strip()) if word[0] in "+-" else ("", word)
            if topic in TOPICS or topic == ALL:
                levels.update(dict.fromkeys(TOPICS if topic == ALL else [topic], {"-": 0, "": 1, "+": 2}[sign]))
            else:
                _unknown_topic(topic)
        wanted: dict[str, bool] = {}
        for topic, level in levels.items():
            for kind in TOPICS[topic][0] * (level > 0) + TOPICS[topic][1] * (level > 1):
                wanted[kind] = wanted.get(kind, False) or level > 1
        _topics = (text, wanted)
    return _topics[1]


def _unknown_topic(topic: str) -> None:
    near = difflib.get_close_matches(topic, [*TOPICS, ALL], n=1, cutoff=0.6)
    meant = f"did you mean '{near[0]}'? " if near else ""
    once(f"topic:{topic}", f"{LOGS_ENV}: unknown topic '{topic}'; {meant}known: {', '.join([*TOPICS, ALL])}")


def wants(kind: str) -> bool:
    """True when a record of `kind` goes anywhere: build costly fields only then."""
    if getattr(_stack, "muted", False):
        return False
    return bool(directory()) or kind in logged_kinds()


def record(kind: str, **fields: Any) -> None:
    """Append one record; fields are JSON values (others are written as their text)."""
    if getattr(_stack, "muted", False):
        return
    where = directory()
    if where:
        entry = {"kind": kind, "time": time.time(), "thread": threading.get_native_id(), **fields}
        _writer.write(where, _line(entry) + "\n")
    logged = logged_kinds()
    if kind in logged and (logged[kind] or fields.get(_DONE.get(kind, ""), True)):
        shown = " ".join(f"{k}={_short(v)}" for k, v in fields.items() if _is_shown(kind, k, v, logged[kind]))
        with contextlib.suppress(OSError):  # nobody reads it any more: what is compiled goes on
            print(f"[tfxla {kind}] {shown}", file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """No record of this thread in a `with` block: what is compiled on trial is no part of the program."""
    before, _stack.muted = getattr(_stack, "muted", False), True
    try:
        yield
    finally:
        _stack.muted = before


def _is_shown(kind: str, field: str, value: Any, is_full: bool) -> bool:
    """Has a line of this kind this field, and is there something in it? is_full: a '+' asks for all."""
    brief = None if is_full else _BRIEF.get(kind)
    if brief is None and kind not in _FOR_PROGRAMS:
        return True
    wanted = field not in _FOR_PROGRAMS[kind] if brief is None else field in brief
    return wanted and value not in (None, "", [])


def _line(entry: dict[str, Any]) -> str:
    """As JSON that every reader takes: it has no NaN and no infinity, which are text then."""
    try:
        return json.dumps(entry, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(json.loads(json.dumps(entry, default=_plain))), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


def _short(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else json.dumps(value, default=_plain)).split())
    return text if len(text) <= 300 else text[:297] + "..."


class Phase:
    """A timed block: `times` so far, `fields` to add to its record."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name, self.fields = name, fields
        self._start = time.perf_counter()
        self._times, self._ended = PhaseTimes(), False

    @property
    def times(self) -> PhaseTimes:
        if not self._ended:
            self._times.seconds = time.perf_counter() - self._start
        return self._times

    @property
    def seconds(self) -> float:
        return self.times.seconds

    def end(self) -> None:
        self._times, self._ended = self.times, True


@contextlib.contextmanager
def phase(name: str, **fields: Any) -> Iterator[Phase]:
    """Time a block; recorded as kind 'phase' with its milliseconds and those of its parts."""
    outer: Phase | None = getattr(_stack, "top", None)
    _stack.top = this = Phase(name, dict(fields))
    try:
        yield this
    finally:
        this.end()
        _stack.top = outer
        if outer is not None:
            outer.times.add(name, this.times)
        if wants("phase"):
            parts = {k: round(part.seconds * 1e3, 3) for k, part in this.times.parts.items()}
            record("phase", name=name, ms=round(this.seconds * 1e3, 3), parts=parts, **this.fields)
