"""select-and-scatter: the gradient of max pooling."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import dim as dims_
from ....ir.dtype import PRED, S64
from ....ir.node import Instr
from ....ir.windows import is_trivial
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .inline import inline
from .space import all_of, delinearize, linearize
from .window import coordinate, for_each_position, has_tests, position_count


def lower(instr: Instr, target: Target) -> Unit:
    """operand (f32[...] read for the choice), source (a value a window), init; result like operand.

    Leading dimensions that the window leaves alone are tasks. The last one, where alone too, runs in
    lanes: distinct lanes write distinct elements. Windows of one task run in order, since they may overlap.
    """
    b = KernelBuilder("select_and_scatter")
    operand, source, start = (b.input(o.shape.element_type) for o in instr.operands)
    result = b.output(instr.shape.element_type)
    window = list(instr.attrs["window"])
    full, small = instr.operands[0].shape.dims, instr.operands[1].shape.dims
    lanes = bool(window) and is_trivial(window[-1])
    lead = 0
    while lead < len(window) - 1 and is_trivial(window[lead]):
        lead += 1
    init = b.load(start, b.index(0))
    outer = delinearize(b, b.task, full[:lead])
    region = dims_.product(full[lead:])
    base = b.mul(b.task, b.size(region))
    with b.loop(b.index(0), b.size(region), "vector") as i:
        b.store(result, b.add(base, i), init)

    def visit(index: list[Var]) -> None:
        value = b.load(source, linearize(b, index, small))
        chosen = choose(b, instr, operand, index)
        any_chosen = b.compare(chosen, b.index(0), "GE") if any(map(has_tests, window)) else None
        new = inline(b, instr.attrs["scatter"], [b.load(result, chosen, any_chosen), value])
        b.store(result, chosen, new[0], any_chosen)

    def nest(depth: int, index: list[Var]) -> None:
        if depth == len(small):
            visit(index)
            return
        kind = "vector" if lanes and depth == len(small) - 1 else "serial"
        with b.loop(b.index(0), b.size(small[depth]), kind) as at:
            nest(depth + 1, [*index, at])

    nest(lead, list(outer))
    cost = dims_.make("mul", dims_.product(small[lead:]), position_count(window) * 2 + 2)
    kernel = b.finish(dims_.product(full[:lead]), cost)
    inputs = tuple(UnitRef("operand", i) for i in range(3))
    return Unit((UnitKernel(kernel, inputs, (UnitRef("result", 0),)),))


def choose(b: KernelBuilder, instr: Instr, operand: Buffer, index: Sequence[Var]) -> Var:
    """Offset of the element the window at `index` selects: a later one wins where select is false.

    XLA operation semantics, SelectAndScatter: padding never takes part. -1 of a window that has nothing else.
    """
    window, full = instr.attrs["window"], instr.operands[0].shape.dims

    def step(taps: list[Var], found: Var, best: Var, place: Var) -> tuple[Var, ...]:
        places = [coordinate(b, *row) for row in zip(window, full, index, taps)]
        exists = all_of(b, [test for _, test in places])
        offset = linearize(b, [at for at, _ in places], full)
        value = b.load(operand, offset, exists)
        keep = b.op("and", found, inline(b, instr.attrs["select"], [best, value])[0])
        take = b.op("not", keep)
        if exists is not None:
            take = b.op("and", take, exists)
        new_found = b.const(True, PRED) if exists is None else b.op("or", found, exists)
        return (
            new_found,
            b.op("select", take, value, best, dtype=value.dtype),
            b.op("select", take, offset, place, dtype=S64),
        )

    init = (b.const(False, PRED), b.const(0, instr.operands[0].shape.element_type), b.index(-1))
    return for_each_position(b, window, init, step)[2]
