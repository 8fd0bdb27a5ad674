"""fft on a CPU: a call of pocketfft for each dimension, for several lines at once.

Lines of the innermost dimension lie one after the other, those of another beside each other. A real result's last
dimension comes last, a real operand's first: only half of it is there in between. NumPy's loops multiply the results
by a factor, which is how inverses are scaled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import UnsupportedError
from ....ir.dim import Dim, ceil_div, make, product
from ....ir.node import Instr
from ....target import Target
from ..foreign_call import MAX_TASKS, POCKETFFT, At, Count, Data, Input, Number, Output, at, encode, real, tasks_of
from ..unit import Unit, UnitLibrary, UnitRef

LINES = 16  # of a call where there are as many: what a transform needs of its length is made anew in each call
_FEW = 4  # of outer lines, that are taken apart so that there are tasks to share


@dataclass(frozen=True, slots=True)
class _Pass:
    """Transforms of lines [outer, n, inner] by NumPy's `function`, which makes `after` elements of `before`."""

    function: str
    outer: Dim
    before: int
    after: int
    inner: int
    factor: float


def lower(instr: Instr, target: Target) -> Unit:
    """Over the innermost dimensions, as many as there are lengths; UnsupportedError where these are not known."""
    lengths = [n for n in instr.attrs["fft_length"] if isinstance(n, int)]
    if len(lengths) != len(instr.attrs["fft_length"]):
        raise UnsupportedError(f"fft of lengths that are not known has no kernel ({instr.name})")
    if product(instr.shape.dims) == 0:
        return Unit(())
    passes, held = list(_passes(instr, lengths)), instr.attrs["fft_type"] == "IRFFT" and len(lengths) > 1
    steps: list[UnitLibrary] = []
    source = UnitRef("operand", 0)
    for number, each in enumerate(passes):
        into = UnitRef("temp", 0) if held and number < len(passes) - 1 else UnitRef("result", 0)
        steps += _calls(each, _bits(instr), source, into)
        source = into
    return Unit(tuple(steps), (instr.operands[0].shape.byte_size,) if held else ())


def _bits(instr: Instr) -> int:
    """Of a real number."""
    dtype = instr.shape.element_type
    return dtype.bits if dtype.is_float else dtype.bits // 2


def _passes(instr: Instr, lengths: list[int]) -> Iterator[_Pass]:
    kind, outer = instr.attrs["fft_type"], product(instr.shape.dims[: -len(lengths)])
    inverse, there = kind in ("IFFT", "IRFFT"), list(lengths)
    if kind == "IRFFT":
        there[-1] = lengths[-1] // 2 + 1
    axes = range(len(lengths))
    for axis in reversed(axes) if kind == "RFFT" else axes:
        n, half = lengths[axis], lengths[axis] // 2 + 1
        last = axis == len(lengths) - 1
        function, before, after = "ifft" if inverse else "fft", n, n
        if last and kind == "RFFT":
            function, after = ("rfft_n_odd" if n % 2 else "rfft_n_even"), half
        elif last and kind == "IRFFT":
            function, before = "irfft", half
        lines = make("mul", outer, math.prod(there[:axis]))
        yield _Pass(function, lines, before, after, math.prod(there[axis + 1 :]), 1 / n if inverse else 1.0)
        there[axis] = after


def _calls(each: _Pass, bits: int, source: UnitRef, into: UnitRef) -> list[UnitLibrary]:
    """A pass over [outer, n, inner] as calls for some of the lines that lie evenly apart."""
    call = _Call(each, bits, source, into)
    if each.inner == 1:
        return [call.step(each.outer, (each.before, each.after), (1, 1))]
    if isinstance(each.outer, int) and each.outer <= _FEW:
        return [call.step(each.inner, (1, 1), (each.inner, each.inner), outer) for outer in range(each.outer)]
    return [call.whole()]


class _Call:
    """Calls of a ufunc's loop: (pointers to operands, extents, steps in bytes, data)."""

    def __init__(self, each: _Pass, bits: int, source: UnitRef, into: UnitRef) -> None:
        self.each, self.bits, self.source, self.into = each, bits, source, into
        self.read = bits // 8 * (1 if each.function.startswith("rfft") else 2)
        self.written = bits // 8 * (1 if each.function == "irfft" else 2)

    def step(self, lines: Dim, apart: tuple[int, int], within: tuple[int, int], outer: int = 0) -> UnitLibrary:
        """Lines that lie `apart` elements (of the operand, of the result) from each other, theirs `within`; of the
        outer index `outer`."""
        many = ceil_div(lines, MAX_TASKS)
        count = make("max", many, make("min", ceil_div(lines, 2), LINES))
        strides = (make("mul", count, apart[0] * self.read), make("mul", count, apart[1] * self.written))
        offsets = (
            outer * self.each.before * self.each.inner * self.read,
            outer * self.each.after * self.each.inner * self.written,
        )
        return self._made(Count(count, lines), ceil_div(lines, count), (strides, offsets), (apart, within), count)

    def whole(self) -> UnitLibrary:
        """All inner lines of an outer index in a call."""
        each = self.each
        strides = (each.before * each.inner * self.read, each.after * each.inner * self.written)
        places = ((1, 1), (each.inner, each.inner))
        return self._made(Number(each.inner), each.outer, (strides, (0, 0)), places, each.inner)

    def _made(
        self,
        lines: Count | Number,
        calls: Dim,
        bases: tuple[tuple[Dim, Dim], tuple[int, int]],
        places: tuple[tuple[int, int], tuple[int, int]],
        count: Dim,
    ) -> UnitLibrary:
        """`bases`: bytes from a call to the next, and of the first. `places`: elements from line to line, in a line."""
        (read_stride, write_stride), (read_offset, write_offset) = bases
        (read_apart, write_apart), (read_within, write_within) = places
        same = self.source == self.into
        operand = (Output if same else Input)(0, read_stride, read_offset)
        pointers = at(operand, real(self.each.factor, self.bits), Output(0, write_stride, write_offset))
        extents = at(lines, Number(self.each.before), Number(self.each.after))
        steps = [read_apart * self.read, 0, write_apart * self.written]
        steps += [read_within * self.read, write_within * self.written]
        sizes = encode((pointers, extents, At(tuple(map(Number, steps))), Data()), calls)
        tasks = tasks_of(calls)
        n = max(self.each.before, self.each.after)
        work = make("mul", make("mul", count, 3 * n * n.bit_length()), ceil_div(calls, tasks))
        inputs = () if same else (self.source,)
        return UnitLibrary(self._routine(), inputs, (self.into,), (), sizes, tasks, work)

    def _routine(self) -> str:
        """The name of the loop, with its types as NumPy writes them."""
        part, whole = ("f", "F") if self.bits == 32 else ("d", "D")
        name = self.each.function
        first, last = part if name.startswith("rfft") else whole, part if name == "irfft" else whole
        return f"{POCKETFFT}{name}.{first}{part}->{last}"
