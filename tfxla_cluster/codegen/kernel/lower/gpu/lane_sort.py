"""Runs of lines sorted on a GPU in the lanes of a program, by keys that are unsigned integers.

Behind a key stands where its element is in the run, so that equal ones keep their order and the elements are moved
once; a key that is all there is of an element goes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from .....ir.dim import ceil_div, make, sample
from .....ir.dtype import DTYPES, S64, DType
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import UnitKernel
from ..grid import Blocks, minimum
from ..sort_line import Line, SortForm
from ..total_order import value_of_key
from .radix_sort import Key
from .shapes import lanes, power

WIDEST = {32: 4096, 64: 2048}  # elements of a run, by the bits of what is sorted
SEVERAL = 1024  # elements of a program that sorts several short lines
OF_A_WARP, OTHERS_OF_A_WARP = 256, (128, 512)  # elements


@dataclass(frozen=True, slots=True)
class Packed:
    """What is sorted of runs of `run` elements: the key, and behind it `place_bits` of the place in the run.
    `of_a_warp`: elements."""

    key: Key
    dtype: DType
    run: int
    place_bits: int
    of_a_warp: int = OF_A_WARP

    def of(self, b: KernelBuilder, value: Var, place: Var) -> Var:
        """`value`: of the operand that decides."""
        key = self.key.of(b, value)
        if key.dtype != self.dtype:
            key = b.op("convert", key, dtype=self.dtype)
        if not self.place_bits:
            return key
        if self.key.bits < value.dtype.bits:
            key = b.op("and", key, b.const((1 << self.key.bits) - 1, self.dtype))
        key = b.op("shift-left", key, b.const(self.place_bits, self.dtype))
        return b.op("or", key, b.op("convert", place, dtype=self.dtype))

    def place(self, b: KernelBuilder, found: Var) -> Var:
        return b.op("convert", b.op("and", found, b.const((1 << self.place_bits) - 1, self.dtype)), dtype=S64)

    def value(self, b: KernelBuilder, found: Var, dtype: DType) -> Var:
        """The element that has the key."""
        bits = DTYPES[f"u{dtype.bits}"]
        key = found if found.dtype == bits else b.op("convert", found, dtype=bits)
        return value_of_key(b, key, dtype, self.key.descending)


def packed(form: SortForm, key: Key) -> Packed | None:
    """For lines of a fixed length; None where no integer has room for key and place."""
    if not isinstance(form.length, int) or not form.length:
        return None
    alone = len(form.dtypes) == 1 and (key.signed_zero or not form.dtypes[0].is_float)
    for bits, widest in WIDEST.items():
        run = min(form.length, widest)
        place_bits = 0 if alone else (run - 1).bit_length()
        if (form.dtypes[key.operand].bits if alone else key.bits) + place_bits <= bits:
            return Packed(key, DTYPES[f"u{bits}"], run, place_bits)
    return None


def sort_in_lanes(form: SortForm, what: Packed, target: str) -> UnitKernel:
    """A program is a run, or some whole lines that are one each; `target`: the kind of reference of the results."""
    b = KernelBuilder("sort.lanes")
    sources, results = [b.input(d) for d in form.dtypes], [b.output(d) for d in form.dtypes]
    width, count = power(what.run), ceil_div(form.length, what.run)
    several = lanes(form.lines, max(SEVERAL // width, 1)) if count == 1 else 1

    def body(number: Var, first: Var) -> None:
        line = Line(b, form, number)
        stop = minimum(b, b.add(first, b.index(what.run)), b.size(form.length))
        with b.tile(first, stop, width) as place:
            own = b.load(sources[what.key.operand], line.at(place))
            found = b.sort_lanes(place, what.of(b, own, b.op("subtract", place, first)))
            if what.place_bits:
                line.store(results, place, line.load(sources, b.add(first, what.place(b, found))))
            else:
                line.store(results, place, [what.value(b, found, form.dtypes[0])])

    if several > 1:
        some = Blocks(form.lines, several)
        with b.tile(*some.bounds(b, b.task), several) as number:
            body(number, b.index(0))
        tasks = some.count
    else:
        body(b.quotient(b.task, b.size(count)), b.mul(b.remainder(b.task, b.size(count)), b.index(what.run)))
        tasks = make("mul", form.lines, count)
    elements = width * several
    warps = max(1, min(16, elements // what.of_a_warp))
    steps = sample(width).bit_length() ** 2
    return UnitKernel(b.finish(tasks, elements * steps, warps), form.refs("operand"), form.refs(target))
