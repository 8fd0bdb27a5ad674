"""Scans of lines on a GPU: a line's running values, a program some lines.

Where many lines lie beside each other, each is a lane (`scan_columns`). Else a line that one block holds is scanned at
once, and a longer one goes in blocks, the running values carried from one to the next. Where too few programs would
fill the machine, lines are scanned in three kernels: totals of parts, their scan, and the scan of each part from what
stands before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from .....ir.dim import Dim, make, sample
from .....ir.dtype import PRED
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from . import scan_columns
from .scan_columns import Columns, chosen_columns, column_parts, column_rest, column_whole
from .scan_lines import Body, Lines, Totals, after, select, total_place
from .shapes import MULTIPLE, PROGRAMS, fits, lanes

BLOCK, BLOCKS = 2048, (1024, 2048, 4096, 8192)  # elements held at once; half of that where there are many lines
MIDDLE = 8192  # of totals
COLUMNS = 32  # lines of a block, where a few lie beside each other in memory


@dataclass(frozen=True, slots=True)
class _Shape:
    """`lines` of a program (1: no axis for them), `width` elements of each at once."""

    lines: int
    width: int
    resident: bool
    along_inner: bool

    def blocks(self, lines: Lines) -> Blocks:
        return Blocks(lines.inner if self.along_inner else make("mul", lines.outer, lines.inner), self.lines)

    def programs(self, lines: Lines) -> Dim:
        count = self.blocks(lines).count
        return make("mul", lines.outer, count) if self.along_inner else count


@dataclass(frozen=True, slots=True)
class Form:
    """`block`: elements of a line held at once; `columns`: how lines that lie beside each other are scanned."""

    block: int = BLOCK
    columns: Columns = field(default_factory=Columns)


def chosen_form(lines: Lines, knobs: Knobs) -> Form:
    """Knobs: 'block', or those of `chosen_columns`."""
    if _beside(lines):
        return Form(columns=chosen_columns(knobs))
    many = 4 * sample(make("mul", lines.outer, lines.inner)) >= PROGRAMS
    return Form(knobs.take("block", BLOCK // 2 if many else BLOCK, BLOCKS))


def _beside(lines: Lines) -> bool:
    """Whether each line is a lane."""
    return sample(lines.inner) >= scan_columns.LEAST


def _shape(lines: Lines, block: int) -> _Shape:
    if sample(lines.inner) > 1:
        columns = lanes(lines.inner, COLUMNS)
        width = lanes(lines.length, max(1, block // columns))
        return _Shape(columns, width, fits(lines.length, width), True)
    width = lanes(lines.length, block)
    resident = fits(lines.length, width)
    return _Shape(lanes(lines.outer, max(block // width, 1)) if resident else 1, width, resident, False)


def scan_unit(lines: Lines, name: str, first_temp: int = 0, form: Form | None = None) -> Unit:
    """Running values of each line. Its temporaries are numbered from `first_temp` on."""
    form = form or Form()
    if _beside(lines):
        columns = form.columns
        parts, programs = columns.parts(lines), columns.count(lines)
        if _few(parts.count, programs):
            make_parts, make_rest = partial(column_parts, lines, columns), partial(column_rest, lines, columns)
            return _in_three(lines, name, first_temp, parts.count, (make_parts, make_rest))
        return Unit((column_whole(lines, columns, name),))
    shape = _shape(lines, form.block)
    parts = Blocks(lines.length, shape.width)
    if not shape.resident and _few(parts.count, shape.programs(lines)):
        return _in_three(
            lines, name, first_temp, parts.count, (partial(_parts, lines, shape), partial(_rest, lines, shape))
        )
    return Unit((_whole(lines, shape, name),))


def _few(parts: Dim, programs: Dim) -> bool:
    """Whether a program a line would leave most of the machine idle, and lines have several parts."""
    return 4 * sample(programs) < PROGRAMS and sample(parts) >= 2


def _in_three(
    lines: Lines,
    name: str,
    first_temp: int,
    parts: Dim,
    kernels: tuple[Callable[..., UnitKernel], Callable[..., UnitKernel]],
) -> Unit:
    """Totals of parts, their scan, and the parts again: `kernels` makes the first and the last, by name and
    temporaries."""
    count = len(lines.dtypes)
    temps = tuple(UnitRef("temp", first_temp + n) for n in range(2 * count))
    totals, before = temps[:count], temps[count:]
    middle = Totals(lines, parts, totals, before)
    steps = (
        kernels[0](f"{name}.parts", totals),
        _whole(middle, _shape(middle, MIDDLE), f"{name}.total"),
        kernels[1](f"{name}.rest", before),
    )
    held = make("mul", make("mul", lines.outer, lines.inner), parts)
    return Unit(steps, tuple(make("mul", held, d.itemsize) for d in (*lines.dtypes, *lines.dtypes)))


@contextmanager
def _program(b: KernelBuilder, lines: Lines, shape: _Shape, program: Var) -> Iterator[tuple[Var, Var]]:
    """Outer and inner index of the lines of a program."""
    blocks = shape.blocks(lines)
    if shape.along_inner:
        outer, block = b.quotient(program, b.size(blocks.count)), b.remainder(program, b.size(blocks.count))
        with b.tile(*blocks.bounds(b, block), shape.lines) as i:
            yield outer, i
    elif shape.lines > 1:
        with b.tile(*blocks.bounds(b, program), shape.lines) as i:
            yield _split(b, i, lines.inner)
    else:
        yield _split(b, program, lines.inner)


def _split(b: KernelBuilder, line: Var, inner: Dim) -> tuple[Var, Var]:
    if inner == 1:
        return line, b.index(0)
    return b.quotient(line, b.size(inner)), b.remainder(line, b.size(inner))


def _whole(lines: Lines, shape: _Shape, name: str) -> UnitKernel:
    """A program does its lines from end to end."""
    b = KernelBuilder(name, MULTIPLE)
    body = lines.open(b, True)
    with _program(b, lines, shape, b.task) as (outer, inner):
        if shape.resident:
            with b.tile(b.index(0), b.size(lines.length), shape.width) as at:
                place = outer, at, inner
                values = _scan(b, lines, at, body.load(place, None))
                body.store(place, after(b, lines, body.first(), values), None)
        else:
            _in_blocks(b, body, lines, shape.width, (outer, inner))
    cost = make("mul", lines.length, 4 * shape.lines)
    return UnitKernel(b.finish(shape.programs(lines), cost), lines.inputs, lines.outputs)


def _in_blocks(b: KernelBuilder, body: Body, lines: Lines, width: int, line: tuple[Var, Var]) -> None:
    outer, inner = line
    first = body.first()
    known = b.const(first is not None, PRED)
    start = first or [b.const(0, d) for d in lines.dtypes]
    blocks = Blocks(lines.length, width)
    with b.tile(b.index(0), b.index(width), width) as lane:

        def block(number: Var, known: Var, *running: Var) -> Sequence[Var]:
            at = b.add(b.mul(number, b.index(width)), lane)
            mask = b.compare(at, b.size(lines.length), "LT")
            values = _scan(b, lines, lane, body.load((outer, at, inner), mask))
            values = select(b, known, lines.combine(b, running, values), values)
            body.store((outer, at, inner), values, mask)
            return (b.const(True, PRED), *_last(b, lane, width, values))

        b.fold(b.index(0), b.size(blocks.count), (known, *start), block)


def _parts(lines: Lines, shape: _Shape, name: str, totals: Sequence[UnitRef]) -> UnitKernel:
    """The total of each block of each line."""
    b = KernelBuilder(name, MULTIPLE)
    body = lines.open(b, False)
    buffers = [b.output(d) for d in lines.dtypes]
    parts, programs = Blocks(lines.length, shape.width), shape.programs(lines)
    number, program = b.remainder(b.task, b.size(parts.count)), b.quotient(b.task, b.size(parts.count))
    span = parts.bounds(b, number)
    with _program(b, lines, shape, program) as (outer, inner):
        place = total_place(b, lines, parts.count, (outer, number, inner))
        if lines.neutral is not None:
            start = [b.const(value, d) for value, d in zip(lines.neutral, lines.dtypes)]
            found = b.reduce(
                *span,
                start,
                lines.neutral,
                lambda at: body.load((outer, at, inner), None),
                _combine(b, lines),
                width=shape.width,
            )
            for buffer, value in zip(buffers, found):
                b.store(buffer, place, value)
        else:
            with b.tile(*span, shape.width) as at:
                last = b.compare(at, b.op("subtract", span[1], b.index(1)), "EQ")
                for buffer, value in zip(buffers, _scan(b, lines, at, body.load((outer, at, inner), None))):
                    b.store(buffer, place, value, last)
    kernel = b.finish(make("mul", programs, parts.count), 4 * shape.lines * shape.width)
    return UnitKernel(kernel, lines.inputs, tuple(totals))


def _rest(lines: Lines, shape: _Shape, name: str, before: Sequence[UnitRef]) -> UnitKernel:
    """The running values of each block, from the scanned totals of the blocks before it. The last blocks, which the
    caches still have of making the totals, come first."""
    b = KernelBuilder(name, MULTIPLE)
    body = lines.open(b, True)
    sums = [b.input(d) for d in lines.dtypes]
    parts, programs = Blocks(lines.length, shape.width), shape.programs(lines)
    task = b.op("subtract", b.size(make("add", make("mul", programs, parts.count), -1)), b.task)
    number, program = b.remainder(task, b.size(parts.count)), b.quotient(task, b.size(parts.count))
    with _program(b, lines, shape, program) as (outer, inner), b.tile(*parts.bounds(b, number), shape.width) as at:
        place = outer, at, inner
        values = _scan(b, lines, at, body.load(place, None))
        has, first = b.compare(number, b.index(0), "GT"), body.first()
        earlier = total_place(b, lines, parts.count, (outer, b.op("subtract", number, b.index(1)), inner))
        carried = after(b, lines, first, [b.load(s, earlier, has) for s in sums])
        body.store(place, select(b, has, lines.combine(b, carried, values), after(b, lines, first, values)), None)
    kernel = b.finish(make("mul", programs, parts.count), 4 * shape.lines * shape.width)
    return UnitKernel(kernel, (*lines.inputs, *before), lines.outputs)


def _scan(b: KernelBuilder, lines: Lines, lane: Var, values: Sequence[Var]) -> Sequence[Var]:
    return b.scan(lane, values, _combine(b, lines))


def _combine(b: KernelBuilder, lines: Lines) -> Callable[..., Sequence[Var]]:
    count = len(lines.dtypes)
    return lambda *both: lines.combine(b, both[:count], both[count:])


def _last(b: KernelBuilder, lane: Var, width: int, values: Sequence[Var]) -> Sequence[Var]:
    """The values of the last lane, in all lanes."""

    def pick(has: Var, *rest: Var) -> Sequence[Var]:
        kept, taken, new = rest[: len(values)], rest[len(values)], rest[len(values) + 1 :]
        return (b.op("or", has, taken), *select(b, taken, new, kept))

    none = [b.const(False, PRED), *(b.const(0, v.dtype) for v in values)]
    identity = (False, *(0 for _ in values))
    is_last = b.compare(lane, b.index(width - 1), "EQ")
    return b.across(lane, (is_last, *values), none, identity, pick)[1:]
