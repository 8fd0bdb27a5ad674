"""layout-normaliser: drop layouts. Buffers of ours are row-major, and values do not depend on layouts.

copy --> its operand; bitcast, which does depend on them --> transpose, reshape, transpose.
"""

from __future__ import annotations

from dataclasses import replace as replace_fields

from ..ir.node import Computation, Instr
from ..ir.rewrite import rebuild
from ..ir.shape import Shape, array
from .base import of_computations
from .match import dtype_of, make, reshape


def has_layout(shape: Shape) -> bool:
    return shape.layout is not None or any(map(has_layout, shape.elements))


def plain(shape: Shape) -> Shape:
    """The shape with row-major layouts."""
    if shape.is_tuple:
        return replace_fields(shape, elements=tuple(map(plain, shape.elements)))
    return replace_fields(shape, layout=None)


def _expanded(instr: Instr) -> Instr:
    """bitcast of one layout to another as moves of values; a change of type as bitcast-convert."""
    x, out = instr.operands[0], instr.shape
    if dtype_of(x) != dtype_of(instr):
        return instr.replace(opcode="bitcast-convert", shape=plain(out))
    physical = (x.shape.layout or tuple(range(x.shape.rank - 1, -1, -1)))[::-1]
    target = (out.layout or tuple(range(out.rank - 1, -1, -1)))[::-1]
    if list(physical) != sorted(physical):
        dims = tuple(x.shape.dims[d] for d in physical)
        x = make(instr, "transpose", array(dtype_of(x), dims), (x,), dimensions=physical)
    x = reshape(instr, x, tuple(out.dims[d] for d in target))
    if list(target) == sorted(target):
        return x
    order = tuple(target.index(d) for d in range(out.rank))
    return make(instr, "transpose", plain(out), (x,), dimensions=order)


def run(comp: Computation) -> Computation:
    """No layouts: every shape row-major; bitcasts as the reshapes and transposes they are."""
    replaced: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        if instr.opcode == "copy":
            replaced[instr] = instr.operands[0]
        elif instr.opcode == "bitcast":
            replaced[instr] = _expanded(instr)
    comp = rebuild(comp, replaced) if replaced else comp
    laid_out = {i: i.replace(shape=plain(i.shape)) for i in comp.instrs if has_layout(i.shape)}
    if not laid_out:
        return comp
    return rebuild(comp, laid_out)


PASS = of_computations("layout-normaliser", run)
