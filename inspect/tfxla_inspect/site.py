"""The pages of a report: what assets/app.js lists and opens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from .markup import Html
from .pack import Packer

_LONGEST_LINE = 20_000
UNKNOWN = "unknown: stock XLA's dumps do not hold it"

# Kinds of table columns: text, number, bytes.
Column = tuple[str, str, int]


class Page:
    """One page under construction: `tabs` are added in the order they show; a tab without data is a note."""

    def __init__(self, packer: Packer, page: str, group: str, title: str, note: str = "") -> None:
        self.packer, self.page, self.group, self.title, self.note = packer, page, group, title, note
        self.tabs: list[dict[str, Any]] = []

    def html(self, tab: str, title: str, content: Html) -> None:
        self._add(tab, title, "html", self.packer.text(content, self._what(title)))

    def table(
        self, tab: str, title: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]], group: int | None = None
    ) -> None:
        """A table; `columns` are (title, kind '', 'n' or 'b', relative width); `group`: the column by which rows are
        grouped and folded."""
        data = table_data(columns, rows) | ({} if group is None else {"group": group})
        self._add(tab, title, "table", self.packer.json(data, self._what(title)), n=len(data["rows"]))

    def text(self, tab: str, title: str, content: str, language: str) -> None:
        self._add(tab, title, "text", self.packer.text(cut_lines(content), self._what(title)), lang=language)

    def data(self, tab: str, title: str, kind: str, value: Any, **more: Any) -> None:
        """A tab that a script of its own draws ('graph', 'kernels')."""
        self._add(tab, title, kind, self.packer.json(value, self._what(title)), **more)

    def missing(self, tab: str, title: str, message: str) -> None:
        """A tab that says why it is empty."""
        self.tabs.append({"id": tab, "t": title, "k": "note", "m": message})

    def _add(self, tab: str, title: str, kind: str, key: str, **more: Any) -> None:
        if key:
            self.tabs.append({"id": tab, "t": title, "k": kind, "b": key, **more})
        else:
            self.missing(
                tab,
                title,
                "Left out: with it the report would pass its size limit (--max-mb). The dump directory has it.",
            )

    def _what(self, title: str) -> str:
        return f"{self.title}: {title}"

    def site(self) -> dict[str, Any]:
        """What the page's script is told, as JSON data."""
        return {"id": self.page, "group": self.group, "title": self.title, "note": self.note, "tabs": self.tabs}


def table_data(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """What assets/table.js shows."""
    return {"cols": [{"t": t, "k": k, "w": w} for t, k, w in columns], "rows": [list(row) for row in rows]}


def route(page: str, tab: str, item: str, text: str | None = None) -> dict[str, str]:
    """A table cell that is a link."""
    return {"t": item if text is None else text, "h": f"{page}/{tab}/{quote(item, safe='')}"}


def cut_lines(text: str) -> str:
    """The text with overlong lines (literals in full) cut, and said so there."""
    if len(text) < _LONGEST_LINE:
        return text
    return "\n".join(
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_LONGEST_LINE]} … ({len(line) - _LONGEST_LINE:,} more characters in the file)"
        for line in text.split("\n")
    )
