"""Tables for terminals."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_WIDEST = 60


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Columns as wide as what is in them, the numbered ones at the right; long cells are cut but for the last."""
    shown = [tuple(c if n == len(columns) - 1 else _cut(c) for n, c in enumerate(row)) for row in rows]
    widths = [max(len(row[n]) for row in (columns, *shown)) for n in range(len(columns))]
    lines = []
    for row in (columns, *shown):
        cells = [c.rjust(w) if n in right else c.ljust(w) for n, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
