"""LLVM IR of the block product (`kernel.ir.Product`): explicit vectors, register tiles, no optimiser needed.

A product calls a function that all kernels with such products share,
    void NAME(ptr c, i64 c_stride, ptr a, i64 a_stride, ptr b, i64 b_stride,
              i64 rows, i64 cols, i64 depth, i1 accumulate)
with a, b, c advanced to their offsets and strides in elements.
"""

from __future__ import annotations

import functools

from ..kernel.contraction import tile
from ..kernel.ir import Product
from .emission import Emission
from .product_edge import edge_text
from .product_loops import loops_text
from .product_tile import PREFETCH, Spec, tile_text
from .texts import Shared


def emit_product(e: Emission, stmt: Product) -> None:
    """Call the product's function, which all kernels with such a product share."""
    asm, dtype = e.asm, stmt.c.dtype
    spec = Spec(dtype.name, tile(dtype, e.target), stmt.a_major == "depth", stmt.packed)
    assert stmt.panel == spec.tile.panel, (stmt.panel, spec)
    e.shared[spec.name] = shared_function(spec)
    arguments = []
    for buffer, offset, stride in (
        (stmt.c, stmt.c_offset, stmt.c_stride),
        (stmt.a, stmt.a_offset, stmt.a_stride),
        (stmt.b, stmt.b_offset, stmt.b_stride),
    ):
        pointer = asm.gep(e.pointer(buffer), spec.scalar, e.scalar(offset))
        arguments += [f"ptr {pointer.text}", f"i64 {e.scalar(stride).text}"]
    arguments += [f"i64 {e.scalar(size).text}" for size in (stmt.rows, stmt.cols, stmt.depth)]
    asm.line(f"call void @{spec.name}({', '.join(arguments)}, i1 {e.scalar(stmt.accumulate).text})")


@functools.cache
def shared_function(spec: Spec) -> Shared:
    """The product's function for all its callers."""
    signatures = {
        spec.fma: f"{spec.vector} {spec.fma}({', '.join([spec.vector] * 3)})",
        PREFETCH: f"void {PREFETCH}(ptr, i32, i32, i32)",
        spec.masked("load"): f"{spec.vector} {spec.masked('load')}(ptr, i32, {spec.mask}, {spec.vector})",
        spec.masked("store"): f"void {spec.masked('store')}({spec.vector}, ptr, i32, {spec.mask})",
    }
    declares = {name.removeprefix("@"): f"declare {signature}" for name, signature in signatures.items()}
    prototype = f"declare void @{spec.name}(ptr, i64, ptr, i64, ptr, i64, i64, i64, i64, i1)"
    return Shared(function_text(spec), declares, prototype)


def function_text(spec: Spec) -> str:
    """The function and its register tiles, without declarations."""
    lines: list[str] = []
    for rows in spec.tile.rows:
        lines.extend(tile_text(spec, rows, False))
        if not spec.packed:
            lines.extend(tile_text(spec, rows, True))
    lines.extend(edge_text(spec))
    lines.extend(loops_text(spec))
    return "\n".join(lines) + "\n"
