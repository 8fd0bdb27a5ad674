"""Matrix products whose depth several programs share: their partial sums are added in order by a second kernel."""

from __future__ import annotations

from dataclasses import replace

from .....ir.dim import ceil_div, product, sample
from ...contraction import Contraction, Index
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import UnitKernel
from ..space import delinearize, digits
from .product_grid import Extents, tiles
from .shapes import MULTIPLE, lanes

_FINISH = (8, 128)  # rows and columns of a program that adds partial sums
_FINISH_WARPS = 4


def partial(c: Contraction, temp: int) -> Contraction:
    """Stores each sum of a part of the depth in the temporary [splits, batch, rows, cols] number `temp`."""

    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        dims = (*c.batch, *c.rows, *c.cols)
        place = g[0]
        for at, extent in zip((*g[1:], *m, *n), dims):
            place = p.b.add(p.b.mul(place, p.b.size(extent)), at)
        p.b.store(p.write("temp", temp, c.dtype), place, value)

    return replace(c, name=f"{c.name}.parts", finish=finish, place=None)


def total(c: Contraction, splits: int, temp: int) -> UnitKernel:
    """Adds the parts of each sum, in temporary number `temp`, in order, and finishes it."""
    p, size = Ports(f"{c.name}.total", MULTIPLE, wide=True), Extents.of(c)
    b = p.b
    height, width = (lanes(e, most) for e, most in zip((size.rows, size.cols), _FINISH))
    counts = [ceil_div(size.rows, height), ceil_div(size.cols, width)]
    batch, row, col = delinearize(b, b.task, [size.batch, *counts])
    with tiles(b, size, (row, col), (height, width)) as (i, j):
        place = b.add(b.mul(b.add(b.mul(batch, b.size(size.rows)), i), b.size(size.cols)), j)
        step = b.size(product((size.batch, size.rows, size.cols)))
        result = b.load(p.read("temp", temp, c.dtype), place)
        for split in range(1, splits):
            part = b.add(b.mul(step, b.index(split)), place)
            result = b.op("add", result, b.load(p.read("temp", temp, c.dtype), part))
        c.finish(p, result, tuple(delinearize(b, batch, c.batch)), digits(b, i, c.rows), digits(b, j, c.cols))
    return p.kernel(product((size.batch, *counts)), sample(splits) * height * width, _FINISH_WARPS)
