"""Which operands of attention lie in memory as a matrix whose blocks the machine's copy unit reads."""

from __future__ import annotations

from dataclasses import dataclass

from .....fusion.index import Access, Computed, Digit, Seq, Splitter, flatten
from .....fusion.moves import sources
from .....ir.dim import product
from .capability import DESCRIPTOR_UNIT

_MOVES = ("broadcast", "reshape", "bitcast", "transpose", "copy")


@dataclass(frozen=True)
class Place:
    """`access`: the element of a parameter. `stride`: elements from a row to the next; `columns` lie side by side."""

    access: Access
    stride: int
    columns: int


def matrix_of(operand: Access, rows: Seq, columns: Seq) -> Place | None:
    """Where an operand of `rows` and `columns`, one digit each, is rows of a parameter a whole number of units apart;
    None where it is not."""
    while operand.instr.opcode in _MOVES and not operand.mask:
        (operand,) = sources(operand, Splitter())
    if operand.instr.opcode != "parameter" or operand.mask or (len(rows), len(columns)) != (1, 1):
        return None
    (row,), (column,) = rows, columns
    seq = flatten(operand.index)
    outer = [a for a in seq if a not in (row, column)]
    if seq[-1:] != (column,) or seq.count(row) != 1 or not all(_is_outside(a, row, column) for a in outer):
        return None
    width = column.extent
    stride = product(a.extent for a in seq[seq.index(row) + 1 :])
    if not isinstance(width, int) or not isinstance(stride, int):
        return None
    return (
        Place(operand, stride, width)
        if width * operand.instr.shape.element_type.itemsize % DESCRIPTOR_UNIT == 0
        else None
    )


def _is_outside(atom: object, row: object, column: object) -> bool:
    """Whether a number of the index is the same for all of a block."""
    if isinstance(atom, Digit):
        return True
    return isinstance(atom, Computed) and all(a not in (row, column) and _is_outside(a, row, column) for a in atom.seq)
