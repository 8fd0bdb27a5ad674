"""topk on a GPU: the best of each chunk of a line, then the best of those.

Few are selected one after the other, from a chunk in registers; of more, each element counts what is better.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....errors import UnsupportedError
from .....ir.dim import Dim, ceil_div, make, product, sample
from .....ir.dtype import PRED, S32, S64
from .....ir.node import Instr
from .....target import Target
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Kernel, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..topk import MAX_K
from ..total_order import ordered, signed_key
from .shapes import lanes, power
from .sort import count_before, counting_warps

SELECTED = 64  # the largest k whose elements are selected one after the other
HELD, SOME_HELD = 2048, (512, 1024, 4096)  # elements of a line in registers from which they are selected
FEW = 16  # of which half as many are held
CHUNK = 128  # elements of a line that are compared with each other; at least 4 k
WIDTH = 1024  # of a chunk in one program
PACKED = 32  # bits of a key, and of a position, that are one number
EARLIEST = (1 << PACKED) - 2  # of the first position: with it no key is the greatest number of all


def lower(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Results: values, and s32 positions, of shape [..., k]; equal ones in order. Knobs: 'held', the elements that some
    are selected from at once."""
    source, k = instr.operands[0].shape, int(instr.attrs["k"])
    if not ordered(source.element_type) or k > MAX_K:
        raise UnsupportedError(f"topk of {k} of {source} has no GPU kernel ({instr.name})")
    if k == 0:
        return Unit(())
    length = source.dims[-1]
    selects = k <= SELECTED and isinstance(length, int) and length < EARLIEST
    chunk = (
        knobs.take("held", HELD if k > FEW else HELD // 2, (*SOME_HELD, HELD)) if selects else max(CHUNK, power(4 * k))
    )
    steps: list[UnitKernel] = []
    temps: list[Dim] = []
    level = _Level(instr, source.dims[-1], positions=False)
    refs: tuple[UnitRef, ...] = (UnitRef("operand", 0),)
    while sample(level.length) > chunk:
        out = UnitRef("temp", len(temps)), UnitRef("temp", len(temps) + 1)
        steps.append(UnitKernel(level.selected(chunk) if selects else level.counted(chunk), refs, out))
        level, refs = _Level(instr, _kept(level.length, chunk, k), positions=True), out
        held = make("mul", level.lines, level.length)
        temps += [make("mul", held, d.itemsize) for d in (source.element_type, S32)]
    kernel = level.selected(min(chunk, sample(level.length))) if selects else level.counted(level.length)
    steps.append(UnitKernel(kernel, refs, (UnitRef("result", 0), UnitRef("result", 1))))
    return Unit(tuple(steps), tuple(temps))


def _kept(length: Dim, chunk: int, k: int) -> Dim:
    """How many elements the chunks of a line keep: k each, the last as many as it has up to that."""
    rest = make("min", make("mod", length, chunk), k)
    return make("add", make("mul", make("floordiv", length, chunk), k), rest)


class _Level:
    """Lines of `length` elements; `positions`: they come with where they stood in the line at first."""

    def __init__(self, instr: Instr, length: Dim, positions: bool) -> None:
        shape = instr.operands[0].shape
        self.dtype, self.lines, self.length, self.positions = (
            shape.element_type,
            product(shape.dims[:-1]),
            length,
            positions,
        )
        self.k, self.better = int(instr.attrs["k"]), "GT" if instr.attrs["largest"] else "LT"

    def counted(self, chunk: Dim) -> Kernel:
        """The k best of each chunk of the lines, by counting what is better; a program is a block of a chunk."""
        b = KernelBuilder("topk")
        width = lanes(chunk, WIDTH)
        blocks, count = Blocks(chunk, width), ceil_div(self.length, chunk) if chunk != self.length else 1
        part, rest = b.remainder(b.task, b.size(blocks.count)), b.quotient(b.task, b.size(blocks.count))
        part_of = _Chunk(b, self, chunk, count, rest)
        start = b.add(part_of.first, b.mul(part, b.index(width)))
        stop = b.op("minimum", b.add(start, b.index(width)), part_of.stop)
        with b.tile(start, stop, width) as at:
            key = part_of.key(at)

            def compare(j: Var) -> tuple[Var, Var]:
                other = part_of.key(j)
                return b.compare(other, key, self.better), b.compare(key, other, self.better)

            rank = count_before(b, (part_of.first, part_of.stop), at, compare)
            part_of.store(rank, at, b.compare(rank, b.index(self.k), "LT"))
        tasks = make("mul", self.lines, make("mul", count, blocks.count))
        return b.finish(tasks, make("mul", chunk, 8 * width), counting_warps(width))

    def selected(self, chunk: int) -> Kernel:
        """The k best of each chunk, one after the other, each the best of those that come after the last."""
        b = KernelBuilder("topk")
        width, count = power(chunk), ceil_div(self.length, chunk)
        part = _Chunk(b, self, chunk, count, b.task)
        with b.tile(part.first, part.stop, width) as at:
            most = b.op("minimum", b.index(self.k), b.op("subtract", part.stop, part.first))
            if self.dtype.bits <= PACKED:
                self._selected_packed(b, part, at, most)
            else:
                self._selected(b, part, at, most)
        return b.finish(make("mul", self.lines, count), 4 * self.k * width, max(1, min(8, width // 256)))

    def _selected_packed(self, b: KernelBuilder, part: _Chunk, at: Var, most: Var) -> None:
        """Each element as a number of 64 bits, the key above what is the greater the earlier it stands: no two are
        equal, and the best is the greatest."""
        key = b.op("convert", part.key(at), dtype=S64)
        if self.dtype.kind == "uint":
            key = b.op("subtract", key, b.index(1 << (PACKED - 1)))
        key = key if self.better == "GT" else b.op("not", key)
        early = b.op("subtract", b.index(EARLIEST), at)
        packed = b.op("or", b.op("shift-left", key, b.index(PACKED)), early)
        none = b.index(-(1 << 63))

        def step(rank: Var, last: Var) -> Sequence[Var]:
            rest = b.op("select", b.compare(packed, last, "LT"), packed, none, dtype=S64)
            best = b.across(at, (rest,), (none,), (-(1 << 63),), lambda x, y: (b.op("maximum", x, y),))[0]
            place = b.op("subtract", b.index(EARLIEST), b.op("and", best, b.index((1 << PACKED) - 1)))
            part.store(rank, place, b.compare(best, none, "GT"))
            return (best,)

        b.fold(b.index(0), most, (b.index((1 << 63) - 1),), step)

    def _selected(self, b: KernelBuilder, part: _Chunk, at: Var, most: Var) -> None:
        """As keys and positions apart."""
        key = part.key(at)

        def first_of(has: Var, key: Var, at: Var, new_has: Var, new_key: Var, new_at: Var) -> Sequence[Var]:
            ahead = self._ahead(b, (new_key, new_at), (key, at))
            take = b.op("and", new_has, b.op("or", b.op("not", has), ahead))
            some = b.op("or", has, new_has)
            return (some, *(b.op("select", take, y, x, dtype=x.dtype) for x, y in ((key, new_key), (at, new_at))))

        def step(rank: Var, started: Var, last_key: Var, last_at: Var) -> Sequence[Var]:
            rest = b.op("or", b.op("not", started), self._ahead(b, (last_key, last_at), (key, at)))
            none = b.const(False, PRED), b.const(0, key.dtype), b.index(0)
            found = b.across(at, (rest, key, at), none, (False, 0, 0), first_of)
            part.store(rank, found[2], found[0])
            return (b.const(True, PRED), *found[1:])

        b.fold(b.index(0), most, (b.const(False, PRED), b.const(0, key.dtype), b.index(0)), step)

    def _ahead(self, b: KernelBuilder, one: tuple[Var, Var], other: tuple[Var, Var]) -> Var:
        """Whether (key, position) `one` comes before the other."""
        equal = b.op("and", b.compare(one[0], other[0], "EQ"), b.compare(one[1], other[1], "LT"))
        return b.op("or", b.compare(one[0], other[0], self.better), equal)


class _Chunk:
    """Chunk number `number` of the chunks of all lines, `count` a line: elements in, best ones out."""

    def __init__(self, b: KernelBuilder, level: _Level, chunk: Dim, count: Dim, number: Var) -> None:
        self.b = b
        self.values = b.input(level.dtype)
        self.places = b.input(S32) if level.positions else None
        self.best, self.positions = b.output(level.dtype), b.output(S32)
        line, which = b.quotient(number, b.size(count)), b.remainder(number, b.size(count))
        self.base, self.first = b.mul(line, b.size(level.length)), b.mul(which, b.size(chunk))
        self.stop = b.op("minimum", b.add(self.first, b.size(chunk)), b.size(level.length))
        kept = level.k if count == 1 else _kept(level.length, int(sample(chunk)), level.k)
        self.target = b.add(b.mul(line, b.size(kept)), b.mul(which, b.index(level.k)))

    def key(self, at: Var) -> Var:
        return signed_key(self.b, self.b.load(self.values, self.b.add(self.base, at)))

    def store(self, rank: Var, at: Var, mask: Var) -> None:
        """Puts the element at `at` into place `rank`."""
        b, place = self.b, self.b.add(self.target, rank)
        source = b.add(self.base, at)
        where = b.op("convert", at, dtype=S32) if self.places is None else b.load(self.places, source, mask)
        b.store(self.best, place, b.load(self.values, source, mask), mask)
        b.store(self.positions, place, where, mask)
