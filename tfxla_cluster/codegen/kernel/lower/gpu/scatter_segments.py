"""Updates that stand in the order of their places, joined where they go to one place, on a GPU.

A chunk of the order goes one after the other, in lanes over the elements of a unit. Stretches of equal places that lie
within a chunk are combined into the operand at once. What a chunk has of a stretch that begins before it, or goes on
after it, is kept: its head and its tail. A second kernel joins each tail with the heads that follow. The order depends
on the places alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .....ir.dim import Dim, ceil_div, make, sample
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..monoid import NEUTRAL
from ..space import delinearize, inside
from .scatter_order import SORTED_IDS, SORTED_ORDER
from .scatter_units import Units, as_index
from .shapes import lanes

CHUNKS = (16, 32, 64, 128)  # units of a chunk
PROGRAMS = 2048  # that chunks are made for, where that leaves them a length among these
LANES, SOME_LANES = 512, (128, 256, 1024)  # elements of a unit in a program
LEAST = 128  # lanes of a program: of narrow units it has several chunks
HEADS_AT_ONCE = 16  # that a tail is joined with
LANES_OF_A_WARP = 128


@dataclass(frozen=True, slots=True)
class _Shape:
    """`chunks` of `chunk` units each of a program, in `width` lanes over the elements of a unit."""

    units: Units
    chunk: int
    width: int
    chunks: int

    @property
    def count(self) -> Dim:
        """Chunks in all."""
        return ceil_div(self.units.count, self.chunk)

    @property
    def inner(self) -> Blocks:
        return Blocks(self.units.inner, self.width)

    @property
    def warps(self) -> int:
        return max(1, self.width * self.chunks // LANES_OF_A_WARP)


def segments_unit(units: Units, joined: Sequence[str], first_temp: int, knobs: Knobs) -> Unit:
    """`joined`: for each operand the opcode that joins two updates, '' where the later one stands. Knobs: 'chunk',
    'lanes'."""
    if not any(joined):
        return Unit((_last_stand(units),))
    width = lanes(units.inner, knobs.take("lanes", LANES, SOME_LANES))
    shape = _Shape(units, knobs.take("chunk", _chunk(units, width), CHUNKS), width, max(1, LEAST // width))
    temps = [UnitRef("temp", first_temp + n) for n in range(2 * len(joined))]
    heads, tails = temps[: len(joined)], temps[len(joined) :]
    held = make("mul", shape.count, units.inner)
    steps = _within_chunks(shape, joined, heads, tails), _across_chunks(shape, joined, heads, tails)
    return Unit(steps, tuple(make("mul", held, d.itemsize) for d in units.dtypes * 2))


def _chunk(units: Units, width: int) -> int:
    """Units of a chunk: as many as leave enough programs, up to 64, of which more did not pay."""
    across = sample(Blocks(units.inner, width).count)
    wanted = sample(units.count) * across // (PROGRAMS * max(1, LEAST // width))
    return max((c for c in CHUNKS if c <= min(wanted, 64)), default=CHUNKS[0])


class _Order:
    """The sorted places in a kernel. Outside there is -1, which is none."""

    def __init__(self, b: KernelBuilder, units: Units) -> None:
        self.b, self.count = b, b.size(units.count)
        self.ids, self.numbers = b.input(units.place_type), b.input(units.number_type)
        self._none = b.const(-1, units.place_type)

    def place(self, at: Var) -> Var:
        """The place of the unit at a position, which may be one before or after all."""
        b = self.b
        there = b.op("and", b.compare(at, b.index(0), "GE"), b.compare(at, self.count, "LT"))
        return b.load(self.ids, at, there, self._none)

    def number(self, at: Var, mask: Var | None = None) -> Var:
        return as_index(self.b, self.b.load(self.numbers, at, mask))


def _join(b: KernelBuilder, joined: Sequence[str], left: Sequence[Var], right: Sequence[Var]) -> list[Var]:
    return [b.op(opcode, one, two) if opcode else two for opcode, one, two in zip(joined, left, right)]


def _select(b: KernelBuilder, test: Var, yes: Sequence[Var], no: Sequence[Var]) -> list[Var]:
    return [b.op("select", test, one, other, dtype=one.dtype) for one, other in zip(yes, no)]


def _store(b: KernelBuilder, buffers: Sequence[Buffer], at: Var, values: Sequence[Var], mask: Var) -> None:
    for buffer, value in zip(buffers, values):
        b.store(buffer, at, value, mask)


def _within_chunks(
    shape: _Shape, joined: Sequence[str], heads: Sequence[UnitRef], tails: Sequence[UnitRef]
) -> UnitKernel:
    units, b = shape.units, KernelBuilder("scatter.chunks", constant=True)
    chunk = _Chunk(b, shape, joined)
    across = shape.inner.count
    block, number = b.remainder(b.task, b.size(across)), b.quotient(b.task, b.size(across))
    if shape.chunks == 1:
        with b.tile(*shape.inner.bounds(b, block), shape.width) as inner:
            chunk.run(number, inner)
        tasks = shape.count
    else:
        some = Blocks(shape.count, shape.chunks)
        with (
            b.tile(*some.bounds(b, number), some.size) as which,
            b.tile(*shape.inner.bounds(b, block), shape.width) as i,
        ):
            chunk.run(which, i)
        tasks = some.count
    kernel = b.finish(make("mul", tasks, across), shape.chunk * shape.chunks * shape.width * 16, shape.warps)
    inputs = SORTED_IDS, SORTED_ORDER, *units.updates, *units.results
    return UnitKernel(kernel, inputs, (*units.results, *heads, *tails))


class _Chunk:
    """The kernel over chunks. What the operands hold is read through buffers of its own: a lane reads what it writes,
    and nothing of another's."""

    def __init__(self, b: KernelBuilder, shape: _Shape, joined: Sequence[str]) -> None:
        self.b, self.shape, self.joined, units = b, shape, joined, shape.units
        self.order = _Order(b, units)
        self.updates, self.held = ([b.input(d) for d in units.dtypes] for _ in range(2))
        self.results, self.heads, self.tails = ([b.output(d) for d in units.dtypes] for _ in range(3))

    def run(self, chunk: Var, inner: Var) -> None:
        """Chunk number `chunk`, element `inner` of its units."""
        b, units, size = self.b, self.shape.units, self.b.index(self.shape.chunk)
        first = b.mul(chunk, size)
        stop = b.op("minimum", b.add(first, size), self.order.count)
        kept = b.add(b.mul(chunk, b.size(units.inner)), inner)
        earlier = self.order.place(b.op("subtract", first, b.index(1)))  # a stretch of it began before the chunk

        def step(n: Var, *sums: Var) -> Sequence[Var]:
            at = b.add(first, n)
            there = b.compare(at, stop, "LT")
            before, own, after = (self.order.place(b.add(at, b.index(k))) for k in (-1, 0, 1))
            source = units.update_offset(b, self.order.number(at, there), inner)
            values = [b.load(u, source, there) for u in self.updates]
            fresh = b.op("or", b.compare(own, before, "NE"), b.compare(n, b.index(0), "EQ"))
            found = _select(b, fresh, values, _join(b, self.joined, sums, values))
            ends = b.op("and", there, b.compare(own, after, "NE"))
            begun = b.compare(own, earlier, "NE")
            self._combine(own, inner, found, b.op("and", ends, begun))
            _store(b, self.heads, kept, found, b.op("and", ends, b.op("not", begun)))
            return _select(b, there, found, sums)

        sums = b.fold(b.index(0), size, [b.const(0, d) for d in units.dtypes], step)
        last, after = self.order.place(b.op("subtract", stop, b.index(1))), self.order.place(stop)
        goes_on, begun = b.compare(last, after, "EQ"), b.compare(last, earlier, "NE")
        _store(b, self.tails, kept, sums, b.op("and", goes_on, begun))
        _store(b, self.heads, kept, sums, b.op("and", goes_on, b.op("not", begun)))

    def _combine(self, place: Var, inner: Var, sums: Sequence[Var], mask: Var) -> None:
        b, units = self.b, self.shape.units
        place = as_index(b, place)
        mask = b.op("and", mask, b.compare(place, b.size(units.places), "LT"))
        units.combine(b, (self.held, self.results), units.operand_offset(b, place, inner), sums, mask)


def _across_chunks(
    shape: _Shape, joined: Sequence[str], heads: Sequence[UnitRef], tails: Sequence[UnitRef]
) -> UnitKernel:
    """A program is the tail of a chunk, where there is one, for a block of a unit."""
    units, b = shape.units, KernelBuilder("scatter.tails", constant=True)
    order = _Order(b, units)
    kept_heads, kept_tails = ([b.input(d) for d in units.dtypes] for _ in range(2))
    results = [b.output(d) for d in units.dtypes]
    across = shape.inner.count
    block, chunk = b.remainder(b.task, b.size(across)), b.quotient(b.task, b.size(across))
    size = b.index(shape.chunk)
    first, after = b.mul(chunk, size), b.mul(b.add(chunk, b.index(1)), size)
    place = order.place(b.op("subtract", after, b.index(1)))
    earlier = order.place(b.op("subtract", first, b.index(1)))
    goes_on = b.op("and", b.compare(place, order.place(after), "EQ"), b.compare(place, earlier, "NE"))
    target = as_index(b, place)

    def join() -> Sequence[Var]:
        end = _first_other(b, order, shape, (chunk, place))
        with b.tile(*shape.inner.bounds(b, block), shape.width) as inner:

            def kept(which: Var) -> Var:
                return b.add(b.mul(which, b.size(units.inner)), inner)

            start = [b.load(t, kept(chunk)) for t in kept_tails]
            sums = _joined_heads(
                b, joined, start, (b.add(chunk, b.index(1)), end), lambda n: [b.load(h, kept(n)) for h in kept_heads]
            )
            units.combine(b, (results, results), units.operand_offset(b, target, inner), sums, None)
        return ()

    b.cond(b.op("and", goes_on, inside(b, target, units.places)), join, lambda: ())
    kernel = b.finish(make("mul", shape.count, across), shape.width * 32, max(1, shape.width // LANES_OF_A_WARP))
    return UnitKernel(kernel, (SORTED_IDS, SORTED_ORDER, *heads, *tails), units.results)


def _first_other(b: KernelBuilder, order: _Order, shape: _Shape, tail: tuple[Var, Var]) -> Var:
    """The first chunk after that of a tail (its number, the place) that does not begin with the tail's place."""
    chunk, place = tail

    def step(low: Var, high: Var) -> Sequence[Var]:
        middle = b.quotient(b.add(low, high), b.index(2))
        same = b.compare(order.place(b.mul(middle, b.index(shape.chunk))), place, "EQ")
        return (
            b.op("select", same, b.add(middle, b.index(1)), low, dtype=low.dtype),
            b.op("select", same, high, middle, dtype=low.dtype),
        )

    begin = b.add(chunk, b.index(2)), b.size(shape.count)
    return b.while_loop(begin, lambda low, high: b.compare(low, high, "LT"), step)[0]


def _joined_heads(
    b: KernelBuilder,
    joined: Sequence[str],
    start: Sequence[Var],
    span: tuple[Var, Var],
    head: Callable[[Var], Sequence[Var]],
) -> Sequence[Var]:
    """`start` and the heads of the chunks in `span`; in order where a later one stands."""

    def join(*both: Var) -> Sequence[Var]:
        return _join(b, joined, both[: len(joined)], both[len(joined) :])

    if "" in joined:
        return b.fold(*span, start, lambda n, *sums: join(*sums, *head(n)))
    neutral = [NEUTRAL[opcode](value.dtype) for opcode, value in zip(joined, start)]
    return b.reduce(*span, start, neutral, head, join, "vector", HEADS_AT_ONCE)


def _last_stand(units: Units) -> UnitKernel:
    """Of each place the last update, where none of the others matters."""
    b = KernelBuilder("scatter.last", constant=True)
    order = _Order(b, units)
    updates, results = [b.input(d) for d in units.dtypes], [b.output(d) for d in units.dtypes]
    total = make("mul", units.count, units.inner)
    blocks = Blocks(total, lanes(total, LANES))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as number:
        at, inner = delinearize(b, number, (units.count, units.inner))
        own = order.place(at)
        place = as_index(b, own)
        last = b.compare(own, order.place(b.add(at, b.index(1))), "NE")
        writes = b.op("and", last, b.compare(place, b.size(units.places), "LT"))
        source, target = units.update_offset(b, order.number(at), inner), units.operand_offset(b, place, inner)
        units.combine(b, (results, results), target, [b.load(u, source, writes) for u in updates], writes)
    kernel = b.finish(blocks.count, 16 * blocks.size)
    return UnitKernel(kernel, (SORTED_IDS, SORTED_ORDER, *units.updates), units.results)
