"""topk on a GPU: the best of each chunk of a line by counting what is better, then the best of those."""

from __future__ import annotations

from .....errors import UnsupportedError
from .....ir.dim import Dim, ceil_div, make, product, sample
from .....ir.dtype import S32
from .....ir.node import Instr
from .....target import Target
from ...builder import KernelBuilder
from ...ir import Kernel, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..topk import MAX_K
from ..total_order import ordered, signed_key
from .shapes import lanes, power
from .sort import count_before, counting_warps

CHUNK = 256  # elements of a line that are compared with each other; at least 4 k
WIDTH = 1024  # of a chunk in one program


def lower(instr: Instr, target: Target) -> Unit:
    """Results: values, and s32 positions, of shape [..., k]; equal ones in order."""
    source, k = instr.operands[0].shape, int(instr.attrs["k"])
    if not ordered(source.element_type) or k > MAX_K:
        raise UnsupportedError(f"topk of {k} of {source} has no GPU kernel ({instr.name})")
    if k == 0:
        return Unit(())
    chunk = max(CHUNK, power(4 * k))
    steps: list[UnitKernel] = []
    temps: list[Dim] = []
    level = _Level(instr, source.dims[-1], positions=False)
    refs: tuple[UnitRef, ...] = (UnitRef("operand", 0),)
    while sample(level.length) > chunk:
        out = UnitRef("temp", len(temps)), UnitRef("temp", len(temps) + 1)
        steps.append(UnitKernel(level.kernel(chunk), refs, out))
        level, refs = _Level(instr, _kept(level.length, chunk, k), positions=True), out
        held = make("mul", level.lines, level.length)
        temps += [make("mul", held, d.itemsize) for d in (source.element_type, S32)]
    steps.append(UnitKernel(level.kernel(level.length), refs, (UnitRef("result", 0), UnitRef("result", 1))))
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

    def kernel(self, chunk: Dim) -> Kernel:
        """The k best of each chunk of the lines, in order; a program is a block of a chunk."""
        b = KernelBuilder("topk")
        values = b.input(self.dtype)
        places = b.input(S32) if self.positions else None
        best, positions = b.output(self.dtype), b.output(S32)
        width = lanes(chunk, WIDTH)
        blocks, count = Blocks(chunk, width), ceil_div(self.length, chunk) if chunk != self.length else 1
        part, rest = b.remainder(b.task, b.size(blocks.count)), b.quotient(b.task, b.size(blocks.count))
        line, number = b.quotient(rest, b.size(count)), b.remainder(rest, b.size(count))
        base, first = b.mul(line, b.size(self.length)), b.mul(number, b.size(chunk))
        stop = b.op("minimum", b.add(first, b.size(chunk)), b.size(self.length))
        start = b.add(first, b.mul(part, b.index(width)))
        with b.tile(start, b.op("minimum", b.add(start, b.index(width)), stop), width) as at:
            value = b.load(values, b.add(base, at))
            key = signed_key(b, value)

            def compare(j: Var) -> tuple[Var, Var]:
                other = signed_key(b, b.load(values, b.add(base, j)))
                return b.compare(other, key, self.better), b.compare(key, other, self.better)

            rank = count_before(b, (first, stop), at, compare)
            room = b.compare(rank, b.index(self.k), "LT")
            where = b.op("convert", at, dtype=S32) if places is None else b.load(places, b.add(base, at))
            kept = self.k if count == 1 else _kept(self.length, int(sample(chunk)), self.k)
            place = b.add(b.mul(line, b.size(kept)), b.add(b.mul(number, b.index(self.k)), rank))
            b.store(best, place, value, room)
            b.store(positions, place, where, room)
        tasks = make("mul", self.lines, make("mul", count, blocks.count))
        return b.finish(tasks, make("mul", chunk, 8 * width), counting_warps(width))
