"""Where the time of executions went: kernels of all modules by time, for the start page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .markup import Html, el, join, link, milliseconds, number, plural, size, table
from .measures import Kernel, Measures
from .model import Module

_MOST = 12
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Timed:
    """A module with its executions and kernels."""

    module: Module
    measures: Measures
    kernels: Sequence[Kernel]


def overview(timed: Sequence[Timed]) -> Html | None:
    """The modules and kernels that took longest; None where nothing was timed."""
    ran = [t for t in timed if t.measures.timed]
    if not ran:
        return None
    whole = sum(t.measures.ms * t.measures.scale for t in ran)
    executions, looked = (sum(getattr(t.measures, name) for t in ran) for name in ("executions", "timed"))
    head = (
        f"{milliseconds(whole)} in the steps of {plural(executions, 'execution')} of {plural(len(ran), 'module')}; "
        f"{looked:,} of them were timed step by step, the others are taken to be like those."
    )
    found = [(t, k) for t in ran for k in t.kernels if k.ms is not None]
    found.sort(key=lambda pair: -(pair[1].ms or 0))
    rows = [_row(t, k, whole) for t, k in found[:_MOST]]
    more = el("p", f"and {len(found) - _MOST:,} more kernels, on the pages of their modules", class_="soft")
    columns = ("Kernel", "Module", "Time", "Share", "Runs timed", "One run", "Floor", "Bytes", "Rate")
    return join([el("p", head), table(columns, rows, range(2, 9)), more if len(found) > _MOST else None])


def _row(timed: Timed, kernel: Kernel, whole: float) -> tuple[object, ...]:
    module = timed.module
    return (
        link(f"{module.page}/kernels/{kernel.symbol}", kernel.symbol),
        link(f"{module.page}/summary", module.title),
        milliseconds(kernel.ms),
        f"{100 * (kernel.ms or 0) / whole:.1f} %" if whole else "",
        number(kernel.runs),
        milliseconds(kernel.each),
        milliseconds(kernel.floor) or _UNKNOWN,
        size(kernel.bytes),
        rate(kernel),
    )


def rate(kernel: Kernel) -> str:
    """'12.3 GB/s'; '' where it is unknown."""
    return f"{kernel.rate / 1e6:.1f} GB/s" if kernel.rate else ""
