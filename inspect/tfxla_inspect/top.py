"""`tfxla-inspect top`: the kernels of a dump by time, or by distance from their floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster.errors import InputFileError

from . import measures
from .measures import Kernel
from .model import Module, load, where, words
from .reading import Reader, rows
from .scan import scan
from .table_text import table

Say = Callable[[str], None]
TIME, FLOOR = "time", "floor"
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of a module. `line`: the user's, '' unknown."""

    module: Module
    kernel: Kernel
    line: str


def run(path: Path, which: str, by: str, most: int, say: Say) -> int:
    """0, or InputFileError where there is no dump or nothing in it was timed."""
    dump = load(scan(path), Reader())
    modules = [m for m in dump.modules if not which or which in (str(m.files.id), m.files.name)]
    found = [row for module in modules for row in _rows(module)]
    timed = [row for row in found if row.kernel.ms is not None]
    if not timed:
        known = f"{len(found)} kernels are listed" if found else "no kernels are listed"
        problem = f"{path}: no kernel was timed ({known})"
        raise InputFileError(problem, "Programs that dump (--xla_dump_to) time their first executions")
    order: dict[str, Callable[[Row], float]] = {TIME: _time, FLOOR: _beyond}
    timed.sort(key=order[by], reverse=True)
    whole = sum(map(_time, timed))
    say(table(_COLUMNS, [_cells(row, whole) for row in timed[:most]], right=range(1, 8)))
    if len(timed) > most:
        say(f"and {len(timed) - most} more (-n)")
    return 0


_COLUMNS = ("kernel", "ms", "share", "runs", "ms a run", "floor", "x floor", "MB", "module", "line")


def _time(row: Row) -> float:
    return row.kernel.ms or 0.0


def _beyond(row: Row) -> float:
    """Milliseconds beyond the floor in all executions; those without a floor come last."""
    excess = row.kernel.excess
    return -1.0 if excess is None else _time(row) * (1 - 1 / excess) if excess > 0 else 0.0


def _rows(module: Module) -> Iterator[Row]:
    reader = Reader()
    plan = reader.json(module.files.one("plan"), dict)
    launches = measures.launches(plan.get("steps"))
    records = rows(reader.json(module.files.one("kernels"), list))
    for kernel in measures.kernels(records, launches, measures.of_module(module)):
        lines = (where(module.sources, node) for node in words(kernel.record, "sources"))
        yield Row(module, kernel, next(filter(None, lines), ""))


def _cells(row: Row, whole: float) -> tuple[str, ...]:
    kernel = row.kernel
    return (
        kernel.symbol,
        f"{_time(row):.3f}",
        f"{100 * _time(row) / whole:.1f} %" if whole else _UNKNOWN,
        f"{kernel.runs:,}",
        _number(kernel.each),
        _number(kernel.floor),
        _number(kernel.excess, 1),
        _UNKNOWN if kernel.bytes is None else f"{kernel.bytes / 1e6:.2f}",
        row.module.title,
        row.line,
    )


def _number(value: float | None, digits: int = 4) -> str:
    return _UNKNOWN if value is None else f"{value:.{digits}f}"
