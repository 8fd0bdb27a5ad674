"""The units of a scatter in the order of their places, on a GPU."""

from __future__ import annotations

from dataclasses import replace

from .....ir.builder import scalar_computation
from .....ir.dim import make, sample
from .....ir.dtype import S64, DType
from .....ir.node import Computation, Instr
from .....ir.shape import array, tuple_of
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import Unit, UnitCopy, UnitKernel, UnitRef
from ..grid import Blocks
from ..sort_line import SortForm
from . import radix_sort, sort
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
    if isinstance(units.places, int) and sample(units.count) >= sort.RADIX_LENGTH:
        key = radix_sort.Key(0, False, True, units.places.bit_length())
        unit = radix_sort.radix_unit(SortForm(instr), key, form)
    else:
        unit = sort.merge_sort(instr)
    refs = {("operand", n): UnitRef("temp", n) for n in range(2)} | {
        ("result", n): UnitRef("temp", n + 2) for n in range(2)
    }

    def place(ref: UnitRef) -> UnitRef:
        return refs.get((ref.kind, ref.index)) or UnitRef("temp", ref.index + 4)

    steps: list[UnitKernel | UnitCopy] = [_places(units)]
    for step in unit.steps:
        assert isinstance(step, UnitKernel)
        steps.append(replace(step, inputs=tuple(map(place, step.inputs)), outputs=tuple(map(place, step.outputs))))
    return Unit(tuple(steps), (*[make("mul", units.count, d.itemsize) for d in dtypes * 2], *unit.temps))


def _by_place(place: DType, number: DType) -> Computation:
    """Compares the first of two operands."""
    b = scalar_computation("LT", place)
    rest = tuple(Instr(f"unused.{n}", "parameter", array(number), attrs={"parameter_number": n}) for n in (2, 3))
    return Computation(b.name, (*b.params, *rest, *(i for i in b.instrs if i not in b.params)), b.root)


def _places(units: Units) -> UnitKernel:
    b = KernelBuilder("scatter.places", constant=True)
    indices = b.input(units.form.indices.shape.element_type)
    places, order = b.output(units.place_type), b.output(units.number_type)
    blocks = Blocks(units.count, lanes(units.count, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as unit:
        place, valid = units.place(b, indices, unit)
        if valid is not None:
            place = b.op("select", valid, place, b.size(units.places), dtype=S64)
        b.store(places, unit, _narrow(b, place, units.place_type))
        b.store(order, unit, _narrow(b, unit, units.number_type))
    kernel = b.finish(blocks.count, 16 * blocks.size)
    return UnitKernel(kernel, (UnitRef("operand", units.form.count),), (IDS, ORDER))


def _narrow(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)
