"""scatter on a GPU: the same numbers whichever program is first, but for sums of floats where the target allows any
order.

Where no element is written twice, a program is a block of updates. So it is where the machine itself updates elements
that several programs reach, with the same result in any order or where any is allowed, unless they are very many. Few
windows go one after the other, each program a stretch of all. Otherwise updates are sorted by where they go (stable, so
that equal ones keep their order) and those of each stretch of equal places are joined before they are combined into the
operand. A combiner that is not known to be associative goes over its stretch one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .....ir.dim import make, product, sample
from .....ir.dtype import S64, DType
from .....ir.node import Computation, Instr
from .....target import Target
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Var
from ...lane_ir import UPDATES
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from .radix_sort import chosen_form
from .scatter_order import BLOCK, SORTED_IDS, SORTED_ORDER, sorted_units
from .scatter_segments import segments_unit
from .scatter_units import Units, as_index
from .shapes import lanes

FEW = 32  # windows that go one after the other
MOST_UPDATES, MOST_HITS = 1 << 24, 4096  # elements that are updated as they come, and of them at one place, on average


def lower(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Results hold the operands first. A window that leaves the operand is skipped whole (XLA's scatter expander).
    Knobs: whether 'atomic', where there is a choice; where updates are sorted, those of the sort and of
    `segments_unit`."""
    units = Units(instr)
    inplace = tuple((i, i) for i in range(units.form.count))
    windows = product(units.form.update_dims[d] for d in units.form.scatter_dims)
    if product(units.form.update_dims) == 0:
        return Unit((), (), inplace)
    if instr.attrs.get("unique_indices") or windows == 1:
        return Unit((_at_once(units),), (), inplace)
    opcodes = _updates(units, target)
    if opcodes is not None and knobs.take("atomic", int(_few_meet(units)), (0, 1)):
        return Unit((_as_they_come(units, opcodes),), (), inplace)
    if units.aligned and sample(windows) <= FEW:
        return Unit((_one_by_one(units),), (), inplace)
    ordered = sorted_units(units, chosen_form(units.count, knobs))
    combined = _combined(units, len(ordered.temps), knobs)
    return Unit((*ordered.steps, *combined.steps), (*ordered.temps, *combined.temps), inplace)


def _open(b: KernelBuilder, units: Units) -> tuple[Buffer, list[Buffer], list[Buffer]]:
    """Indices, updates, results."""
    indices = b.input(units.form.indices.shape.element_type)
    return indices, [b.input(d) for d in units.dtypes], [b.output(d) for d in units.dtypes]


def _inputs(units: Units) -> tuple[UnitRef, ...]:
    return UnitRef("operand", units.form.count), *units.updates


def _at_once(units: Units) -> UnitKernel:
    """All updates, in any order: no two of them meet."""
    b = KernelBuilder("scatter", constant=True)
    indices, updates, results = _open(b, units)
    total = product(units.form.update_dims)
    blocks = Blocks(total, lanes(total, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as number:
        at, valid = units.element(b, indices, number)
        units.combine(b, (results, results), at, [b.load(u, number) for u in updates], valid)
    return UnitKernel(b.finish(blocks.count, 16 * blocks.size), _inputs(units), units.results)


def _updates(units: Units, target: Target) -> tuple[str, ...] | None:
    """For each operand the opcode by which the machine updates it; None where it cannot, or not with the same result
    in any order."""
    joined = _associative(units.instr.attrs["to_apply"], units.form.count)
    if joined is None or not all(map(partial(_in_any_order, target), joined, units.dtypes)):
        return None
    return joined


def _in_any_order(target: Target, opcode: str, dtype: DType) -> bool:
    if opcode not in UPDATES or dtype.bits not in (32, 64) or not (dtype.is_float or dtype.is_integer):
        return False
    return not dtype.is_float or opcode != "add" or target.any_order


def _few_meet(units: Units) -> bool:
    """Whether updates as they come are faster than sorted ones, by the sample sizes."""
    hits = sample(units.count) // max(sample(units.places), 1)
    return sample(product(units.form.update_dims)) < MOST_UPDATES and hits <= MOST_HITS


def _as_they_come(units: Units, opcodes: Sequence[str]) -> UnitKernel:
    """All updates, in any order, whether they meet or not."""
    b = KernelBuilder("scatter.updates", constant=True)
    indices, updates, results = _open(b, units)
    total, roots = product(units.form.update_dims), _roots(units.instr.attrs["to_apply"])
    blocks = Blocks(total, lanes(total, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as number:
        at, valid = units.element(b, indices, number)
        for update, result, opcode, root in zip(updates, results, opcodes, roots):
            value = b.load(update, number)
            b.update(result, at, b.op("negate", value) if root.opcode == "subtract" else value, opcode, valid)
    return UnitKernel(b.finish(blocks.count, 16 * blocks.size), _inputs(units), units.results)


def _one_by_one(units: Units) -> UnitKernel:
    """Windows in order; a program is a stretch of each, a lane always the same element of them."""
    b = KernelBuilder("scatter", constant=True)
    indices, updates, results = _open(b, units)
    blocks = Blocks(units.inner, lanes(units.inner, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as inner, b.loop(b.index(0), b.size(units.count)) as unit:
        place, valid = units.place(b, indices, unit)
        at, source = units.operand_offset(b, place, inner), units.update_offset(b, unit, inner)
        units.combine(b, (results, results), at, [b.load(u, source, valid) for u in updates], valid)
    cost = make("mul", units.count, 16 * blocks.size)
    return UnitKernel(b.finish(blocks.count, cost), _inputs(units), units.results)


def _combined(units: Units, first_temp: int, knobs: Knobs) -> Unit:
    """The updates of each place into the results."""
    joined = _associative(units.instr.attrs["to_apply"], units.form.count)
    if joined is None:
        return Unit((_each_stretch(units),))
    return segments_unit(units, joined, first_temp, knobs)


# What makes one update of two that follow each other, for `old OP update`.
_JOINS = {**dict.fromkeys(("add", "subtract"), "add"), **dict.fromkeys(("multiply", "divide"), "multiply")}
_JOINS |= {op: op for op in ("maximum", "minimum", "and", "or", "xor")}


def _associative(comp: Computation, count: int) -> tuple[str, ...] | None:
    """For each operand the opcode that joins two updates, '' where the later one stands; None where not known."""
    found = []
    for n, root in enumerate(_roots(comp)):
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


def _roots(comp: Computation) -> tuple[Instr, ...]:
    return comp.root.operands if comp.root.opcode == "tuple" else (comp.root,)


def _each_stretch(units: Units) -> UnitKernel:
    """A program is a block of a unit; where a stretch of equal places begins, it goes over all of it."""
    b = KernelBuilder("scatter.stretches", constant=True)
    ids, order = b.input(units.place_type), b.input(units.number_type)
    updates, results = [b.input(d) for d in units.dtypes], [b.output(d) for d in units.dtypes]
    blocks, end = Blocks(units.inner, lanes(units.inner, BLOCK)), b.size(units.count)
    at, block = b.quotient(b.task, b.size(blocks.count)), b.remainder(b.task, b.size(blocks.count))
    own = b.load(ids, at)
    before = b.load(ids, b.op("maximum", b.op("subtract", at, b.index(1)), b.index(0)))
    begins = b.op("or", b.compare(at, b.index(0), "EQ"), b.compare(own, before, "NE"))
    mine = b.op("and", begins, b.compare(as_index(b, own), b.size(units.places), "LT"))

    def same(next_one: Var) -> Var:
        inside = b.compare(next_one, end, "LT")
        return b.op("and", inside, b.compare(b.load(ids, next_one, inside), own, "EQ"))

    def step(now: Var) -> Sequence[Var]:
        with b.tile(*blocks.bounds(b, block), blocks.size) as inner:
            target = units.operand_offset(b, as_index(b, own), inner)
            source = units.update_offset(b, as_index(b, b.load(order, now)), inner)
            units.combine(b, (results, results), target, [b.load(u, source) for u in updates], None)
        return (b.add(now, b.index(1)),)

    b.while_loop([b.op("select", mine, at, end, dtype=S64)], same, step)
    kernel = b.finish(make("mul", units.count, blocks.count), 32 * blocks.size)
    return UnitKernel(kernel, (SORTED_IDS, SORTED_ORDER, *units.updates), units.results)
