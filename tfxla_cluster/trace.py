"""The trace: one append-only JSON-lines file a process in the dump directory, and log lines.

`record` appends one line; `phase` times a block and records it. Kinds and fields: dump/schema.py.
With no dump directory and no TFXLA_LOGS both cost a dictionary look-up.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import flags
from .locks import ForkSafeLock

SCHEMA_VERSION = 1
LOGS_ENV = "TFXLA_LOGS"
_TEST_OUTPUTS = ("sponge", "test_undeclared_outputs_dir")

# Topic of TFXLA_LOGS -> kinds of record it prints, and further kinds with a '+' before the topic.
TOPICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "recompiles": (("compile", "recompile"), ("lowering", "phase")),
    "guards": (("recompile",), ()),
    "clustering": (("cluster", "fallback"), ("unclustered",)),
    "fusion": ((), ("fusion",)),
    "kernels": (("kernel",), ("execution",)),
    "cache": (("cache",), ("store",)),
}


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
        Path(owner[1]).mkdir(parents=True, exist_ok=True)
        path = Path(owner[1]) / f"trace.{owner[0]}.jsonl"
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


_writer = _Writer()
_said: set[str] = set()
_said_lock = ForkSafeLock()
_stack = threading.local()
_topics: tuple[str, frozenset[str]] | None = None


def once(key: str, message: str) -> bool:
    """Print one line to stderr the first time `key` is said in this process; True if it was printed."""
    with _said_lock:
        if key in _said:
            return False
        _said.add(key)
    print(f"tfxla_cluster: {message}", file=sys.stderr, flush=True)  # noqa: T201
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


def logged_kinds() -> frozenset[str]:
    """The kinds of record that TFXLA_LOGS asks to print; an unknown topic is said once."""
    global _topics
    text = os.environ.get(LOGS_ENV, "")
    if _topics is None or _topics[0] != text:
        kinds: set[str] = set()
        for word in filter(None, (w.strip() for w in text.split(","))):
            verbose, topic = word.startswith("+"), word.lstrip("+")
            if topic not in TOPICS:
                once(f"topic:{topic}", f"{LOGS_ENV}: unknown topic '{topic}'; known: {', '.join(TOPICS)}")
                continue
            kinds.update(TOPICS[topic][0], TOPICS[topic][1] if verbose else ())
        _topics = (text, frozenset(kinds))
    return _topics[1]


def wants(kind: str) -> bool:
    """True when a record of `kind` goes anywhere: build costly fields only then."""
    return bool(directory()) or kind in logged_kinds()


def record(kind: str, **fields: Any) -> None:
    """Append one record; fields are JSON values (others are written as their text)."""
    where = directory()
    if where:
        entry = {"kind": kind, "time": time.time(), "thread": threading.get_native_id(), **fields}
        _writer.write(where, json.dumps(entry, default=_plain) + "\n")
    if kind in logged_kinds():
        shown = " ".join(f"{k}={_short(v)}" for k, v in fields.items())
        print(f"[tfxla {kind}] {shown}", file=sys.stderr, flush=True)  # noqa: T201


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=_plain)
    return text if len(text) <= 300 else text[:297] + "..."


class Phase:
    """A timed block: `seconds` when it ended, `fields` to add to its record, `parts` the phases inside."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name, self.fields = name, fields
        self.seconds = 0.0
        self.parts: dict[str, float] = {}


@contextmanager
def phase(name: str, **fields: Any) -> Iterator[Phase]:
    """Time a block; recorded as kind 'phase' with its milliseconds and those of its parts."""
    outer: Phase | None = getattr(_stack, "top", None)
    this = Phase(name, dict(fields))
    _stack.top = this
    start = time.perf_counter()
    try:
        yield this
    finally:
        this.seconds = time.perf_counter() - start
        _stack.top = outer
        if outer is not None:
            outer.parts[name] = outer.parts.get(name, 0.0) + this.seconds
        if wants("phase"):
            parts = {k: round(v * 1e3, 3) for k, v in this.parts.items()}
            record("phase", name=name, ms=round(this.seconds * 1e3, 3), parts=parts, **this.fields)
