"""Which form a product takes and how large its blocks are: arithmetic of its sizes, done where they are known.

Fixed sizes give numbers here; sizes that vary give expressions, so that kernels for all sizes choose when they run
what those for one size were given when they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.polynomial import bounds, polynomial
from ....target import Target
from ..choice import Knobs
from ..contraction import Blocks, Contraction, blocks, tile

Flag = Dim
"""1 where something holds, 0 where it does not."""

_OWN_ROWS = 256  # up to so many rows a task takes all, and reads or packs the right operand itself
_FEW_ROWS = 64  # so few are read in place though they are strided
_ROWS = (24, 48, 72, 144, 288)  # of a task, that tuning tries
_PANELS = (1, 2, 4, 8, 16, 32)  # of a task, that tuning tries
_TASKS = 2  # blocks shrink until there are so many tasks a core
_LEAST_ROWS, _LEAST_PANELS = 24, 2  # but no further


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and choices of one contraction.

    `shared`: a step of its own packs the right operand; otherwise each task packs its part, or (`in_place`) the product
    reads it where it is. `packs_lhs`: the left one is packed, at most `sub_rows` of it at a time; otherwise the product
    reads it where it is. `row_count`, `col_count`: blocks of tasks, of which the last may be empty where sizes vary; of
    at most `most_rows` and `most_cols` where any of it lies in scratch. `most_depth`: of one product.
    """

    c: Contraction
    panel: int
    shared: Flag
    in_place: bool
    packs_lhs: Flag
    row_count: Dim
    col_count: Dim
    most_rows: int
    most_cols: int
    sub_rows: int
    most_depth: int

    @property
    def extents(self) -> tuple[Dim, Dim, Dim, Dim]:
        """Flat sizes: batch, rows, columns, depth."""
        return _extents(self.c)

    @property
    def panels(self) -> Dim:
        return dims_.ceil_div(self.extents[2], self.panel)

    @property
    def writes_place(self) -> bool:
        """The product writes the result itself: no epilogue."""
        return self.c.place is not None


def plan(c: Contraction, target: Target, knobs: Knobs) -> Plan:
    """The plan of `c`. Knobs 'rows' and 'cols': the largest block of a task; they change no sum."""
    most, panel, tasks = blocks(c.dtype, target), tile(c.dtype, target).panel, _TASKS * target.cores
    _, rows, cols, _ = _extents(c)
    in_place, packs_lhs = c.rhs.plain is not None and c.rhs.major == "free", _packs_lhs(c, target, panel)
    own_rows = select(packs_lhs, _OWN_ROWS, 2 * _OWN_ROWS) if in_place and c.place is not None else _OWN_ROWS
    shared = above(rows, own_rows)
    shared_rows, shared_cols = _shared_counts(c, most, packs_lhs, tasks)
    own_cols = _own_cols(c, most, panel, in_place, tasks)
    most_rows = most.rows
    if dims_.sample(shared):
        shared_rows, most_rows = _tuned(knobs, "rows", shared_rows, rows, _ROWS, 2, most.rows)
    widths, col_count = [n * panel for n in _PANELS], select(shared, shared_cols, own_cols)
    col_count, most_cols = _tuned(knobs, "cols", col_count, cols, widths, panel, most.cols)
    return Plan(
        c,
        panel,
        shared,
        in_place,
        packs_lhs,
        _needed(rows, select(shared, shared_rows, 1), 2),
        _needed(cols, col_count, panel),
        max(most_rows if shared != 0 else 0, _OWN_ROWS if shared != 1 else 0),
        most_cols,
        most.rows,
        most.depth,
    )


def _tuned(
    knobs: Knobs, name: str, count: Dim, extent: Dim, values: Sequence[int], unit: int, most: int
) -> tuple[Dim, int]:
    """How many blocks, of at most how much, and a knob that may say the latter."""
    size = dims_.sample(extent)
    default = block_size(size, dims_.sample(count), unit)
    chosen = knobs.take(name, default, [n for n in values if n < size + values[0]])
    return (count, most) if chosen == default else (dims_.ceil_div(extent, chosen), max(most, chosen))


def block_size(extent: int, count: int, unit: int) -> int:
    """The multiple of `unit` that splits `extent` evenly into `count` blocks or, for the rounding, fewer."""
    return max(-(-extent // (max(count, 1) * unit)), 1) * unit


def _needed(extent: Dim, count: Dim, unit: int) -> Dim:
    """Of so many blocks those that are not empty, where that is known."""
    if isinstance(extent, int) and isinstance(count, int):
        return -(-extent // block_size(extent, count, unit))
    return count


def _extents(c: Contraction) -> tuple[Dim, Dim, Dim, Dim]:
    batch, rows, cols, depth = map(dims_.product, (c.batch, c.rows, c.cols, c.depth))
    return batch, rows, cols, depth


def _packs_lhs(c: Contraction, target: Target, panel: int) -> Flag:
    """The left operand is copied, rather than read where it is. Twelve rows of a power-of-two stride do not fit into
    the ways of L1, six do; and few columns do not repay a copy."""
    if c.lhs.plain is None:
        return 1
    _, rows, cols, _ = _extents(c)
    many_cols = above(cols, 2 * panel)
    if c.lhs.major == "free":
        return dims_.make("mul", many_cols, above(rows, _FEW_ROWS))
    return 0 if target.vector_bits <= 256 else many_cols


def _shared_counts(c: Contraction, most: Blocks, packs_lhs: Flag, tasks: int) -> tuple[Dim, Dim]:
    """Blocks of rows and of columns where the right operand is packed once."""
    batch, rows, cols, _ = _extents(c)
    least = dims_.ceil_div(rows, most.rows)
    # The left block is packed once for all columns of a task: more of them, where there are rows enough.
    enough = above(dims_.make("mul", batch, least), tasks - 1)
    wide = dims_.make("mul", enough, packs_lhs) if c.place is not None else 0
    col_count = dims_.ceil_div(cols, select(wide, 4 * most.cols, most.cols))
    wanted = dims_.ceil_div(tasks, dims_.make("mul", batch, col_count))
    return _more(rows, least, wanted, _LEAST_ROWS), col_count


def _own_cols(c: Contraction, most: Blocks, panel: int, in_place: bool, tasks: int) -> Dim:
    """Blocks of columns where each task has all rows."""
    batch, _, cols, _ = _extents(c)
    if in_place:
        width: Dim = most.cols if c.place is not None else most.cols // 2
    else:
        width = select(above(cols, most.cols), most.cols // 4, most.cols)
    return _more(cols, dims_.ceil_div(cols, width), dims_.ceil_div(tasks, batch), _LEAST_PANELS * panel)


def _more(extent: Dim, count: Dim, wanted: Dim, least: int) -> Dim:
    """`count` blocks, or as many as are wanted where none gets smaller than `least`."""
    return dims_.make("max", count, dims_.make("min", dims_.ceil_div(extent, least), wanted))


# --- conditions of sizes as numbers ---
def above(dim: Dim, limit: Dim) -> Flag:
    """Whether `dim` > `limit`, which is not negative."""
    low, high = bounds(polynomial(dim))
    if isinstance(limit, int) and (low > limit or high <= limit):
        return int(low > limit)
    return dims_.make("min", dims_.make("floordiv", dim, dims_.make("add", limit, 1)), 1)


def select(flag: Flag, yes: Dim, no: Dim) -> Dim:
    """`yes` where the flag is 1, `no` where it is 0."""
    if isinstance(flag, int):
        return yes if flag else no
    return dims_.make("add", no, dims_.make("mul", flag, dims_.make("add", yes, dims_.make("mul", no, -1))))
