"""Which rows a program has: from its number to bound loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .....fusion.program import Group
from .....ir.dim import Dim, make, product
from ...ir import Var
from ..emit import Emitter
from ..grid import Blocks, bind_rows, extent, outer_task
from .shapes import ReductionShape


def programs(kept: Sequence[Group], shape: ReductionShape) -> Dim:
    """How many programs have all rows."""
    if shape.minor_kept:
        return make("mul", product(map(extent, kept[:-1])), Blocks(extent(kept[-1]), shape.kept).count)
    return Blocks(product(map(extent, kept)), shape.kept).count


@contextmanager
def program_rows(e: Emitter, kept: Sequence[Group], shape: ReductionShape, program: Var) -> Iterator[None]:
    """Binds the kept loops to the rows of a program: lanes of a tile, or the one row."""
    b = e.b
    if shape.minor_kept:
        blocks = Blocks(extent(kept[-1]), shape.kept)
        _, block = outer_task(e, kept[:-1], blocks, program)
        with b.tile(*blocks.bounds(b, block), shape.kept) as i:
            e.bind(kept[-1], i)
            yield
    elif shape.kept > 1:
        blocks = Blocks(product(map(extent, kept)), shape.kept)
        with b.tile(*blocks.bounds(b, program), shape.kept) as i:
            bind_rows(e, kept, i)
            yield
    else:
        bind_rows(e, kept, program)
        yield
