"""Scans of lines that lie beside each other in memory, on a GPU: a lane is a line, and goes along it.

Several elements of a line are read before the first is used, so that as much is on its way as the memory takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .....ir.dim import Dim, make, sample
from .....ir.dtype import PRED
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Kernel, Var
from ...unit import UnitKernel, UnitRef
from ..grid import Blocks
from .scan_lines import Body, Lines, after, select, total_place
from .shapes import MULTIPLE, PROGRAM_COUNTS, PROGRAMS, lanes

LEAST = 32  # lines beside each other from which they are lanes
COLUMNS, WIDTHS = 128, (64, 256, 512)  # lines of a program
TOGETHER = 8  # elements of a line that are read at once
LANES_OF_A_WARP = 128


@dataclass(frozen=True, slots=True)
class Columns:
    """`columns` lines of a program; some `programs` for all where lines are cut."""

    columns: int = COLUMNS
    programs: int = PROGRAMS

    def blocks(self, lines: Lines) -> Blocks:
        return Blocks(lines.inner, lanes(lines.inner, self.columns))

    def count(self, lines: Lines) -> Dim:
        """Programs of whole lines."""
        return make("mul", lines.outer, self.blocks(lines).count)

    def parts(self, lines: Lines) -> Blocks:
        """A line in parts, of whole runs of elements that are read at once."""
        wanted = max(1, self.programs // max(1, sample(self.count(lines))))
        size = -(-max(sample(lines.length), 1) // (wanted * TOGETHER)) * TOGETHER
        return Blocks(lines.length, size)


def chosen_columns(knobs: Knobs) -> Columns:
    """Knobs: 'columns', 'programs'."""
    return Columns(knobs.take("columns", COLUMNS, WIDTHS), knobs.take("programs", PROGRAMS, PROGRAM_COUNTS))


def column_whole(lines: Lines, form: Columns, name: str) -> UnitKernel:
    """A program does its lines from end to end."""
    b = KernelBuilder(name, MULTIPLE)
    body = lines.open(b, True)
    with _columns(b, lines, form, b.task) as line:
        first = body.first()
        _along(
            b, lines, body, line, (b.index(0), b.size(lines.length)), (b.const(first is not None, PRED), first), True
        )
    return UnitKernel(_finish(b, lines, form, form.count(lines), lines.length), lines.inputs, lines.outputs)


def column_parts(lines: Lines, form: Columns, name: str, totals: Sequence[UnitRef]) -> UnitKernel:
    """The total of each part of each line."""
    b, parts = KernelBuilder(name, MULTIPLE), form.parts(lines)
    body = lines.open(b, False)
    buffers = [b.output(d) for d in lines.dtypes]
    number, program = b.remainder(b.task, b.size(parts.count)), b.quotient(b.task, b.size(parts.count))
    with _columns(b, lines, form, program) as (outer, inner):
        found = _along(b, lines, body, (outer, inner), parts.bounds(b, number), (b.const(False, PRED), None), False)
        place = total_place(b, lines, parts.count, (outer, number, inner))
        for buffer, value in zip(buffers, found):
            b.store(buffer, place, value)
    tasks = make("mul", form.count(lines), parts.count)
    return UnitKernel(_finish(b, lines, form, tasks, parts.size), lines.inputs, tuple(totals))


def column_rest(lines: Lines, form: Columns, name: str, before: Sequence[UnitRef]) -> UnitKernel:
    """The running values of each part, from the scanned totals of the parts before it."""
    b, parts = KernelBuilder(name, MULTIPLE), form.parts(lines)
    body = lines.open(b, True)
    sums = [b.input(d) for d in lines.dtypes]
    number, program = b.remainder(b.task, b.size(parts.count)), b.quotient(b.task, b.size(parts.count))
    with _columns(b, lines, form, program) as (outer, inner):
        has, first = b.compare(number, b.index(0), "GT"), body.first()
        earlier = total_place(b, lines, parts.count, (outer, b.op("subtract", number, b.index(1)), inner))
        start: Sequence[Var] = [b.load(s, earlier, has) for s in sums]
        if first is not None:
            start = select(b, has, after(b, lines, first, start), first)
        known = b.op("or", has, b.const(first is not None, PRED))
        _along(b, lines, body, (outer, inner), parts.bounds(b, number), (known, start), True)
    tasks = make("mul", form.count(lines), parts.count)
    return UnitKernel(_finish(b, lines, form, tasks, parts.size), (*lines.inputs, *before), lines.outputs)


@contextmanager
def _columns(b: KernelBuilder, lines: Lines, form: Columns, program: Var) -> Iterator[tuple[Var, Var]]:
    """Outer and inner index of the lines of a program, the latter in lanes."""
    blocks = form.blocks(lines)
    outer, block = b.quotient(program, b.size(blocks.count)), b.remainder(program, b.size(blocks.count))
    with b.tile(*blocks.bounds(b, block), blocks.size) as inner:
        yield outer, inner


def _along(
    b: KernelBuilder,
    lines: Lines,
    body: Body,
    line: tuple[Var, Var],
    span: tuple[Var, Var],
    start: tuple[Var, Sequence[Var] | None],
    writes: bool,
) -> Sequence[Var]:
    """The value of the elements in `span` after `start` (whether there is one, and which); `writes`: all running values
    too."""
    (outer, inner), (begin, stop), (known, first) = line, span, start

    def step(turn: Var, *running: Var) -> Sequence[Var]:
        at = [b.add(b.add(begin, b.mul(turn, b.index(TOGETHER))), b.index(n)) for n in range(TOGETHER)]
        there = [b.compare(place, stop, "LT") for place in at]
        loaded = [body.load((outer, place, inner), mask) for place, mask in zip(at, there)]
        now: Sequence[Var] = running
        for place, mask, values in zip(at, there, loaded):
            begun = b.op("or", known, b.compare(place, begin, "GT"))
            joined = select(b, begun, lines.combine(b, now, values), values)
            if writes:
                body.store((outer, place, inner), joined, mask)
            now = select(b, mask, joined, now)
        return now

    count = b.add(b.op("subtract", stop, begin), b.index(TOGETHER - 1))
    zeros = [b.const(0, d) for d in lines.dtypes]
    return b.fold(b.index(0), b.quotient(count, b.index(TOGETHER)), first or zeros, step)


def _finish(b: KernelBuilder, lines: Lines, form: Columns, tasks: Dim, length: Dim) -> Kernel:
    width = form.blocks(lines).size
    return b.finish(tasks, make("mul", length, 4 * width), max(1, width // LANES_OF_A_WARP))
