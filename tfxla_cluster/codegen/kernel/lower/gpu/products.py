"""Matrix products on a GPU.

Where the blocks of a result are too few for the machine, several programs share the depth of one; their partial sums
are then added in order by a second kernel. Operands may be copied first, into the order or the type that the matrix
units take; the contraction's own kernels then read the copies.
"""

from __future__ import annotations

from dataclasses import replace

from .....fusion.hero import hero_of
from .....ir.dim import product
from .....ir.node import Instr
from .....target import Target
from ...choice import Knobs
from ...contraction import Contraction
from ...unit import Unit
from .. import fused
from ..contraction_fusion import parts_of
from ..dot import describe
from . import split_products
from .image_blocks import cut, renumbered
from .image_choice import promising
from .packed_operands import packed
from .product_blocks import choose
from .product_factors import how_multiplied
from .product_kernel import ProductKernel
from .thirds import lower_in_thirds
from .vector_products import is_vector_product, lower_vector_product


def lower_dot(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a dot, or of a fusion around one. No machine multiplies blocks of complex numbers."""
    comp = instr.attrs["calls"] if instr.opcode == "fusion" else fused.wrap(instr)
    dot = hero_of(comp)
    if dot is not None and (is_vector_product(dot) or dot.shape.element_type.kind == "complex"):
        return lower_vector_product(comp, dot, instr.name, knobs)
    return lower_product(contraction_of(instr), target, knobs)


def contraction_of(instr: Instr) -> Contraction:
    """The contraction that a dot, or a fusion around one, computes."""
    if instr.opcode != "fusion":
        return describe(instr)
    hero, operands, store = parts_of(instr)
    return describe(hero, operands, store)


def lower_product(c: Contraction, target: Target, knobs: Knobs, before: Unit | None = None) -> Unit:
    """The kernels of any contraction: copies of operands, the product, the total of its parts. `before`: kernels that
    make operands in temporaries."""
    factors = how_multiplied(c, target)
    found = promising(c, factors, target) if factors.images else []
    if factors.images and not found:
        factors = replace(factors, images=False, lying=0)
    blocks = choose(c, factors, target, knobs, found)
    if blocks.thirds:
        return lower_in_thirds(c, blocks, factors, target)
    bytes_read = factors.dtype.itemsize
    boxes = cut(c, blocks.shape) if blocks.descriptors and factors.images and not blocks.packs & 1 else None
    c = renumbered(c, boxes) if boxes is not None else c
    c, steps, temps = packed(c, blocks.packs, factors.dtype, before.temps if before else ())
    made = (*before.steps, *steps) if before else steps
    if blocks.splits == 1:
        return Unit((*made, ProductKernel(c, blocks, target, bytes_read, boxes=boxes).build()), temps)
    parts = ProductKernel(split_products.partial(c, len(temps)), blocks, target, bytes_read, boxes=boxes).build()
    held = product((blocks.splits, *c.batch, *c.rows, *c.cols, c.dtype.itemsize))
    return Unit((*made, parts, split_products.total(c, blocks.splits, len(temps))), (*temps, held))
