"""Radix sort of lines on a GPU, for comparators that are the order of one operand.

For each digit of the key, the lowest first, elements go to their places by it, equal ones in order: a kernel counts how
often each digit is in each block of a line, a scan of the counts says where those of a block begin, and a third kernel
counts within the block, its counters packed in words. Nothing depends on which program is first (Satish et al.,
"Designing efficient sorting algorithms for manycore GPUs", 2009). Of wide digits there are too many counters: there the
machine updates those in memory, and a block is sorted by its digits before its elements go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .....ir.dim import Dim, make, sample
from .....ir.dtype import S32, S64, U32, DType
from .....ir.node import Computation
from .....ir.size_proofs import at_most
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..sort_line import Line, SortForm
from ..total_order import ordered, unsigned_key
from . import scan, scan_lines
from .shapes import lanes

DIGIT_BITS, DIGITS_BITS = 4, (3, 5, 8)  # of the key that a pass sorts by
WIDE = 8  # bits of a digit from which on a block is sorted by its digits
BLOCK, BLOCKS = 512, (128, 256, 1024, 2048)  # elements of a program
WARPS, SOME_WARPS = 4, (1, 2, 8)
SHORT = 128 * 1024  # elements up to which the number of passes tells more than the work of each
SCANNED = 32 * 1024  # counts that one program holds
CLEARED = 1024  # counts of a program


@dataclass(frozen=True, slots=True)
class Key:
    """The operand whose order it is, whether greater ones come first, whether -0 comes before 0, and how many bits of
    the key differ at all, the lowest ones."""

    operand: int
    descending: bool
    signed_zero: bool
    bits: int

    def of(self, b: KernelBuilder, value: Var) -> Var:
        if value.dtype.is_float and not self.signed_zero:
            value = b.op("add", value, b.const(0, value.dtype))  # -0 + 0 is 0
        return unsigned_key(b, value, self.descending)


def key_of(comparator: Computation, dtypes: Sequence[DType]) -> Key | None:
    """The key of a sort of operands of `dtypes`, where the comparator compares those of one operand and no more."""
    root = comparator.root
    if root.opcode != "compare" or root.attrs["direction"] not in ("LT", "GT"):
        return None
    if root.operands[0] not in comparator.params:
        return None
    number, side = divmod(comparator.params.index(root.operands[0]), 2)
    pair = comparator.params[2 * number : 2 * number + 2]
    if root.operands not in (pair, pair[::-1]) or not ordered(dtypes[number]):
        return None
    descending = (root.attrs["direction"] == "GT") == (side == 0)
    return Key(number, descending, root.attrs.get("type") == "TOTALORDER", dtypes[number].bits)


@dataclass(frozen=True, slots=True)
class Form:
    """`bits` of a digit, elements of a `block`, `warps` of a program."""

    bits: int
    block: int
    warps: int


def chosen_form(elements: Dim, knobs: Knobs) -> Form:
    """For so many elements in all lines. Knobs: 'digit' (bits), 'block', 'warps'."""
    return Form(
        knobs.take("digit", DIGIT_BITS + int(sample(elements) <= SHORT), (*DIGITS_BITS, DIGIT_BITS)),
        knobs.take("block", BLOCK, BLOCKS),
        knobs.take("warps", WARPS, SOME_WARPS),
    )


class Elements(Protocol):
    """Where a pass has its elements from."""

    @property
    def inputs(self) -> tuple[UnitRef, ...]: ...

    @property
    def key_inputs(self) -> tuple[UnitRef, ...]: ...

    def values(self, b: KernelBuilder, line: Line) -> Callable[[Var], Sequence[Var]]:
        """Declares `inputs` as buffers; the values of all operands by the position in the line."""

    def keys(self, b: KernelBuilder, line: Line) -> Callable[[Var], Var]:
        """Declares `key_inputs`; the values of the operand that decides."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Elements that lie in arrays of a `kind` of reference."""

    sort: SortForm
    key: int
    kind: str

    @property
    def inputs(self) -> tuple[UnitRef, ...]:
        return self.sort.refs(self.kind)

    @property
    def key_inputs(self) -> tuple[UnitRef, ...]:
        return (UnitRef(self.kind, self.key),)

    def values(self, b: KernelBuilder, line: Line) -> Callable[[Var], Sequence[Var]]:
        sources = [b.input(d) for d in self.sort.dtypes]
        return lambda at: line.load(sources, at)

    def keys(self, b: KernelBuilder, line: Line) -> Callable[[Var], Var]:
        source = b.input(self.sort.dtypes[self.key])
        return lambda at: b.load(source, line.at(at))


def radix_unit(sort: SortForm, key: Key, form: Form, first: Elements | None = None) -> Unit:
    """Temporaries: as many arrays as there are operands, then the counts. `first`: where the elements are from, if they
    are not in the operands."""
    passes = (_WidePasses if form.bits >= WIDE else _Passes)(sort, key, form)
    places = [("temp", "result")[(passes.count - n) % 2 == 0] for n in range(1, passes.count + 1)]
    sources = [first or _Stored(sort, key.operand, "operand"), *(_Stored(sort, key.operand, kind) for kind in places)]
    steps = [step for n, target in enumerate(places) for step in passes.steps(n, sources[n], target)]
    return Unit(tuple(steps), (*(o.shape.byte_size for o in sort.instr.operands), *passes.temps))


class _Passes:
    """`count` of them, of `bits` each, as even as they can be. `index`: the type of positions in a line, which counts
    have too."""

    def __init__(self, sort: SortForm, key: Key, form: Form) -> None:
        self.form, self.key, self.warps = sort, key, form.warps
        self.count = max(1, -(-key.bits // form.bits))
        self.bits = -(-key.bits // self.count)
        self.index = S32 if at_most(sort.length, 2**31 - 1) else S64
        self.blocks = Blocks(sort.length, lanes(sort.length, form.block))
        self.counters = _Counters(1 << self.bits, self.blocks.size.bit_length())
        first = len(sort.dtypes)
        self.counts, self.sums = UnitRef("temp", first), UnitRef("temp", first + 1)
        self.digits = make("mul", self.blocks.count, self.counters.digits)
        scanned = scan.scan_unit(_Counts(self), "sort.starts", first + 2, scan.Form(SCANNED))
        self.scans = scanned.steps
        held = make("mul", make("mul", sort.lines, self.digits), self.index.itemsize)
        self.temps: tuple[Dim, ...] = (held, held, *scanned.temps)

    def steps(self, number: int, source: Elements, target: str) -> Sequence[UnitKernel]:
        """The kernels of pass `number`."""
        scans = [step for step in self.scans if isinstance(step, UnitKernel)]
        return self._counted(number, source), *scans, self._placed(number, source, target)

    def _builder(self, name: str, source: Elements) -> KernelBuilder:
        """Elements that are computed divide by fixed sizes; what lies in arrays shares its code for all."""
        return KernelBuilder(name, constant=not isinstance(source, _Stored))

    def _open(self, b: KernelBuilder) -> tuple[Line, Var, Var]:
        """The program's line, where its counts begin, and the number of its block."""
        count = b.size(self.blocks.count)
        number, block = b.quotient(b.task, count), b.remainder(b.task, count)
        return Line(b, self.form, number), b.mul(number, b.size(self.digits)), block

    @property
    def _tasks(self) -> Dim:
        return make("mul", self.form.lines, self.blocks.count)

    def _counted(self, number: int, source: Elements) -> UnitKernel:
        """How often each digit is in each block: [line, digit, block]."""
        b = self._builder("sort.counts", source)
        line, base, block = self._open(b)
        keys, counts, counters = source.keys(b, line), b.output(self.index), self.counters

        def values(at: Var) -> Sequence[Var]:
            return counters.ones(b, self._digit(b, number, keys(at)))

        span, zeros = self.blocks.bounds(b, block), [b.const(0, S32)] * counters.words
        found = b.reduce(*span, zeros, [0] * counters.words, values, counters.add(b), "vector", self.blocks.size)
        with b.tile(b.index(0), b.index(counters.digits), counters.digits, full=True) as at:
            count = counters.of(b, found, b.op("convert", at, dtype=S32))
            place = b.add(base, b.add(b.mul(at, b.size(self.blocks.count)), block))
            b.store(counts, place, _as(b, count, self.index))
        kernel = b.finish(self._tasks, self.blocks.size * 8 * counters.words, self.warps)
        return UnitKernel(kernel, source.key_inputs, (self.counts,))

    def _placed(self, number: int, source: Elements, target: str) -> UnitKernel:
        """Each element to where its digit's of its block begin, after those before it."""
        b = self._builder("sort.places", source)
        line, base, block = self._open(b)
        elements, sums, counters = source.values(b, line), b.input(self.index), self.counters
        results = [b.output(d) for d in self.form.dtypes]
        with b.tile(*self.blocks.bounds(b, block), self.blocks.size) as at:
            values = elements(at)
            digit = self._digit(b, number, values[self.key.operand])
            running = b.scan(at, counters.ones(b, digit), counters.add(b))
            within = b.op("subtract", counters.of(b, running, digit), b.const(1, S32))
            first = self._begins(b, sums, base, digit, block)
            line.store(results, _as(b, b.add(first, _as(b, within, self.index)), S64), values)
        kernel = b.finish(self._tasks, self.blocks.size * 16 * counters.words, self.warps)
        return UnitKernel(kernel, (*source.inputs, self.sums), self.form.refs(target))

    def _begins(self, b: KernelBuilder, sums: Buffer, base: Var, digit: Var, block: Var) -> Var:
        """Where the block's elements with the digit go: after all with lower ones, and those of earlier blocks."""
        count, number = (_as(b, v, self.index) for v in (b.size(self.blocks.count), block))
        place = b.add(b.mul(_as(b, digit, self.index), count), number)
        some = b.compare(place, b.const(0, self.index), "GT")
        before = _as(b, b.op("subtract", place, b.const(1, self.index)), S64)
        return b.load(sums, b.add(base, before), some)

    def _digit(self, b: KernelBuilder, number: int, value: Var) -> Var:
        """Digit `number` of the key, counted from the lowest. Where it stands is a size: passes share their code."""
        key = self.key.of(b, value)
        if number:
            amount = b.op("convert", b.size(number * self.bits), dtype=key.dtype)
            key = b.op("shift-right-logical", key, amount)
        if key.dtype.bits > self.bits:
            key = b.op("and", key, b.const(self.counters.digits - 1, key.dtype))
        return b.op("convert", key, dtype=S32)


class _WidePasses(_Passes):
    """Counts are added up in memory, which is cleared before each pass; elements of a block are sorted by digit and
    place in it."""

    def steps(self, number: int, source: Elements, target: str) -> Sequence[UnitKernel]:
        return self._cleared(), *super().steps(number, source, target)

    def _cleared(self) -> UnitKernel:
        b = KernelBuilder("sort.clear")
        counts, total = b.output(self.index), make("mul", self.form.lines, self.digits)
        some = Blocks(total, CLEARED)
        with b.tile(*some.bounds(b, b.task), some.size) as at:
            b.store(counts, at, b.const(0, self.index))
        return UnitKernel(b.finish(some.count, some.size), (), (self.counts,))

    def _counted(self, number: int, source: Elements) -> UnitKernel:
        b = self._builder("sort.counts", source)
        line, base, block = self._open(b)
        keys, counts = source.keys(b, line), b.output(self.index)
        with b.tile(*self.blocks.bounds(b, block), self.blocks.size) as at:
            digit = _as(b, self._digit(b, number, keys(at)), S64)
            place = b.add(base, b.add(b.mul(digit, b.size(self.blocks.count)), block))
            b.update(counts, place, b.const(1, self.index), "add")
        return UnitKernel(b.finish(self._tasks, self.blocks.size * 8, self.warps), source.key_inputs, (self.counts,))

    def _placed(self, number: int, source: Elements, target: str) -> UnitKernel:
        b = self._builder("sort.places", source)
        line, base, block = self._open(b)
        elements, keys, sums = source.values(b, line), source.keys(b, line), b.input(self.index)
        results = [b.output(d) for d in self.form.dtypes]
        start, stop = self.blocks.bounds(b, block)
        place_bits = (self.blocks.size - 1).bit_length()
        with b.tile(start, stop, self.blocks.size) as at:
            digit = _as(b, self._digit(b, number, keys(at)), U32)
            own = b.op(
                "or", b.op("shift-left", digit, b.const(place_bits, U32)), _as(b, b.op("subtract", at, start), U32)
            )
            found = b.sort_lanes(at, own)
            place = b.op("and", found, b.const(self.blocks.size - 1, U32))
            digit = _as(b, b.op("shift-right-logical", found, b.const(place_bits, U32)), S32)
            _, running = b.scan(at, (digit, b.const(1, S32)), _running(b))
            within = b.op("subtract", running, b.const(1, S32))
            first = self._begins(b, sums, base, digit, block)
            values = elements(b.add(start, _as(b, place, S64)))
            line.store(results, _as(b, b.add(first, _as(b, within, self.index)), S64), values)
        kernel = b.finish(self._tasks, self.blocks.size * 100, self.warps)
        return UnitKernel(kernel, (*source.inputs, *source.key_inputs, self.sums), self.form.refs(target))


def _running(b: KernelBuilder) -> Callable[..., Sequence[Var]]:
    """Of (digit, count): how many of the digit end there, where equal digits stand together."""

    def joined(left: Var, before: Var, right: Var, count: Var) -> Sequence[Var]:
        same = b.compare(left, right, "EQ")
        return right, b.op("add", count, b.op("select", same, before, b.const(0, S32), dtype=S32))

    return joined


@dataclass(frozen=True, slots=True)
class _Counters:
    """A counter of `bits` for each of `digits`, several in a word."""

    digits: int
    bits: int

    @property
    def per_word(self) -> int:
        return S32.bits // self.bits

    @property
    def words(self) -> int:
        return -(-self.digits // self.per_word)

    def ones(self, b: KernelBuilder, digit: Var) -> list[Var]:
        """All counters 0, but that of the digit 1."""
        one, zero = b.op("shift-left", b.const(1, S32), self._amount(b, digit)), b.const(0, S32)
        return [b.op("select", self._in_word(b, digit, n), one, zero, dtype=S32) for n in range(self.words)]

    def of(self, b: KernelBuilder, words: Sequence[Var], digit: Var) -> Var:
        """The counter of a digit."""
        found = words[0]
        for n, word in enumerate(words[1:], 1):
            found = b.op("select", self._in_word(b, digit, n), word, found, dtype=S32)
        found = b.op("shift-right-logical", found, self._amount(b, digit))
        return b.op("and", found, b.const((1 << self.bits) - 1, S32))

    def add(self, b: KernelBuilder) -> Callable[..., Sequence[Var]]:
        return lambda *both: [b.op("add", x, y) for x, y in zip(both[: self.words], both[self.words :])]

    def _in_word(self, b: KernelBuilder, digit: Var, number: int) -> Var:
        return b.compare(b.quotient(digit, b.const(self.per_word, S32)), b.const(number, S32), "EQ")

    def _amount(self, b: KernelBuilder, digit: Var) -> Var:
        return b.mul(b.remainder(digit, b.const(self.per_word, S32)), b.const(self.bits, S32))


def _as(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)


class _Counts:
    """The counts of a line's blocks, digit by digit, as scan.Lines."""

    def __init__(self, passes: _Passes) -> None:
        self.outer, self.length = passes.form.lines, passes.digits
        self.inner: Dim = 1
        self.dtypes: tuple[DType, ...] = (passes.index,)
        self.neutral = (0,)
        self.inputs, self.outputs = (passes.counts,), (passes.sums,)

    def open(self, b: KernelBuilder, writes: bool) -> _CountsBody:
        return _CountsBody(b, self, writes)

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        return (b.op("add", left[0], right[0]),)


class _CountsBody:
    def __init__(self, b: KernelBuilder, lines: _Counts, writes: bool) -> None:
        self.b, self.length, self.counts = b, lines.length, b.input(lines.dtypes[0])
        self.sums = b.output(lines.dtypes[0]) if writes else None

    def load(self, place: scan_lines.Place, mask: Var | None) -> Sequence[Var]:
        return (self.b.load(self.counts, self._at(place), mask),)

    def store(self, place: scan_lines.Place, values: Sequence[Var], mask: Var | None) -> None:
        assert self.sums is not None
        self.b.store(self.sums, self._at(place), values[0], mask)

    def first(self) -> None:
        return None

    def _at(self, place: scan_lines.Place) -> Var:
        return self.b.add(self.b.mul(place[0], self.b.size(self.length)), place[1])
