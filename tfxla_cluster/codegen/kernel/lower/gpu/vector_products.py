"""Products with a vector, and outer ones, as what they are: reductions and elementwise work.

Each element of the matrix is read once and takes part in one sum, so a block product would compute little with many
lanes. The dot becomes multiply and reduce in the same computation, with its prologue and epilogue.
"""

from __future__ import annotations

from .....ir.builder import Builder, scalar_computation
from .....ir.dim import product
from .....ir.node import Computation, Instr
from .....ir.rewrite import rebuild
from ...choice import Knobs
from ...unit import Unit
from ..contraction_operand import sum_dtype
from .plain import lower_plain


def is_vector_product(dot: Instr) -> bool:
    """Whether nothing is added up, or one side has no free dims and the other's rows lie along the depth, whatever the
    sizes. Across memory blocks of a product add up faster than a reduction of columns."""
    left, right = (product(o.shape.dims[d] for d in free) for o, free in zip(dot.operands, _free(dot)))
    depth = product(dot.operands[0].shape.dims[d] for d in dot.attrs["lhs_contracting_dims"])
    return depth == 1 or (left == 1 and _along_depth(dot, 1)) or (right == 1 and _along_depth(dot, 0))


def _along_depth(dot: Instr, number: int) -> bool:
    """Whether the last dim of an operand that is more than 1 is one that is added up."""
    dims = dot.operands[number].shape.dims
    last = max((d for d, extent in enumerate(dims) if extent != 1), default=0)
    return last in dot.attrs[("lhs", "rhs")[number] + "_contracting_dims"]


def lower_vector_product(comp: Computation, dot: Instr, name: str, knobs: Knobs) -> Unit:
    """The kernels of a computation around one."""
    return lower_plain(rebuild(comp, {dot: _summed(dot)}), name, knobs)


def _free(dot: Instr) -> tuple[list[int], list[int]]:
    """The free axes of both operands."""
    found = []
    for side, operand in zip(("lhs", "rhs"), dot.operands):
        taken = (*dot.attrs[f"{side}_batch_dims"], *dot.attrs[f"{side}_contracting_dims"])
        found.append([d for d in range(operand.shape.rank) if d not in taken])
    return found[0], found[1]


def _summed(dot: Instr) -> Instr:
    """The dot as a sum of products over dims that stand behind its own."""
    b, dtype, own = Builder("summed"), sum_dtype(dot), dot.shape.rank
    left, right = dot.operands
    axes = {side: dot.attrs[f"{side}_contracting_dims"] for side in ("lhs", "rhs")}
    dims = (*dot.shape.dims, *(left.shape.dims[d] for d in axes["lhs"]))
    batch = len(dot.attrs["lhs_batch_dims"])
    starts = (batch, batch + len(_free(dot)[0]))
    spread = []
    for side, operand, free, start in zip(("lhs", "rhs"), (left, right), _free(dot), starts):
        place = {d: n for n, d in enumerate(dot.attrs[f"{side}_batch_dims"])}
        place |= {d: start + n for n, d in enumerate(free)}
        place |= {d: own + n for n, d in enumerate(axes[side])}
        wide = operand if operand.shape.dtype == dtype else b.convert(operand, dtype)
        order = sorted(place, key=place.__getitem__)
        moved = wide if order == sorted(order) else b.transpose(wide, order)
        spread.append(b.broadcast(moved, dims, sorted(place.values())))
    products = b.multiply(*spread)
    if product(dims[own:]) == 1:
        total = b.reshape(products, dot.shape.dims)
    else:
        total = b.reduce([products], [b.constant(0, dtype)], range(own, len(dims)), scalar_computation("add", dtype))
    return total if dot.shape.dtype == dtype else b.convert(total, dot.shape.element_type)
