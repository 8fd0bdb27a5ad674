"""Tiled loops for programs that read an input across the direction they write in (transposes).

The input's tile is first copied to scratch, along its own rows; the tile is then computed along the
output's rows from scratch, so that memory is only ever passed over line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....fusion.index import Access, Computed, Seq, flatten
from ....fusion.program import Group, Program
from ....ir.dim import make, sample
from ..ir import Buffer, Kernel, Var
from .emit import Emitter
from .grid import Blocks, extent, outer_task

TILE = 64
TILES = (16, 32, 64, 128)  # that tuning tries
_PAD = 1  # elements added to a line of a tile, so that its columns fall into different cache sets


def _last_group(seq: Seq, groups: Sequence[Group]) -> Group | None:
    """The group that the innermost digits of `seq` are, if they are one whole."""
    for group in groups:
        if seq[len(seq) - len(group) :] == group:
            return group
    return None


def _digits(seq: Seq) -> set[object]:
    """Every digit that takes part in the number."""
    found: set[object] = set()
    for atom in seq:
        found |= _digits(atom.seq) if isinstance(atom, Computed) else {atom}
    return found


def _crosses(load: Access, groups: Sequence[Group]) -> Group | None:
    """The group `load` is contiguous along, where it is strided along the innermost one."""
    seq, inner = flatten(load.index), groups[-1]
    group = _last_group(seq, groups[:-1])
    if group is None or inner[0] not in _digits(seq):
        return None
    return group if min(sample(extent(group)), sample(extent(inner))) >= 8 else None


def tile_group(program: Program, groups: Sequence[Group]) -> Group | None:
    """The loop to tile together with the innermost one: what most strided loads are contiguous along."""
    votes = [g for g in (_crosses(load, groups) for load in program.loads) if g is not None]
    return max(votes, key=votes.count) if votes else None


def tiled(
    e: Emitter, groups: Sequence[Group], crossing: Group, side: int, body: Callable[[], None], work: int
) -> Kernel:
    """A task is a band of `side` rows along `crossing`; `body` computes and stores one element."""
    b, inner = e.b, groups[-1]
    outer = [g for g in groups[:-1] if g is not crossing]
    bands, columns = Blocks(extent(crossing), side), Blocks(extent(inner), side)
    rows, band = outer_task(e, outer, bands, b.task)
    row0, row1 = bands.bounds(b, band)
    loads = [x for x in e.program.loads if _crosses(x, groups) is crossing]
    tiles = [b.scratch_buffer(x.instr.shape.element_type, side * (side + _PAD)) for x in loads]
    with b.loop(b.index(0), b.size(columns.count)) as column:
        col0, col1 = columns.bounds(b, column)
        with b.loop(col0, col1) as j, b.loop(row0, row1, "vector") as i:
            e.bind(inner, j)
            e.bind(crossing, i)
            for load, tile in zip(loads, tiles):
                b.store(tile, _place(e, i, row0, j, col0, side + _PAD), e.value(load))
        with b.loop(row0, row1) as i, b.loop(col0, col1, "vector") as j:
            e.bind(inner, j)
            e.bind(crossing, i)
            for load, tile in zip(loads, tiles):
                e.replaced[load] = _reader(e, tile, _place(e, i, row0, j, col0, side + _PAD))
            body()
    return b.finish(make("mul", rows, bands.count), make("mul", extent(inner), side * work))


def _place(e: Emitter, i: Var, row0: Var, j: Var, col0: Var, pitch: int) -> Var:
    """Where a tile, its lines `pitch` elements apart, holds element (i, j): as the input does, i along the
    line (gathering from scratch costs half of what scattering into it does, on AVX2)."""
    row, column = e.b.op("subtract", j, col0), e.b.op("subtract", i, row0)
    return e.b.add(e.b.mul(row, e.b.index(pitch)), column)


def _reader(e: Emitter, tile: Buffer, place: Var) -> Callable[[], Var]:
    return lambda: e.b.load(tile, place)
