"""HTML from Python values: everything is escaped, nothing else is trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def el(tag: str, *children: object, **attributes: object) -> Html:
    """An element; `class_` for class. Children that are no Html are escaped; None is dropped."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{written}>{join(children)}</{tag}>")


def join(parts: Iterable[object]) -> Html:
    """The parts one after the other: Html as it is, all else escaped, None left out."""
    return Html(
        "".join(part if isinstance(part, Html) else escape(clean(str(part))) for part in parts if part is not None)
    )


def clean(text: str) -> str:
    """Without control characters, which would make odd glyphs or invalid SVG."""
    return "".join(c if c >= " " or c in "\n\t" else "\ufffd" for c in text)


def link(page: str, text: object) -> Html:
    """A link within the report; `page` is a route such as 'm3/graph'."""
    return el("a", text, href=f"#{page}")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], numeric: Iterable[int] = ()) -> Html:
    """A small table; columns in `numeric` are set right."""
    right = set(numeric)
    cells = [[el("td", cell, class_="num" if n in right else None) for n, cell in enumerate(row)] for row in rows]
    return el(
        "table",
        el("thead", el("tr", *(el("th", h, class_="num" if n in right else None) for n, h in enumerate(head)))),
        el("tbody", *(el("tr", *row) for row in cells)),
    )


def number(value: object) -> str:
    """1234567 as '1,234,567'; '' where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def plural(count: int, noun: str) -> str:
    """'1 kernel', '2 kernels'."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size(value: object) -> str:
    """Bytes for people: '1.2 MB'."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    amount = float(value)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def milliseconds(value: object) -> str:
    """Milliseconds for people: '1.25 s', '3.4 ms', '12.0 us'; '' where there are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value * 1000:.1f} us" if 0 < value < 0.1 else f"{value:.1f} ms"
