"""Radix sort of lines on a GPU, for comparators that are the order of one operand.

For each digit of the key, the lowest first, elements go to their places by it, equal ones in order: a kernel counts how
often each digit is in each block of a line, a scan of the counts says where those of a block begin, and a third kernel
counts within the block. Nothing depends on which program is first (Satish et al., "Designing efficient sorting
algorithms for manycore GPUs", 2009, with counters packed in words instead of a split a bit).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .....ir.dim import Dim, make
from .....ir.dtype import S32, S64, DType
from .....ir.node import Computation
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..sort_line import Line, SortForm
from ..total_order import ordered, unsigned_key
from . import scan
from .shapes import lanes

DIGIT_BITS, DIGITS_BITS = 4, (3, 5)  # of the key that a pass sorts by
BLOCK, BLOCKS = 1024, (512, 2048)  # elements of a program
WARPS, SOME_WARPS = 4, (2, 8)
FIELD = 16  # bits of a counter: it counts the elements of a block
WORD = 64 // FIELD  # counters of a word
SCANNED = 32 * 1024  # counts that one program holds


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


def chosen_form(knobs: Knobs) -> Form:
    """Knobs: 'digit' (bits), 'block', 'warps'."""
    return Form(
        knobs.take("digit", DIGIT_BITS, DIGITS_BITS),
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
    passes = _Passes(sort, key, form)
    places = [("temp", "result")[(passes.count - n) % 2 == 0] for n in range(1, passes.count + 1)]
    sources = [first or _Stored(sort, key.operand, "operand"), *(_Stored(sort, key.operand, kind) for kind in places)]
    steps = [step for n, target in enumerate(places) for step in passes.steps(n, sources[n], target)]
    return Unit(tuple(steps), (*(o.shape.byte_size for o in sort.instr.operands), *passes.temps))


class _Passes:
    """`count` of them, of `bits` each, as even as they can be."""

    def __init__(self, sort: SortForm, key: Key, form: Form) -> None:
        self.form, self.key, self.warps = sort, key, form.warps
        self.count = max(1, -(-key.bits // form.bits))
        self.bits = -(-key.bits // self.count)
        self.digits = 1 << self.bits
        self.blocks = Blocks(sort.length, lanes(sort.length, form.block))
        first = len(sort.dtypes)
        self.counts, self.sums = UnitRef("temp", first), UnitRef("temp", first + 1)
        self.counters = make("mul", self.blocks.count, self.digits)
        scanned = scan.scan_unit(_Counts(self), "sort.starts", first + 2, SCANNED)
        self.scans = scanned.steps
        held = make("mul", make("mul", sort.lines, self.counters), S32.itemsize)
        self.temps: tuple[Dim, ...] = (held, held, *scanned.temps)

    def steps(self, number: int, source: Elements, target: str) -> Sequence[UnitKernel]:
        """The kernels of pass `number`."""
        scans = [step for step in self.scans if isinstance(step, UnitKernel)]
        return self._counted(number, source), *scans, self._placed(number, source, target)

    def _builder(self, name: str, source: Elements) -> KernelBuilder:
        """Elements that are computed divide by fixed sizes; what lies in arrays shares its code for all."""
        return KernelBuilder(name, constant=not isinstance(source, _Stored))

    def _open(self, b: KernelBuilder) -> tuple[Line, Var, Var]:
        """The program's line, its number and that of the block."""
        count = b.size(self.blocks.count)
        number, block = b.quotient(b.task, count), b.remainder(b.task, count)
        return Line(b, self.form, number), number, block

    @property
    def _tasks(self) -> Dim:
        return make("mul", self.form.lines, self.blocks.count)

    def _counted(self, number: int, source: Elements) -> UnitKernel:
        """How often each digit is in each block: [line, digit, block]."""
        b = self._builder("sort.counts", source)
        line, which, block = self._open(b)
        keys, counts = source.keys(b, line), b.output(S32)
        zero = b.index(0)
        words = -(-self.digits // WORD)

        def values(at: Var) -> Sequence[Var]:
            return self._ones(b, self._digit(b, number, keys(at)))

        def add(*both: Var) -> Sequence[Var]:
            return [b.op("add", x, y) for x, y in zip(both[:words], both[words:])]

        span = self.blocks.bounds(b, block)
        found = b.reduce(*span, [zero] * words, [0] * words, values, add, "vector", self.blocks.size)
        with b.tile(zero, b.index(self.digits), self.digits, full=True) as digit:
            count = b.op("convert", self._field(b, found, digit), dtype=S32)
            b.store(counts, self._counter(b, which, digit, block), count)
        kernel = b.finish(self._tasks, self.blocks.size * 8 * words, self.warps)
        return UnitKernel(kernel, source.key_inputs, (self.counts,))

    def _placed(self, number: int, source: Elements, target: str) -> UnitKernel:
        """Each element to where its digit's of its block begin, after those before it."""
        b = self._builder("sort.places", source)
        line, which, block = self._open(b)
        elements, sums = source.values(b, line), b.input(S32)
        results = [b.output(d) for d in self.form.dtypes]
        words = -(-self.digits // WORD)
        with b.tile(*self.blocks.bounds(b, block), self.blocks.size) as at:
            values = elements(at)
            digit = self._digit(b, number, values[self.key.operand])
            ones = self._ones(b, digit)
            running = b.scan(at, ones, lambda *both: [b.op("add", x, y) for x, y in zip(both[:words], both[words:])])
            within = b.op("subtract", self._field(b, running, digit), b.index(1))
            first = self._begins(b, sums, which, digit, block)
            line.store(results, b.add(first, within), values)
        kernel = b.finish(self._tasks, self.blocks.size * 16 * words, self.warps)
        return UnitKernel(kernel, (*source.inputs, self.sums), self.form.refs(target))

    def _begins(self, b: KernelBuilder, sums: Buffer, line: Var, digit: Var, block: Var) -> Var:
        """Where the block's elements with the digit go: after all with lower ones, and those of earlier blocks."""
        count = b.size(self.blocks.count)
        place = b.add(b.mul(digit, count), block)
        some = b.compare(place, b.index(0), "GT")
        before = b.op("subtract", self._counter(b, line, digit, block), b.index(1))
        return b.op("convert", b.load(sums, before, some), dtype=S64)

    def _counter(self, b: KernelBuilder, line: Var, digit: Var, block: Var) -> Var:
        return b.add(b.mul(b.add(b.mul(line, b.index(self.digits)), digit), b.size(self.blocks.count)), block)

    def _digit(self, b: KernelBuilder, number: int, value: Var) -> Var:
        """Digit `number` of the key, counted from the lowest. Where it stands is a size: passes share their code."""
        key = self.key.of(b, value)
        if number:
            amount = b.op("convert", b.size(number * self.bits), dtype=key.dtype)
            key = b.op("shift-right-logical", key, amount)
        if key.dtype.bits > self.bits:
            key = b.op("and", key, b.const(self.digits - 1, key.dtype))
        return b.op("convert", key, dtype=S64)

    def _ones(self, b: KernelBuilder, digit: Var) -> list[Var]:
        """Words of counters, all 0 but that of the digit, which is 1."""
        one = b.op("shift-left", b.index(1), self._shift(b, digit))
        word = b.quotient(digit, b.index(WORD))
        return [
            b.op("select", b.compare(word, b.index(n), "EQ"), one, b.index(0), dtype=S64)
            for n in range(-(-self.digits // WORD))
        ]

    def _field(self, b: KernelBuilder, words: Sequence[Var], digit: Var) -> Var:
        """The counter of a digit."""
        word, found = b.quotient(digit, b.index(WORD)), words[0]
        for n, other in enumerate(words[1:], 1):
            found = b.op("select", b.compare(word, b.index(n), "EQ"), other, found, dtype=S64)
        found = b.op("shift-right-logical", found, self._shift(b, digit))
        return b.op("and", found, b.index((1 << FIELD) - 1))

    def _shift(self, b: KernelBuilder, digit: Var) -> Var:
        return b.mul(b.remainder(digit, b.index(WORD)), b.index(FIELD))


class _Counts:
    """The counts of a line's blocks, digit by digit, as scan.Lines."""

    def __init__(self, passes: _Passes) -> None:
        self.outer, self.length = passes.form.lines, passes.counters
        self.inner: Dim = 1
        self.dtypes: tuple[DType, ...] = (S32,)
        self.inputs, self.outputs = (passes.counts,), (passes.sums,)

    def open(self, b: KernelBuilder, writes: bool) -> _CountsBody:
        return _CountsBody(b, self.length, writes)

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        return (b.op("add", left[0], right[0]),)


class _CountsBody:
    def __init__(self, b: KernelBuilder, length: Dim, writes: bool) -> None:
        self.b, self.length, self.counts = b, length, b.input(S32)
        self.sums = b.output(S32) if writes else None

    def load(self, place: scan.Place, mask: Var | None) -> Sequence[Var]:
        return (self.b.load(self.counts, self._at(place), mask),)

    def store(self, place: scan.Place, values: Sequence[Var], mask: Var | None) -> None:
        assert self.sums is not None
        self.b.store(self.sums, self._at(place), values[0], mask)

    def first(self) -> None:
        return None

    def _at(self, place: scan.Place) -> Var:
        return self.b.add(self.b.mul(place[0], self.b.size(self.length)), place[1])
