"""Radix sort of a stretch of a line, for comparators that are the order of one operand: a stable counting sort
for each byte of the key, the lowest first."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import S64
from ....ir.node import Instr
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from .sort_line import Line
from .total_order import ordered, unsigned_key

MIN_LENGTH = 512  # from which counting 256 digits a byte is little work
DIGITS, BITS = 256, 8


def key_of(instr: Instr) -> tuple[int, bool] | None:
    """(operand that decides, whether greater ones come first), where the comparator is a total order."""
    comparator = instr.attrs["to_apply"]
    root = comparator.root
    if root.opcode != "compare" or root.attrs["direction"] not in ("LT", "GT"):
        return None
    if root.operands[0] not in comparator.params:
        return None
    number, side = divmod(comparator.params.index(root.operands[0]), 2)
    pair = comparator.params[2 * number : 2 * number + 2]
    dtype = instr.operands[number].shape.element_type
    if set(root.operands) != set(pair) or not ordered(dtype):
        return None
    if dtype.is_float and root.attrs["type"] != "TOTALORDER":
        return None
    return number, (root.attrs["direction"] == "GT") == (side == 0)


def sort_stretch(
    b: KernelBuilder,
    line: Line,
    key: tuple[int, bool],
    buffers: tuple[list[Buffer], list[Buffer], list[Buffer]],
    bounds: tuple[Var, Var],
) -> None:
    """Sorts [first, stop) of the sources into the results; `buffers`: sources, results, temporaries."""
    source, results, temps = buffers
    number, descending = key
    size = source[number].dtype.itemsize
    counts = b.scratch_buffer(S64, size * DIGITS)
    with b.loop(b.index(0), b.index(size * DIGITS), "vector") as slot:
        b.store(counts, slot, b.index(0))
    with b.loop(*bounds) as i:
        whole = unsigned_key(b, b.load(source[number], line.at(i)), descending)
        for place in range(size):
            _next(b, counts, _slot(b, whole, place))
    for place in range(size):
        _starts(b, counts, place, bounds[0])
        target = results if (size - place) % 2 else temps
        with b.loop(*bounds) as i:
            values = line.load(source, i)
            whole = unsigned_key(b, values[number], descending)
            line.store(target, _next(b, counts, _slot(b, whole, place)), values)
        source = target


def _next(b: KernelBuilder, counts: Buffer, slot: Var) -> Var:
    """A counter's value, which then is one more."""
    value = b.load(counts, slot)
    b.store(counts, slot, b.add(value, b.index(1)))
    return value


def _slot(b: KernelBuilder, key: Var, place: int) -> Var:
    """The counter of byte `place` of the key."""
    byte = b.op("shift-right-logical", key, b.const(place * BITS, key.dtype)) if place else key
    if key.dtype.bits > BITS:
        byte = b.op("and", byte, b.const(DIGITS - 1, key.dtype))
    return b.add(b.index(place * DIGITS), b.op("convert", byte, dtype=S64))


def _starts(b: KernelBuilder, counts: Buffer, place: int, first: Var) -> None:
    """The counts of a byte's digits become the places where the first of each goes."""

    def step(digit: Var, total: Var) -> Sequence[Var]:
        at = b.add(b.index(place * DIGITS), digit)
        count = b.load(counts, at)
        b.store(counts, at, total)
        return (b.add(total, count),)

    b.fold(b.index(0), b.index(DIGITS), (first,), step)
