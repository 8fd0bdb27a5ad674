"""scatter on a GPU: the same numbers whichever program is first.

Where no element is written twice, a program is a block of updates. Few windows go one after the other, each program a
stretch of all. Otherwise updates are sorted by where they go (stable, so that equal ones keep their order) and the
running values of each stretch of equal places are scanned: the last of a stretch is combined into the operand. A
combiner that is not known to be associative goes over its stretch one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from .....ir.builder import scalar_computation
from .....ir.dim import Dim, make, product, sample
from .....ir.dtype import PRED, S32, S64, DType
from .....ir.node import Computation, Instr
from .....ir.shape import array, tuple_of
from .....target import Target
from ...builder import KernelBuilder
from ...ir import Buffer, Var
from ...unit import Unit, UnitCopy, UnitKernel, UnitRef
from ..grid import Blocks
from ..inline import inline
from ..scatter import Form, window_start
from ..space import all_of, delinearize, linearize
from . import scan, sort
from .shapes import lanes

BLOCK = 512  # elements of a program
FEW = 32  # windows that go one after the other

IDS, ORDER, SORTED_IDS, SORTED_ORDER = (UnitRef("temp", n) for n in range(4))


def lower(instr: Instr, target: Target) -> Unit:
    """Results hold the operands first. A window that leaves the operand is skipped whole (XLA's scatter expander)."""
    units = _Units(instr)
    inplace = tuple((i, i) for i in range(units.form.count))
    windows = product(units.form.update_dims[d] for d in units.form.scatter_dims)
    if product(units.form.update_dims) == 0:
        return Unit((), (), inplace)
    if instr.attrs.get("unique_indices") or windows == 1:
        return Unit((_at_once(units),), (), inplace)
    if units.aligned and sample(windows) <= FEW:
        return Unit((_one_by_one(units),), (), inplace)
    sorted_ids = _sorted(units)
    combined = _combined(units, len(sorted_ids.temps))
    steps = (*sorted_ids.steps, *combined.steps)
    return Unit(steps, (*sorted_ids.temps, *combined.temps), inplace)


class _Units:
    """What is sorted: whole windows where two of them are apart or in one place (`aligned`), else single elements.

    `count` units of `inner` elements; `places` is how many places a unit can have.
    """

    def __init__(self, instr: Instr) -> None:
        self.instr, self.form = instr, Form(instr)
        form, sizes = self.form, self.form.window_sizes()
        self.dims = form.operands[0].shape.dims
        self.aligned = all(sizes[d] == 1 for d in form.to_operand)
        self.scatter_sizes = [form.update_dims[d] for d in form.scatter_dims]
        self.window_sizes = [form.update_dims[d] for d in form.window_dims]
        fixed = {*form.to_operand, *(d for d, _ in form.batching)}
        self.key_dims = [d for d in range(form.rank) if not self.aligned or d in fixed]
        self.places = product(self.dims[d] for d in self.key_dims)
        self.count = product(self.scatter_sizes if self.aligned else form.update_dims)
        self.inner = product(self.window_sizes) if self.aligned else 1

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(o.shape.element_type for o in self.form.operands)

    @cached_property
    def index_type(self) -> DType:
        """Of a place and of a unit's number."""
        known = [d for d in (self.places, self.count) if isinstance(d, int)]
        return S32 if len(known) == 2 and max(known) < 2**31 - 1 else S64

    @property
    def updates(self) -> tuple[UnitRef, ...]:
        return tuple(UnitRef("operand", self.form.count + 1 + i) for i in range(self.form.count))

    @property
    def results(self) -> tuple[UnitRef, ...]:
        return tuple(UnitRef("result", i) for i in range(self.form.count))

    def element(self, b: KernelBuilder, indices: Buffer, number: Var) -> tuple[Var, Var | None]:
        """Offset in the operand of update element `number`, and the test that its window lies inside."""
        index = delinearize(b, number, self.form.update_dims)
        at, window = [index[d] for d in self.form.scatter_dims], [index[d] for d in self.form.window_dims]
        start, valid = window_start(b, self.form, indices, at)
        return linearize(b, self._target(b, start, window), self.dims), valid

    def place(self, b: KernelBuilder, indices: Buffer, unit: Var) -> tuple[Var, Var | None]:
        """The number of the unit's place, and the test that its window lies inside."""
        if not self.aligned:
            return self.element(b, indices, unit)
        start, valid = window_start(b, self.form, indices, delinearize(b, unit, self.scatter_sizes))
        return linearize(b, [start[d] for d in self.key_dims], [self.dims[d] for d in self.key_dims]), valid

    def update_offset(self, b: KernelBuilder, unit: Var, inner: Var) -> Var:
        if not self.aligned:
            return unit
        index = [b.index(0)] * len(self.form.update_dims)
        for dim, value in zip(self.form.scatter_dims, delinearize(b, unit, self.scatter_sizes)):
            index[dim] = value
        for dim, value in zip(self.form.window_dims, delinearize(b, inner, self.window_sizes)):
            index[dim] = value
        return linearize(b, index, self.form.update_dims)

    def operand_offset(self, b: KernelBuilder, place: Var, inner: Var) -> Var:
        """Of an element of a unit at `place`."""
        if not self.aligned:
            return place
        start = [b.index(0)] * self.form.rank
        for dim, value in zip(self.key_dims, delinearize(b, place, [self.dims[d] for d in self.key_dims])):
            start[dim] = value
        return linearize(b, self._target(b, start, delinearize(b, inner, self.window_sizes)), self.dims)

    def _target(self, b: KernelBuilder, start: Sequence[Var], window: Sequence[Var]) -> list[Var]:
        target = list(start)
        for dim, value in zip(self.form.window_to_operand, window):
            target[dim] = b.add(start[dim], value)
        return target

    def combine(
        self, b: KernelBuilder, results: Sequence[Buffer], at: Var, new: Sequence[Var], mask: Var | None
    ) -> None:
        """One update of the results."""
        old = [b.load(r, at, mask) for r in results]
        for result, value in zip(results, inline(b, self.instr.attrs["to_apply"], [*old, *new])):
            b.store(result, at, value, mask)


def _open(b: KernelBuilder, units: _Units) -> tuple[Buffer, list[Buffer], list[Buffer]]:
    """Indices, updates, results."""
    indices = b.input(units.form.indices.shape.element_type)
    return indices, [b.input(d) for d in units.dtypes], [b.output(d) for d in units.dtypes]


def _inputs(units: _Units) -> tuple[UnitRef, ...]:
    return UnitRef("operand", units.form.count), *units.updates


def _at_once(units: _Units) -> UnitKernel:
    """All updates, in any order: no two of them meet."""
    b = KernelBuilder("scatter", constant=True)
    indices, updates, results = _open(b, units)
    total = product(units.form.update_dims)
    blocks = Blocks(total, lanes(total, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as number:
        at, valid = units.element(b, indices, number)
        units.combine(b, results, at, [b.load(u, number) for u in updates], valid)
    return UnitKernel(b.finish(blocks.count, 16 * blocks.size), _inputs(units), units.results)


def _one_by_one(units: _Units) -> UnitKernel:
    """Windows in order; a program is a stretch of each, a lane always the same element of them."""
    b = KernelBuilder("scatter", constant=True)
    indices, updates, results = _open(b, units)
    blocks = Blocks(units.inner, lanes(units.inner, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as inner, b.loop(b.index(0), b.size(units.count)) as unit:
        place, valid = units.place(b, indices, unit)
        at, source = units.operand_offset(b, place, inner), units.update_offset(b, unit, inner)
        units.combine(b, results, at, [b.load(u, source, valid) for u in updates], valid)
    cost = make("mul", units.count, 16 * blocks.size)
    return UnitKernel(b.finish(blocks.count, cost), _inputs(units), units.results)


def _sorted(units: _Units) -> Unit:
    """The places of all units in order, and the units' numbers with them; those outside come last."""
    dtype = units.index_type
    kind = array(dtype, (units.count,))
    operands = tuple(Instr(f"scatter.{n}", "parameter", kind, attrs={"parameter_number": n}) for n in range(2))
    attrs = {"dimensions": (0,), "is_stable": True, "to_apply": _by_place(dtype)}
    unit = sort.lower(Instr("scatter.sort", "sort", tuple_of(kind, kind), operands, attrs), Target("gpu", ""))
    refs = {("operand", n): UnitRef("temp", n) for n in range(2)} | {
        ("result", n): UnitRef("temp", n + 2) for n in range(2)
    }

    def place(ref: UnitRef) -> UnitRef:
        return refs.get((ref.kind, ref.index)) or UnitRef("temp", ref.index + 4)

    steps: list[UnitKernel | UnitCopy] = [_places(units)]
    for step in unit.steps:
        assert isinstance(step, UnitKernel)
        steps.append(replace(step, inputs=tuple(map(place, step.inputs)), outputs=tuple(map(place, step.outputs))))
    return Unit(tuple(steps), (*[make("mul", units.count, dtype.itemsize)] * 4, *unit.temps))


def _by_place(dtype: DType) -> Computation:
    """Compares the first of two operands."""
    b = scalar_computation("LT", dtype)
    rest = tuple(Instr(f"unused.{n}", "parameter", array(dtype), attrs={"parameter_number": n}) for n in (2, 3))
    return Computation(b.name, (*b.params, *rest, *(i for i in b.instrs if i not in b.params)), b.root)


def _places(units: _Units) -> UnitKernel:
    b = KernelBuilder("scatter.places", constant=True)
    indices = b.input(units.form.indices.shape.element_type)
    places, order = b.output(units.index_type), b.output(units.index_type)
    blocks = Blocks(units.count, lanes(units.count, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as unit:
        place, valid = units.place(b, indices, unit)
        if valid is not None:
            place = b.op("select", valid, place, b.size(units.places), dtype=S64)
        b.store(places, unit, _narrow(b, place, units.index_type))
        b.store(order, unit, _narrow(b, unit, units.index_type))
    kernel = b.finish(blocks.count, 16 * blocks.size)
    return UnitKernel(kernel, (UnitRef("operand", units.form.count),), (IDS, ORDER))


def _narrow(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)


def _combined(units: _Units, first_temp: int) -> Unit:
    """The updates of each place into the results."""
    joined = _associative(units.instr.attrs["to_apply"], units.form.count)
    if joined is None:
        return Unit((_each_stretch(units),))
    return scan.scan_unit(_Stretches(units, joined), "scatter", first_temp)


# What makes one update of two that follow each other, for `old OP update`.
_JOINS = {**dict.fromkeys(("add", "subtract"), "add"), **dict.fromkeys(("multiply", "divide"), "multiply")}
_JOINS |= {op: op for op in ("maximum", "minimum", "and", "or", "xor")}


def _associative(comp: Computation, count: int) -> tuple[str, ...] | None:
    """For each operand the opcode that joins two updates, '' where the later one stands; None where not known."""
    roots = comp.root.operands if comp.root.opcode == "tuple" else (comp.root,)
    found = []
    for n, root in enumerate(roots):
        old, new = comp.params[n], comp.params[n + count]
        if root is new:
            found.append("")
            continue
        apart = root.operands == (old, new) or (
            root.operands == (new, old) and root.opcode not in ("subtract", "divide")
        )
        if root.opcode not in _JOINS or not apart or root.shape.dtype != old.shape.dtype:
            return None
        if root.opcode == "divide" and not old.shape.element_type.is_float:
            return None
        found.append(_JOINS[root.opcode])
    return tuple(found)


class _Stretches:
    """Updates in the order of their places, as scan.Lines: a flag says where a stretch of equal places begins."""

    def __init__(self, units: _Units, joined: Sequence[str]) -> None:
        self.units, self.joined = units, joined
        self.outer: Dim = 1
        self.length, self.inner = units.count, units.inner
        self.dtypes = (PRED, *units.dtypes)
        self.inputs, self.outputs = (SORTED_IDS, SORTED_ORDER, *units.updates), units.results

    def open(self, b: KernelBuilder, writes: bool) -> _StretchesBody:
        return _StretchesBody(b, self.units, writes)

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        begins = right[0]
        found = [b.op("or", left[0], begins)]
        for opcode, one, two in zip(self.joined, left[1:], right[1:]):
            both = b.op(opcode, one, two) if opcode else two
            found.append(b.op("select", begins, two, both, dtype=two.dtype) if opcode else two)
        return found


class _StretchesBody:
    def __init__(self, b: KernelBuilder, units: _Units, writes: bool) -> None:
        self.b, self.units = b, units
        self.ids, self.order = b.input(units.index_type), b.input(units.index_type)
        self.updates = [b.input(d) for d in units.dtypes]
        self.results = [b.output(d) for d in units.dtypes if writes]

    def load(self, place: scan.Place, mask: Var | None) -> Sequence[Var]:
        b, (_, at, inner) = self.b, place
        first = b.compare(at, b.index(0), "EQ")
        before = b.op("maximum", b.op("subtract", at, b.index(1)), b.index(0))
        begins = b.op("or", first, self._differ(before, at, mask))
        unit = _index(b, b.load(self.order, at, mask))
        source = self.units.update_offset(b, unit, inner)
        return [begins, *(b.load(u, source, mask) for u in self.updates)]

    def store(self, place: scan.Place, values: Sequence[Var], mask: Var | None) -> None:
        b, (_, at, inner) = self.b, place
        end = b.op("subtract", b.size(self.units.count), b.index(1))
        after = b.op("minimum", b.add(at, b.index(1)), end)
        last = b.op("or", b.compare(at, end, "EQ"), self._differ(at, after, mask))
        target = _index(b, b.load(self.ids, at, mask))
        writes = all_of(b, [mask, last, b.compare(target, b.size(self.units.places), "LT")])
        self.units.combine(b, self.results, self.units.operand_offset(b, target, inner), values[1:], writes)

    def first(self) -> None:
        return None

    def _differ(self, one: Var, other: Var, mask: Var | None) -> Var:
        return self.b.compare(self.b.load(self.ids, one, mask), self.b.load(self.ids, other, mask), "NE")


def _index(b: KernelBuilder, value: Var) -> Var:
    return value if value.dtype == S64 else b.op("convert", value, dtype=S64)


def _each_stretch(units: _Units) -> UnitKernel:
    """A program is a block of a unit; where a stretch of equal places begins, it goes over all of it."""
    b = KernelBuilder("scatter.stretches", constant=True)
    ids, order = b.input(units.index_type), b.input(units.index_type)
    updates, results = [b.input(d) for d in units.dtypes], [b.output(d) for d in units.dtypes]
    blocks, end = Blocks(units.inner, lanes(units.inner, BLOCK)), b.size(units.count)
    at, block = b.quotient(b.task, b.size(blocks.count)), b.remainder(b.task, b.size(blocks.count))
    own = b.load(ids, at)
    before = b.load(ids, b.op("maximum", b.op("subtract", at, b.index(1)), b.index(0)))
    begins = b.op("or", b.compare(at, b.index(0), "EQ"), b.compare(own, before, "NE"))
    mine = b.op("and", begins, b.compare(_index(b, own), b.size(units.places), "LT"))

    def same(next_one: Var) -> Var:
        inside = b.compare(next_one, end, "LT")
        return b.op("and", inside, b.compare(b.load(ids, next_one, inside), own, "EQ"))

    def step(now: Var) -> Sequence[Var]:
        with b.tile(*blocks.bounds(b, block), blocks.size) as inner:
            target = units.operand_offset(b, _index(b, own), inner)
            source = units.update_offset(b, _index(b, b.load(order, now)), inner)
            units.combine(b, results, target, [b.load(u, source) for u in updates], None)
        return (b.add(now, b.index(1)),)

    b.while_loop([b.op("select", mine, at, end, dtype=S64)], same, step)
    kernel = b.finish(make("mul", units.count, blocks.count), 32 * blocks.size)
    return UnitKernel(kernel, (SORTED_IDS, SORTED_ORDER, *units.updates), units.results)
