"""Fusion decisions of a module by the kernel that its instructions became, with the bytes that joining them saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .measures import Kernel
from .model import Record, word
from .parsers.hlo import Hlo
from .parsers.shapes import byte_size

Cells = tuple[str, str, str, str, int | str, str, str]


def homes(hlo: Hlo) -> dict[str, str]:
    """Instruction -> the step that computes it: the fusion whose body it stands in, or itself."""
    bodies = {block.name: block for block in hlo.blocks}
    found: dict[str, str] = {}
    for block in hlo.stepped():
        for row in block.rows:
            body = bodies.get(row.called[0]) if row.opcode == "fusion" and row.called else None
            found.update((r.name, row.name) for r in (body.rows if body else ()) if r.opcode != "parameter")
            found.setdefault(row.name, row.name)
    return found


def decided(hlo: Hlo, kernels: Sequence[Kernel], decisions: Sequence[Record]) -> Iterator[Cells]:
    """(kernel, producer, consumer, fused, bytes saved, rule, reason) by kernel, the one that saves most first. Saved is
    the producer's value, not written and not read again, where it stays in a kernel."""
    symbols = {step: k.symbol for k in kernels for step in k.homes}
    home = homes(hlo)
    sizes = {row.name: byte_size(row.shape) for block in hlo.blocks for row in block.rows}
    groups: dict[str, list[Cells]] = {}
    for record in decisions:
        a, b = word(record, "a", "producer"), word(record, "b", "consumer")
        step = home.get(b) or home.get(a, "")
        ok = bool(record.get("ok"))
        saved = 2 * sizes[a] if ok and a in sizes and home.get(a) == home.get(b) else ""
        group = symbols.get(step, step) or "not in the module any more"
        cells = (group, a, b, "yes" if ok else "no", saved, word(record, "rule"), word(record, "reason"))
        groups.setdefault(group, []).append(cells)
    for _, rows in sorted(groups.items(), key=lambda item: -sum(r[4] for r in item[1] if isinstance(r[4], int))):
        yield from rows
