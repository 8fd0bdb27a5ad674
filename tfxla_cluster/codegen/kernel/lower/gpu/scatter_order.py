"""The units of a scatter in the order of their places, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .....ir.builder import scalar_computation
from .....ir.dim import make, sample
from .....ir.dtype import S64, DType
from .....ir.node import Computation, Instr
from .....ir.shape import array, tuple_of
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import Unit, UnitCopy, UnitKernel, UnitRef
from ..grid import Blocks
from ..sort_line import Line, SortForm
from . import lane_sort, radix_sort, sort
from .scatter_units import Units
from .shapes import lanes

BLOCK = 512  # elements of a program

IDS, ORDER, SORTED_IDS, SORTED_ORDER = (UnitRef("temp", n) for n in range(4))


def sorted_units(units: Units, form: radix_sort.Form) -> Unit:
    """SORTED_IDS: the places of all units in order, SORTED_ORDER: the units' numbers with them, in order where places
    are equal; those outside come last, at the place after all."""
    dtypes = units.place_type, units.number_type
    kinds = [array(d, (units.count,)) for d in dtypes]
    operands = tuple(Instr(f"scatter.{n}", "parameter", k, attrs={"parameter_number": n}) for n, k in enumerate(kinds))
    attrs = {"dimensions": (0,), "is_stable": True, "to_apply": _by_place(*dtypes)}
    instr = Instr("scatter.sort", "sort", tuple_of(*kinds), operands, attrs)
    known = {("result", 0): SORTED_IDS, ("result", 1): SORTED_ORDER}
    steps: list[UnitKernel | UnitCopy] = []
    if isinstance(units.places, int) and sample(units.count) >= sort.RADIX_LENGTH:
        key = radix_sort.Key(0, False, True, units.places.bit_length())
        unit = radix_sort.radix_unit(SortForm(instr), key, form, _Places(units))
        known |= {("temp", 0): IDS, ("temp", 1): ORDER}
        temps = unit.temps[2:]
    else:
        bits = units.places.bit_length() if isinstance(units.places, int) else dtypes[0].bits
        unit = sort.merge_sort(instr, lane_sort.packed(SortForm(instr), radix_sort.Key(0, False, True, bits)))
        known |= {("operand", 0): IDS, ("operand", 1): ORDER}
        steps, temps = [_placed(units)], unit.temps
    shift = 4 - (len(unit.temps) - len(temps))

    def place(ref: UnitRef) -> UnitRef:
        return known.get((ref.kind, ref.index)) or (UnitRef("temp", ref.index + shift) if ref.kind == "temp" else ref)

    for step in unit.steps:
        assert isinstance(step, UnitKernel)
        steps.append(replace(step, inputs=tuple(map(place, step.inputs)), outputs=tuple(map(place, step.outputs))))
    return Unit(tuple(steps), (*[make("mul", units.count, d.itemsize) for d in dtypes * 2], *temps))


def _by_place(place: DType, number: DType) -> Computation:
    """Compares the first of two operands."""
    b = scalar_computation("LT", place)
    rest = tuple(Instr(f"unused.{n}", "parameter", array(number), attrs={"parameter_number": n}) for n in (2, 3))
    return Computation(b.name, (*b.params, *rest, *(i for i in b.instrs if i not in b.params)), b.root)


@dataclass(frozen=True, slots=True)
class _Places:
    """The places and numbers of the units as radix_sort.Elements; `inputs` are operands of the scatter."""

    units: Units

    @property
    def inputs(self) -> tuple[UnitRef, ...]:
        return (UnitRef("operand", self.units.form.count),)

    @property
    def key_inputs(self) -> tuple[UnitRef, ...]:
        return self.inputs

    def values(self, b: KernelBuilder, line: Line | None = None) -> Callable[[Var], Sequence[Var]]:
        keys = self.keys(b)
        return lambda unit: (keys(unit), _narrow(b, unit, self.units.number_type))

    def keys(self, b: KernelBuilder, line: Line | None = None) -> Callable[[Var], Var]:
        indices = b.input(self.units.form.indices.shape.element_type)

        def place_of(unit: Var) -> Var:
            place, valid = self.units.place(b, indices, unit)
            if valid is not None:
                place = b.op("select", valid, place, b.size(self.units.places), dtype=S64)
            return _narrow(b, place, self.units.place_type)

        return place_of


def _placed(units: Units) -> UnitKernel:
    """IDS and ORDER: the places and numbers of the units as they come."""
    b = KernelBuilder("scatter.places", constant=True)
    elements = _Places(units)
    values = elements.values(b)
    results = b.output(units.place_type), b.output(units.number_type)
    blocks = Blocks(units.count, lanes(units.count, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as unit:
        for result, value in zip(results, values(unit)):
            b.store(result, unit, value)
    return UnitKernel(b.finish(blocks.count, 16 * blocks.size), elements.inputs, (IDS, ORDER))


def _narrow(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)
