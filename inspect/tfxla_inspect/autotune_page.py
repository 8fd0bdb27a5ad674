"""The page of tuning: which kernels were tuned, what won, and of every candidate its time or why it fell out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .markup import plural
from .model import Dump, Record, amount, mapping, word
from .pack import Packer
from .reading import rows
from .site import Page

PAGE, KIND = "autotune", "autotune"
_KERNELS = [
    ("Instruction", "", 3),
    ("What", "", 1),
    ("Device", "", 2),
    ("Chosen", "", 3),
    ("ms", "n", 1),
    ("Default ms", "n", 1),
    ("Times faster", "n", 1),
    ("Candidates", "n", 1),
    ("Fell out", "n", 1),
    ("Seconds", "n", 1),
    ("Reason", "", 4),
]
_CANDIDATES = [("Instruction", "", 3), ("Candidate", "", 4), ("ms", "n", 1), ("Rejected", "", 2), ("Why", "", 5)]


def build(dump: Dump, packer: Packer) -> Page | None:
    """None where the trace has no record of tuning."""
    records = sorted(dump.of(KIND), key=lambda r: amount(r, "time") or 0)
    if not records:
        return None
    tuned = sum(word(r, "event") == "tuned" for r in records)
    page = Page(packer, PAGE, "Trace", "Tuning", f"{plural(tuned, 'kernel')} tuned")
    page.table("kernels", "Kernels", _KERNELS, map(_row, records))
    candidates = [cells for record in records for cells in _candidates(record)]
    if candidates:
        page.table("candidates", "Candidates", _CANDIDATES, candidates, group=0)
    else:
        page.missing("candidates", "Candidates", "Nothing was measured: results were read, or tuning was off.")
    return page


def _row(record: Record) -> tuple[Any, ...]:
    ms, default = amount(record, "ms"), amount(record, "default_ms")
    tried = rows(_listed(record))
    return (
        word(record, "instr"),
        word(record, "event"),
        word(record, "device"),
        _form(record),
        _rounded(ms, 5),
        _rounded(default, 5),
        _rounded(default / ms, 2) if ms and default is not None else "",
        len(tried) or "",
        sum(bool(word(c, "failure")) for c in tried) or "",
        _rounded(amount(record, "seconds"), 2),
        word(record, "reason"),
    )


def _candidates(record: Record) -> Iterator[tuple[Any, ...]]:
    """Those that were measured, the fastest first, then those that fell out."""
    name = word(record, "instr") or word(record, "fusion")
    found = rows(_listed(record))
    for one in sorted(found, key=lambda c: (bool(word(c, "failure")), amount(c, "ms") or 0)):
        yield name, _form(one), _rounded(amount(one, "ms"), 5), word(one, "failure"), word(one, "message")


def _listed(record: Record) -> list[Any]:
    value = record.get("candidates")
    return value if isinstance(value, list) else []


def _form(record: Record) -> str:
    choice = mapping(record, "choice")
    return ", ".join(f"{knob} {value}" for knob, value in choice.items()) or (
        "the default" if "choice" in record else ""
    )


def _rounded(value: float | None, digits: int) -> float | str:
    return "" if value is None else round(value, digits)
