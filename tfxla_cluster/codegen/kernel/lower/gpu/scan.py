"""Scans of lines on a GPU: a line's running values, a program some lines.

A line that one block holds is scanned at once. A longer one goes in blocks, the running values carried from one
to the next; where too few programs would fill the machine, in three kernels: totals of the blocks, their scan, and
the scan of each block from what stands before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from .....ir.dim import Dim, make, sample
from .....ir.dtype import PRED, DType
from ...builder import KernelBuilder
from ...ir import Buffer, Kernel, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from .shapes import MULTIPLE, PROGRAMS, fits, lanes

BLOCK = 2048  # elements of a line held at once
SEVERAL = 2048  # elements of a block of several lines
COLUMNS = 32  # lines of a block, where lines lie beside each other in memory

Place = tuple[Var, Var, Var]  # outer index, position along the line, inner index


class Body(Protocol):
    """The elements of lines, in one kernel. `mask`: where there is an element (None: everywhere)."""

    def load(self, place: Place, mask: Var | None) -> Sequence[Var]: ...

    def store(self, place: Place, values: Sequence[Var], mask: Var | None) -> None: ...

    def first(self) -> Sequence[Var] | None:
        """What stands before each line, if anything does."""


class Lines(Protocol):
    """What is scanned: `outer * inner` lines of `length` elements, `inner` apart; each has a value of every dtype."""

    @property
    def outer(self) -> Dim: ...

    @property
    def length(self) -> Dim: ...

    @property
    def inner(self) -> Dim: ...

    @property
    def dtypes(self) -> tuple[DType, ...]: ...

    @property
    def inputs(self) -> tuple[UnitRef, ...]: ...

    @property
    def outputs(self) -> tuple[UnitRef, ...]: ...

    def open(self, b: KernelBuilder, writes: bool) -> Body:
        """Declares the inputs as buffers, and where it `writes` the outputs."""

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        """The values of a stretch from those of its two parts."""


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


def _shape(lines: Lines, block: int) -> _Shape:
    if sample(lines.inner) > 1:
        columns = lanes(lines.inner, COLUMNS)
        width = lanes(lines.length, SEVERAL // columns)
        return _Shape(columns, width, fits(lines.length, width), True)
    width = lanes(lines.length, block)
    resident = fits(lines.length, width)
    return _Shape(lanes(lines.outer, max(SEVERAL // width, 1)) if resident else 1, width, resident, False)


def scan_unit(lines: Lines, name: str, first_temp: int = 0, block: int = 0) -> Unit:
    """Running values of each line. Its temporaries are numbered from `first_temp` on. `block`: elements of a line held
    at once (0: BLOCK)."""
    shape = _shape(lines, block or BLOCK)
    parts = Blocks(lines.length, shape.width)
    if shape.resident or 4 * sample(shape.programs(lines)) >= PROGRAMS or sample(parts.count) < 2:
        return Unit((_whole(lines, shape, name),))
    count = len(lines.dtypes)
    temps = tuple(UnitRef("temp", first_temp + n) for n in range(2 * count))
    totals, before = temps[:count], temps[count:]
    middle = _Totals(lines, parts.count, totals, before)
    steps = (
        _parts(lines, shape, f"{name}.parts", totals),
        _whole(middle, _shape(middle, BLOCK), f"{name}.total"),
        _rest(lines, shape, f"{name}.rest", before),
    )
    held = make("mul", make("mul", lines.outer, lines.inner), parts.count)
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
                body.store(place, _after(b, lines, body.first(), values), None)
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
            values = _select(b, known, lines.combine(b, running, values), values)
            body.store((outer, at, inner), values, mask)
            return (b.const(True, PRED), *_last(b, lane, width, values))

        b.fold(b.index(0), b.size(blocks.count), (known, *start), block)


def _parts(lines: Lines, shape: _Shape, name: str, totals: Sequence[UnitRef]) -> UnitKernel:
    """The total of each block of each line."""

    def store(b: KernelBuilder, buffers: Sequence[Buffer], part: tuple[Place, Var], values: Sequence[Var]) -> None:
        (outer, at, inner), number = part
        parts = Blocks(lines.length, shape.width)
        last = b.op("subtract", parts.bounds(b, number)[1], b.index(1))
        place = _total(b, lines, parts.count, (outer, number, inner))
        for buffer, value in zip(buffers, values):
            b.store(buffer, place, value, b.compare(at, last, "EQ"))

    b = KernelBuilder(name, MULTIPLE)
    body = lines.open(b, False)
    buffers = [b.output(d) for d in lines.dtypes]
    kernel = _each_part(b, lines, shape, body, lambda part, values: store(b, buffers, part, values))
    return UnitKernel(kernel, lines.inputs, tuple(totals))


def _rest(lines: Lines, shape: _Shape, name: str, before: Sequence[UnitRef]) -> UnitKernel:
    """The running values of each block, from the scanned totals of the blocks before it."""
    b = KernelBuilder(name, MULTIPLE)
    body = lines.open(b, True)
    sums = [b.input(d) for d in lines.dtypes]

    def store(part: tuple[Place, Var], values: Sequence[Var]) -> None:
        (outer, _, inner), number = part
        has = b.compare(number, b.index(0), "GT")
        parts = Blocks(lines.length, shape.width).count
        earlier = _total(b, lines, parts, (outer, b.op("subtract", number, b.index(1)), inner))
        carried = [b.load(s, earlier, has) for s in sums]
        first = body.first()
        values = _select(
            b, has, lines.combine(b, _after(b, lines, first, carried), values), _after(b, lines, first, values)
        )
        body.store(part[0], values, None)

    kernel = _each_part(b, lines, shape, body, store)
    return UnitKernel(kernel, (*lines.inputs, *before), lines.outputs)


def _each_part(
    b: KernelBuilder, lines: Lines, shape: _Shape, body: Body, store: Callable[[tuple[Place, Var], Sequence[Var]], None]
) -> Kernel:
    """A program is a block of its lines; `store` takes the place, the block's number, and the scan within it."""
    parts, programs = Blocks(lines.length, shape.width), shape.programs(lines)
    number, program = b.remainder(b.task, b.size(parts.count)), b.quotient(b.task, b.size(parts.count))
    with _program(b, lines, shape, program) as (outer, inner), b.tile(*parts.bounds(b, number), shape.width) as at:
        place = outer, at, inner
        store((place, number), _scan(b, lines, at, body.load(place, None)))
    return b.finish(make("mul", programs, parts.count), 4 * shape.lines * shape.width)


def _total(b: KernelBuilder, lines: Lines, parts: Dim, place: Place) -> Var:
    """Where the total of a block stands: totals are lines as the elements are."""
    outer, number, inner = place
    return b.add(b.mul(b.add(b.mul(outer, b.size(parts)), number), b.size(lines.inner)), inner)


def _scan(b: KernelBuilder, lines: Lines, lane: Var, values: Sequence[Var]) -> Sequence[Var]:
    count = len(values)
    return b.scan(lane, values, lambda *both: lines.combine(b, both[:count], both[count:]))


def _after(b: KernelBuilder, lines: Lines, before: Sequence[Var] | None, values: Sequence[Var]) -> Sequence[Var]:
    return values if before is None else lines.combine(b, before, values)


def _select(b: KernelBuilder, test: Var, yes: Sequence[Var], no: Sequence[Var]) -> list[Var]:
    return [b.op("select", test, one, other, dtype=one.dtype) for one, other in zip(yes, no)]


def _last(b: KernelBuilder, lane: Var, width: int, values: Sequence[Var]) -> Sequence[Var]:
    """The values of the last lane, in all lanes."""

    def pick(has: Var, *rest: Var) -> Sequence[Var]:
        kept, taken, new = rest[: len(values)], rest[len(values)], rest[len(values) + 1 :]
        return (b.op("or", has, taken), *_select(b, taken, new, kept))

    none = [b.const(False, PRED), *(b.const(0, v.dtype) for v in values)]
    identity = (False, *(0 for _ in values))
    is_last = b.compare(lane, b.index(width - 1), "EQ")
    return b.across(lane, (is_last, *values), none, identity, pick)[1:]


@dataclass(frozen=True, slots=True)
class _Totals:
    """The totals of `lines` as lines, scanned from one temporary into another."""

    of: Lines
    length: Dim
    inputs: tuple[UnitRef, ...]
    outputs: tuple[UnitRef, ...]

    @property
    def outer(self) -> Dim:
        return self.of.outer

    @property
    def inner(self) -> Dim:
        return self.of.inner

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.of.dtypes

    def open(self, b: KernelBuilder, writes: bool) -> Body:
        return _TotalsBody(b, self)

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        return self.of.combine(b, left, right)


class _TotalsBody:
    def __init__(self, b: KernelBuilder, totals: _Totals) -> None:
        self.b, self.totals = b, totals
        self.sources, self.results = [b.input(d) for d in totals.dtypes], [b.output(d) for d in totals.dtypes]

    def load(self, place: Place, mask: Var | None) -> Sequence[Var]:
        at = _total(self.b, self.totals.of, self.totals.length, place)
        return [self.b.load(source, at, mask) for source in self.sources]

    def store(self, place: Place, values: Sequence[Var], mask: Var | None) -> None:
        at = _total(self.b, self.totals.of, self.totals.length, place)
        for result, value in zip(self.results, values):
            self.b.store(result, at, value, mask)

    def first(self) -> None:
        return None
