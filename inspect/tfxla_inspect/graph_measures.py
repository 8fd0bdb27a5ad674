"""What the nodes of an HLO graph can be coloured by: time, bytes, distance from the floor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .measures import Kernel, Measures
from .parsers.hlo import Block, Hlo
from .parsers.shapes import byte_size

# Instructions of a step that move nothing themselves.
_FREE = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all")
)


def columns(hlo: Hlo, measures: Measures, kernels: Sequence[Kernel]) -> list[dict[str, Any]]:
    """A column a measure, values in the order of `hlo`'s instructions, None where one has none; those without any
    value are left out."""
    excess = {step: k.excess for k in kernels for step in k.homes}
    stepped = {block.name for block in hlo.stepped()}
    names = [row.name if block.name in stepped else "" for block in hlo.blocks for row in block.rows]
    timed = max(measures.timed, 1)
    found = (
        _column(
            "time",
            "ms",
            "sum",
            f"Milliseconds of an execution, the mean of {measures.timed:,} that were timed.",
            [measures.steps[n].ms / timed if n in measures.steps else None for n in names],
        ),
        _column(
            "bytes",
            "bytes",
            "sum",
            "Bytes that one run reads and writes: each operand and result once, by their shapes.",
            [bytes_ if block.name in stepped else None for block in hlo.blocks for bytes_ in _moved(block)],
        ),
        _column(
            "distance from the floor", "x", "max", "Times its floor that a run takes.", [excess.get(n) for n in names]
        ),
    )
    return [column for column in found if any(v is not None for v in column["v"])]


def _column(title: str, unit: str, how: str, note: str, values: list[Any]) -> dict[str, Any]:
    shown = [None if v is None else float(f"{v:.4g}") for v in values]
    return {"t": title, "unit": unit, "how": how, "note": note, "v": shown}


def _moved(block: Block) -> Iterator[int | None]:
    sizes = {row.name: byte_size(row.shape) for row in block.rows}
    for row in block.rows:
        operands = sum(sizes.get(name, 0) for name in dict.fromkeys(row.operands))
        yield None if row.opcode in _FREE else sizes[row.name] + operands
