"""The page of workers: what those of a distribution strategy told each other before they compiled."""

from __future__ import annotations

from typing import Any

from .markup import plural
from .model import Dump, Record, amount, mapping, word
from .pack import Packer
from .site import Page

PAGE = "workers"
KIND = "ranks"
_COLUMNS = [("Function", "", 3), ("Worker", "", 1), ("What", "", 1), ("Of", "", 5), ("ms waited", "n", 1)]


def build(dump: Dump, packer: Packer) -> Page | None:
    """None where no worker compiled together with others."""
    records = dump.of(KIND)
    if not records:
        return None
    tasks = {word(r, "task") for r in records} | {task for r in records for task in mapping(r, "sizes")}
    page = Page(packer, PAGE, "Trace", "Workers", plural(len(tasks), "worker"))
    order = sorted(records, key=lambda r: (word(r, "family", "function"), amount(r, "time") or 0))
    page.table("together", "Compiled together", _COLUMNS, map(_row, order))
    return page


def _row(record: Record) -> tuple[Any, ...]:
    waited = amount(record, "ms")
    event, function = word(record, "event"), word(record, "family", "function").removeprefix("__inference_")
    return function, word(record, "task"), event, _of(record), "" if waited is None else round(waited, 1)


def _of(record: Record) -> str:
    """What a record tells: sizes by worker and who is missing, or whose word it was, and why."""
    sizes = [f"{task}: {_shapes(inputs)}" for task, inputs in sorted(mapping(record, "sizes").items())]
    missing = [str(reason) for _, reason in sorted(mapping(record, "missing").items())]
    by = word(record, "by")
    generic = {"True": "for all sizes", "False": "for these sizes"}.get(word(record, "generic"), "")
    return "; ".join(filter(None, [*sizes, *missing, f"by {by}" * bool(by), generic, word(record, "reason")]))


def _shapes(inputs: object) -> str:
    """'x[6, 4] w[4, 3]' of [['x', [6, 4]], ['w', [4, 3]]]."""
    pairs = inputs if isinstance(inputs, list) else []
    return " ".join(f"{pair[0]}{pair[1]}" for pair in pairs if isinstance(pair, list) and len(pair) == 2)
