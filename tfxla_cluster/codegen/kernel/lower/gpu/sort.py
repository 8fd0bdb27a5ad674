"""sort on a GPU: long lines by the digits of their keys, where a comparator is the order of one operand; others in
runs, sorted in lanes by such keys or by counting what comes before each element, then merged by binary search.

Every element computes where it goes, so that nothing depends on which program is first, for any comparator that is a
strict weak order. Elements of a line move between the result and a temporary; each pass doubles the sorted runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .....ir.dim import Dim, ceil_div, make, sample
from .....ir.dtype import S32, S64, DType
from .....ir.node import Computation, Instr
from .....ir.size_proofs import at_most
from .....target import Target
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel
from ..grid import Blocks
from ..sort_line import Line, SortForm
from .lane_sort import OF_A_WARP, OTHERS_OF_A_WARP, Packed, packed, sort_in_lanes
from .radix_sort import chosen_form, key_of, radix_unit
from .shapes import lanes

ONE_RUN = 256  # elements of a line up to which it is one run
RUN = 128  # else
SEVERAL = 1024  # elements of a program that sorts several short lines
BLOCK = 512  # elements of a program that merges
RADIX_LENGTH = 2048  # elements of a line from which it is sorted by digits
LANE_RUNS = 2  # of a line, sorted in lanes, up to which it is not
ANY_STEPS = 48  # of a binary search in a line whose length is not known: enough for all that memory holds


def lower(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Results have the operands' shapes; equal elements keep their order. Knobs: whether by 'radix', and its own."""
    form = SortForm(instr)
    key = key_of(instr.attrs["to_apply"], form.dtypes)
    what = None if key is None else packed(form, key)
    if key is not None and sample(form.length) > (ONE_RUN if what is None else what.run):
        chosen = chosen_form(make("mul", form.lines, form.length), knobs)
        least = RADIX_LENGTH if what is None else LANE_RUNS * what.run + 1
        if knobs.take("radix", int(sample(form.length) >= least), (0, 1)):
            return radix_unit(form, key, chosen)
    if what is not None:
        what = replace(what, of_a_warp=knobs.take("of_a_warp", OF_A_WARP, OTHERS_OF_A_WARP))
    return merge_sort(instr, what)


def merge_sort(instr: Instr, what: Packed | None = None) -> Unit:
    """The sort by runs, for any comparator; `what` is sorted in lanes, where it has keys."""
    form = SortForm(instr.with_attrs(to_apply=ordered_comparator(instr.attrs["to_apply"])))
    run, passes = runs(form.length) if what is None else (what.run, _merges(form.length, what.run))
    places = [("temp", "result")[(passes - n) % 2 == 0] for n in range(passes + 1)]
    merges = (_merge_runs(form, make("mul", run, 2**n), (places[n], places[n + 1])) for n in range(passes))
    first = _sort_runs(form, run, places[0]) if what is None else sort_in_lanes(form, what, places[0])
    return Unit((first, *merges), tuple(o.shape.byte_size for o in instr.operands) if passes else ())


def runs(length: Dim) -> tuple[Dim, int]:
    """The length of the runs that are sorted by counting, and how many times runs are merged.

    The latter is by the sample of a length that is read at run time: then the runs are as long as that asks for.
    """
    known = sample(length)
    if known <= ONE_RUN:
        return length, 0
    passes = _merges(length, RUN)
    return (RUN if isinstance(length, int) else ceil_div(length, 2**passes)), passes


def _merges(length: Dim, run: int) -> int:
    """How many times runs are merged until one is left."""
    return (-(-sample(length) // run) - 1).bit_length()


def ordered_comparator(comp: Computation) -> Computation:
    """`comp` where the larger of two floats is that in the total order but for the sign of zero.

    What it says of numbers is the same; NaN has a place, without which no element would know its own. A comparator that
    asks whether a number is NaN (a != a) is still told.
    """
    made: dict[Instr, Instr] = {}
    found: list[Instr] = []
    for instr in comp.instrs:
        operands = tuple(made[o] for o in instr.operands)
        if _orders_floats(instr):
            operands = tuple(_unsigned_zero(o, f"{instr.name}.{n}", found) for n, o in enumerate(operands))
            new = instr.replace(operands=operands).with_attrs(type="TOTALORDER")
        else:
            new = instr.replace(operands=operands)
        made[instr] = new
        found.append(new)
    return Computation(comp.name, tuple(found), made[comp.root])


def _orders_floats(instr: Instr) -> bool:
    if instr.opcode != "compare" or instr.attrs["direction"] in ("EQ", "NE"):
        return False
    return instr.operands[0].shape.element_type.is_float and instr.attrs.get("type") != "TOTALORDER"


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


def merging_warps(elements: int) -> int:
    """Of a program that merges: each warp does the two searches of its block."""
    return max(1, elements // 256)


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
    """Merges neighbouring runs, a program a block of what a pair of them becomes.

    Where a block begins in either run is a search along a diagonal (Green et al., "Merge path", 2012). In between, an
    element's place is its own in its run, and what of the other run is before it.
    """
    b = KernelBuilder("sort_merge")
    sources, results = [b.input(d) for d in form.dtypes], [b.output(d) for d in form.dtypes]
    both = make("mul", run, 2)
    blocks, pairs = Blocks(both, lanes(both, BLOCK) if isinstance(both, int) else BLOCK), ceil_div(form.length, both)
    rest, block = b.quotient(b.task, b.size(blocks.count)), b.remainder(b.task, b.size(blocks.count))
    number, which = b.quotient(rest, b.size(pairs)), b.remainder(rest, b.size(pairs))
    pair = _Pair(b, Line(b, form, number), sources, run, b.mul(which, b.size(both)))
    start, stop = (_least(b, at, b.op("subtract", pair.high, pair.low)) for at in blocks.bounds(b, block))
    left = pair.split(start), pair.split(stop)
    right = b.op("subtract", start, left[0]), b.op("subtract", stop, left[1])
    with b.tile(start, stop, blocks.size) as at:
        pair.merge(results, at, start, (left, right))
    kernel = b.finish(
        make("mul", form.lines, make("mul", pairs, blocks.count)), blocks.size * 100, merging_warps(blocks.size)
    )
    return UnitKernel(kernel, form.refs(way[0]), form.refs(way[1]))


Span = tuple[Var, Var]


class _Pair:
    """Two sorted runs beside each other, [low, middle) and [middle, high), the last of a line shorter or empty."""

    def __init__(self, b: KernelBuilder, line: Line, sources: Sequence[Buffer], run: Dim, low: Var) -> None:
        self.b, self.line, self.sources, self.run, self.low = b, line, sources, run, low
        end = b.size(line.form.length)
        self.middle = _least(b, b.add(low, b.size(run)), end)
        self.high = _least(b, b.add(self.middle, b.size(run)), end)

    def split(self, at: Var) -> Var:
        """How many of the first `at` elements of the merged runs are of the left one."""
        b = self.b
        sizes = b.op("subtract", self.middle, self.low), b.op("subtract", self.high, self.middle)
        low = b.op("maximum", b.op("subtract", at, sizes[1]), b.index(0))
        last = b.op("subtract", b.add(self.middle, at), b.index(1))

        def taken(place: Var, room: Var) -> Var:
            left = self.line.keys(self.sources, b.add(self.low, place), room)
            right = self.line.keys(self.sources, b.op("subtract", last, place), room)
            return b.op("not", self.line.less(right, left))

        return _search(b, (low, _least(b, at, sizes[0])), self.line.form.length, self.run, taken)

    def merge(self, results: Sequence[Buffer], at: Var, start: Var, spans: tuple[Span, Span]) -> None:
        """Stores the elements of a stretch: `spans` are those of the left and of the right run, from their starts.

        A lane is an element of the stretch: first those of the left run.
        """
        b, (left, right) = self.b, spans
        lane = b.op("subtract", at, start)
        others = b.op("subtract", lane, b.op("subtract", left[1], left[0]))
        is_left = b.compare(others, b.index(0), "LT")
        left, right = ((b.add(base, x), b.add(base, y)) for base, (x, y) in ((self.low, left), (self.middle, right)))
        own = self._either(is_left, b.add(left[0], lane), b.add(right[0], others))
        values, keys = self.line.load(self.sources, own), self.line.keys(self.sources, own)

        def before(place: Var, room: Var) -> Var:
            there = self.line.keys(self.sources, place, room)
            first = [b.op("select", is_left, x, y, dtype=x.dtype) for x, y in zip(there, keys)]
            second = [b.op("select", is_left, y, x, dtype=x.dtype) for x, y in zip(there, keys)]
            return b.op("xor", self.line.less(first, second), b.op("not", is_left))

        low, high = self._either(is_left, right[0], left[0]), self._either(is_left, right[1], left[1])
        most = self.run if isinstance(self.run, int) and self.run < BLOCK else BLOCK
        ahead = b.op("subtract", _search(b, (low, high), self.line.form.length, most, before), low)
        place = b.add(b.add(b.add(self.low, start), self._either(is_left, lane, others)), ahead)
        self.line.store(results, place, values)

    def _either(self, is_left: Var, left: Var, right: Var) -> Var:
        return self.b.op("select", is_left, left, right, dtype=S64)


def _search(b: KernelBuilder, span: Span, length: Dim, most: Dim, before: Callable[[Var, Var], Var]) -> Var:
    """The first position in the span, of at most `most`, that is not `before`, or its end; a line has `length`."""
    steps = most.bit_length() if isinstance(most, int) else ANY_STEPS
    dtype = S32 if at_most(length, 2**30 - 1) else S64
    one, two = (b.const(n, dtype) for n in (1, 2))

    def halve(_: Var, low: Var, high: Var) -> Sequence[Var]:
        room = b.compare(low, high, "LT")
        middle = b.quotient(b.add(low, high), two)
        yes = b.op("and", room, before(_as(b, middle, S64), room))
        no = b.op("and", room, b.op("not", yes))
        return (
            b.op("select", yes, b.add(middle, one), low, dtype=dtype),
            b.op("select", no, middle, high, dtype=dtype),
        )

    found = b.fold(b.index(0), b.size(steps), [_as(b, x, dtype) for x in span], halve)[0]
    return _as(b, found, S64)


def _as(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)


def _least(b: KernelBuilder, x: Var, y: Var) -> Var:
    return b.op("minimum", x, y)
