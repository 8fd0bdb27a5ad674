"""sort on a GPU: runs sorted by counting what comes before each element, then merged by binary search.

Every element computes where it goes, so that nothing depends on which program is first, for any comparator that is a
strict weak order. Elements of a line move between the result and a temporary; each pass doubles the sorted runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .....ir.dim import Dim, ceil_div, make, sample
from .....ir.dtype import S32, S64
from .....ir.node import Computation, Instr
from .....target import Target
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import Unit, UnitKernel
from ..grid import Blocks
from ..sort_line import Line, SortForm
from .shapes import lanes

ONE_RUN = 1024  # elements of a line up to which it is one run
RUN = 256  # else
SEVERAL = 1024  # elements of a program that sorts several short lines
BLOCK = 512  # elements of a program that merges
ANY_STEPS = 48  # of a binary search in a line whose length is not known: enough for all that memory holds


def lower(instr: Instr, target: Target) -> Unit:
    """Results have the operands' shapes; equal elements keep their order."""
    form = SortForm(instr.with_attrs(to_apply=ordered_comparator(instr.attrs["to_apply"])))
    run, passes = runs(form.length)
    places = [("temp", "result")[(passes - n) % 2 == 0] for n in range(passes + 1)]
    merges = (_merge_runs(form, make("mul", run, 2**n), (places[n], places[n + 1])) for n in range(passes))
    steps = (_sort_runs(form, run, places[0]), *merges)
    return Unit(steps, tuple(o.shape.byte_size for o in instr.operands) if passes else ())


def runs(length: Dim) -> tuple[Dim, int]:
    """The length of the runs that are sorted by counting, and how many times runs are merged.

    The latter is by the sample of a length that is read at run time: then the runs are as long as that asks for.
    """
    known = sample(length)
    if known <= ONE_RUN:
        return length, 0
    passes = (-(-known // RUN) - 1).bit_length()
    return (RUN if isinstance(length, int) else ceil_div(length, 2**passes)), passes


def ordered_comparator(comp: Computation) -> Computation:
    """`comp` with its comparisons of floats in the total order but for the sign of zero.

    What it says of numbers is the same; NaN has a place, without which no element would know its own.
    """
    made: dict[Instr, Instr] = {}
    found: list[Instr] = []
    for instr in comp.instrs:
        operands = tuple(made[o] for o in instr.operands)
        if instr.opcode == "compare" and operands[0].shape.element_type.is_float and not _is_total(instr):
            operands = tuple(_unsigned_zero(o, f"{instr.name}.{n}", found) for n, o in enumerate(operands))
            new = instr.replace(operands=operands).with_attrs(type="TOTALORDER")
        else:
            new = instr.replace(operands=operands)
        made[instr] = new
        found.append(new)
    return Computation(comp.name, tuple(found), made[comp.root])


def _is_total(compare: Instr) -> bool:
    return bool(compare.attrs.get("type") == "TOTALORDER")


def _unsigned_zero(value: Instr, name: str, found: list[Instr]) -> Instr:
    """value + 0: -0 becomes 0, all else stays."""
    literal = np.zeros((), value.shape.element_type.numpy)
    zero = Instr(f"{name}.zero", "constant", value.shape, attrs={"literal": literal})
    found += [zero, Instr(f"{name}.key", "add", value.shape, (value, zero))]
    return found[-1]


def count_before(
    b: KernelBuilder, span: tuple[Var, Var], place: Var, comes_first: Callable[[Var], tuple[Var, Var]]
) -> Var:
    """How many elements at positions in `span` come before the one at `place`.

    `comes_first(j)`: whether j is less than the element, and whether the element is less than j; of equal ones the
    earlier is first.
    """

    def step(j: Var, count: Var) -> Sequence[Var]:
        less, greater = comes_first(j)
        earlier = b.op("and", b.op("not", greater), b.compare(j, place, "LT"))
        before = b.op("or", less, earlier)
        return (b.op("add", count, b.op("convert", before, dtype=S32)),)

    return b.op("convert", b.fold(*span, [b.const(0, S32)], step)[0], dtype=S64)


def counting_warps(elements: int) -> int:
    """Of a program whose lanes wait for loads that depend on each other: few elements a thread."""
    return max(1, min(16, elements // 64))


def _sort_runs(form: SortForm, run: Dim, target: str) -> UnitKernel:
    """A program is a block of a run of a line, or some whole lines that are a run each."""
    b = KernelBuilder("sort")
    sources, results = [b.input(d) for d in form.dtypes], [b.output(d) for d in form.dtypes]
    width = lanes(run, ONE_RUN)
    blocks, count = Blocks(run, width), ceil_div(form.length, run) if run != form.length else 1
    several = lanes(form.lines, SEVERAL // width) if isinstance(run, int) and count == 1 and run <= width else 1

    def body(line_number: Var, first: Var, part: Var) -> None:
        line = Line(b, form, line_number)
        stop = _least(b, b.add(first, b.size(run)), b.size(form.length))
        start = b.add(first, b.mul(part, b.index(width)))
        with b.tile(start, _least(b, b.add(start, b.index(width)), stop), width) as place:
            values = line.load(sources, place)
            own = line.keys(sources, place)

            def compare(j: Var) -> tuple[Var, Var]:
                other = line.keys(sources, j)
                return line.less(other, own), line.less(own, other)

            rank = count_before(b, (first, stop), place, compare)
            line.store(results, b.add(first, rank), values)

    if several > 1:
        some = Blocks(form.lines, several)
        with b.tile(*some.bounds(b, b.task), several) as number:
            body(number, b.index(0), b.index(0))
        tasks = some.count
    else:
        part, rest = b.remainder(b.task, b.size(blocks.count)), b.quotient(b.task, b.size(blocks.count))
        number, which = b.quotient(rest, b.size(count)), b.remainder(rest, b.size(count))
        body(number, b.mul(which, b.size(run)), part)
        tasks = make("mul", form.lines, make("mul", count, blocks.count))
    kernel = b.finish(tasks, make("mul", run, 8 * width * several), counting_warps(width * several))
    return UnitKernel(kernel, form.refs("operand"), form.refs(target))


def _merge_runs(form: SortForm, run: Dim, way: tuple[str, str]) -> UnitKernel:
    """Merges neighbouring runs: an element's place is its own in its run, and what of the other run is before it."""
    b = KernelBuilder("sort_merge")
    sources, results = [b.input(d) for d in form.dtypes], [b.output(d) for d in form.dtypes]
    blocks = Blocks(form.length, BLOCK)
    number, block = b.quotient(b.task, b.size(blocks.count)), b.remainder(b.task, b.size(blocks.count))
    line, size, end = Line(b, form, number), b.size(run), b.size(form.length)
    with b.tile(*blocks.bounds(b, block), BLOCK) as place:
        values, own = line.load(sources, place), line.keys(sources, place)
        which = b.quotient(place, size)
        right = b.op("and", which, b.index(1))
        is_right = b.compare(right, b.index(0), "NE")
        pair = b.mul(b.op("subtract", which, right), size)
        other = b.op("select", is_right, pair, b.add(pair, size), dtype=S64)
        low, high = _least(b, other, end), _least(b, b.add(other, size), end)

        def before(at: Var, room: Var) -> Var:
            there = line.keys(sources, at, room)
            first = b.op("or", is_right, line.less(there, own))
            return b.op("and", first, b.op("not", b.op("and", is_right, line.less(own, there))))

        found = _search(b, low, high, form.length, before)
        ahead = b.op("subtract", found, other)
        ahead = b.op("select", b.compare(low, high, "LT"), ahead, b.index(0), dtype=S64)
        own_place = b.op("subtract", place, b.mul(which, size))
        line.store(results, b.add(b.add(pair, own_place), ahead), values)
    kernel = b.finish(make("mul", form.lines, blocks.count), BLOCK * 100, counting_warps(BLOCK))
    return UnitKernel(kernel, form.refs(way[0]), form.refs(way[1]))


def _search(b: KernelBuilder, low: Var, high: Var, length: Dim, before: Callable[[Var, Var], Var]) -> Var:
    """The first position in [low, high) that is not `before` the element, or `high`."""
    steps = length.bit_length() if isinstance(length, int) else ANY_STEPS

    def halve(_: Var, low: Var, high: Var) -> Sequence[Var]:
        room = b.compare(low, high, "LT")
        middle = b.quotient(b.add(low, high), b.index(2))
        yes = b.op("and", room, before(middle, room))
        no = b.op("and", room, b.op("not", yes))
        return (
            b.op("select", yes, b.add(middle, b.index(1)), low, dtype=S64),
            b.op("select", no, middle, high, dtype=S64),
        )

    return b.fold(b.index(0), b.size(steps), [low, high], halve)[0]


def _least(b: KernelBuilder, x: Var, y: Var) -> Var:
    return b.op("minimum", x, y)
