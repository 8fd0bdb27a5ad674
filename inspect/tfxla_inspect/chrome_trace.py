"""A dump's traces as events of Chrome's trace format, which Perfetto and chrome://tracing open.

Phases are spans, the other records instants of the thread that wrote them; the executions that were timed follow one
another on a track of each module, a span a step: how long a step took is known, when it ran is not.
Format: "Trace Event Format" of the Chromium project; times are microseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfxla_cluster import output_file

from .measures import Measures, of_module
from .model import Dump, Module, Record, amount, load, word
from .reading import Reader
from .scan import scan

Event = dict[str, Any]
_PHASE = "phase"
_LEFT_OUT = {"kind", "time", "thread", "pid", "folder"}
_MOST_TEXT = 500  # characters of a field
_STEPS_FROM = 1 << 22  # numbers of threads that no system gives


def write(directory: Path, output: Path) -> int:
    """The number of events. Raises InputFileError and OutputError."""
    found = scan(directory)
    dump = load(found, Reader())
    events = list(of_dump(dump))
    data = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()
    output_file.write(output, data, [f.path for f in found.everything if f.kind != "unknown"])
    return len(events)


def of_dump(dump: Dump) -> Iterator[Event]:
    """All events, in no order."""
    records = [r for r in dump.everything() if amount(r, "time")]
    start = min((_began(r) for r in records), default=0.0)
    for pid in dict.fromkeys(_pid(r) for r in records):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"process {pid}"}}
    for record in records:
        yield _event(record, start)
    for number, module in enumerate(dump.modules):
        yield from _steps(module, of_module(module), _STEPS_FROM + number, start)


def _began(record: Record) -> float:
    """Seconds since the epoch: records are written when what they tell of ends."""
    lasted = amount(record, "ms") if word(record, "kind") == _PHASE else None
    return float(amount(record, "time") or 0.0) - (lasted or 0.0) / 1e3


def _event(record: Record, start: float) -> Event:
    kind = word(record, "kind")
    name = word(record, "name", "event", "instr", "cluster", "module", "what", "node") or kind
    event = {
        "name": name if kind == _PHASE else f"{kind}: {name}",
        "cat": kind,
        "ts": round((_began(record) - start) * 1e6, 1),
        "pid": _pid(record),
        "tid": int(amount(record, "thread") or 0),
        "args": {k: _short(v) for k, v in record.items() if k not in _LEFT_OUT},
    }
    if kind == _PHASE:
        return {**event, "ph": "X", "dur": round((amount(record, "ms") or 0.0) * 1e3, 1)}
    return {**event, "ph": "i", "s": "t"}


def _pid(record: Record) -> int:
    number = word(record, "pid")
    return int(number) if number.isdigit() else 0


def _short(value: Any) -> Any:
    if value is None or (isinstance(value, (int, float)) and math.isfinite(value)):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} …"


def _steps(module: Module, found: Measures, track: int, start: float) -> Iterator[Event]:
    """One execution of the module as its steps were timed, from where its last record was written on."""
    if not found.steps:
        return
    record = module.executions[-1]
    pid, now = _pid(record), (float(amount(record, "time") or start) - start) * 1e6
    title = f"one execution of {module.title} (medians)"
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": track, "args": {"name": title}}
    for name, step in found.steps.items():
        runs = step.runs / max(found.timed, 1)
        lasts = step.each * runs * 1e3
        args = {"runs": runs, "one run (ms)": step.each, "shortest (ms)": step.least}
        span = {"ph": "X", "name": name, "cat": "step", "pid": pid, "tid": track, "args": args}
        yield {**span, "ts": round(now, 3), "dur": round(lasts, 3)}
        now += lasts
