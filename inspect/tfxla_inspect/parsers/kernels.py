"""Kernel texts: ours hold all kernels of a module between marker lines, stock XLA's one a file."""

from __future__ import annotations

import re
from collections.abc import Iterable

# dump.schema.MARKER after a comment sign.
_MARKER = re.compile(r"^(?:;|#|//) ==== (kernel )?(.+) ====$", re.MULTILINE)


def split(text: str) -> list[tuple[str, str]]:
    """(symbol, text) of each kernel's part after its marker line; ('', text) where there is none."""
    found = list(_MARKER.finditer(text))
    if not found:
        return [("", text)] if text.strip() else []
    ends = [m.start() for m in found[1:]] + [len(text)]
    return [(m[2], text[m.end() : end].strip("\n")) for m, end in zip(found, ends) if m[1]]


def join(parts: Iterable[tuple[str, str]]) -> tuple[str, dict[str, tuple[int, int]]]:
    """One text of all parts and each symbol's (first line, number of lines) in it."""
    lines: list[str] = []
    where: dict[str, tuple[int, int]] = {}
    for symbol, body in parts:
        part = body.split("\n")
        where[symbol] = (len(lines), len(part))
        lines.extend(part)
    return "\n".join(lines), where


_STOCK_PREFIX = re.compile(r"^__compute_module_|_kernel_module$")


def stock_symbol(name: str) -> str:
    """The instruction a stock kernel file belongs to: `foo_kernel_module`, `__compute_module_foo`."""
    return _STOCK_PREFIX.sub("", name)
