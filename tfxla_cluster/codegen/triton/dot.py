"""`Dot` statements: blocks of matrix products, by tensor cores where they have the type."""

from __future__ import annotations

from ...ir.dtype import F32
from ..kernel.ir import Blocks, Descriptor, Dot, Load, Region, Store, Tile, Var
from ..kernel.matrix_types import multiplies_as_matrix, unit_type
from .types import type_name
from .writer import Axis, Writer

ROWS, COLS = 0, 1  # axes of the two tiles


def emit_descriptor(e: Writer, stmt: Descriptor) -> None:
    """Made by the program itself, in scratch memory of its own."""
    name = e.fresh("matrix")
    place = f"{e.pointer(stmt.buffer)} + {e.name(stmt.offset)}"
    dims = ", ".join(f"tl.cast({e.name(v)}, tl.int32)" for v in stmt.dims)
    strides = ", ".join(map(e.name, stmt.strides))
    block = f"block_shape=[{', '.join(map(str, stmt.block))}]"
    e.put(f"{name} = tl.make_tensor_descriptor({place}, [{dims}], [{strides}, 1], {block})")
    e.names[stmt.out], e.axes[stmt.out] = name, frozenset()


def emit_dot(e: Writer, stmt: Dot) -> None:
    """A loop over blocks of k."""
    if len(e.open) != 2 or e.rank != 2:
        raise e.unsupported("a product outside two tiles")
    total, base, kind = e.fresh("acc"), e.fresh("base"), type_name(stmt.out.dtype)
    zeros = f"tl.zeros([{e.open[ROWS].width}, {e.open[COLS].width}], {kind})"
    thirds = stmt.precision == "bf16x6" and stmt.a.results[0].dtype == F32
    small = e.fresh("small") if thirds else ""
    for name in filter(None, (total, small)):
        e.put(f"{name} = {zeros}")
    span = f"{e.name(stmt.start)}, {e.name(stmt.stop)}, {stmt.depth}"
    e.put(f"for {base} in tl.range({span}, num_stages={stmt.stages}):")
    e.depth += 1
    a, b = (
        _factor(e, stmt, region, axis, base) if blocks is None else _blocks(e, stmt, blocks, axis, base)
        for region, blocks, axis in ((stmt.a, stmt.a_blocks, COLS), (stmt.b, stmt.b_blocks, ROWS))
    )
    if thirds:
        parts = f"*{_in_thirds(a, stmt.a_blocks)}, *{_in_thirds(b, stmt.b_blocks)}"
        e.put(f"{total}, {small} = _dot_thirds({parts}, {total}, {small})")
    elif multiplies_as_matrix(stmt.a.results[0].dtype, stmt.out.dtype):
        e.put(f"{total} = tl.dot({a}, {b}, {total}, input_precision={stmt.precision!r}, out_dtype={kind})")
    else:
        product = f"{a}.to({kind})[:, :, None] * {b}.to({kind})[None, :, :]"
        e.put(f"{total} = ({total} + tl.sum({product}, 1)).to({kind})")
    e.depth -= 1
    if thirds:
        e.put(f"{total} = tl.where({small} == {small}, {small}, 0.0) - {total}")
    e.names[stmt.out], e.axes[stmt.out] = total, frozenset([ROWS, COLS])


def _in_thirds(factor: str, blocks: Blocks | None) -> str:
    return factor if blocks and blocks.thirds else f"_thirds({factor})"


def _factor(e: Writer, stmt: Dot, region: Region, axis: int, base: str) -> str:
    """One factor of a block of k, which lies along `axis`; zero past the last k."""
    kept = e.open
    hidden = _hide(e, axis)
    opened = list(kept)
    *outer, k = region.args
    for number in outer:
        e.define(number, f"tl.cast({base} // {stmt.run}, tl.int64)", frozenset())
        base = f"{base} % {stmt.run}"
    opened[axis] = e.lanes_of(k, axis, base, "" if stmt.full or outer else e.name(stmt.stop), stmt.depth)
    e.open = opened
    e.body(region.body)
    (value,) = region.results
    text, mask = e.spread(value), opened[axis].mask
    if mask and not _loaded(region, value, e, axis):
        text = f"tl.where({mask}, {text}, tl.full([], 0, {type_name(value.dtype)}))"
    taken = unit_type(value.dtype)
    name = e.fresh("factor")
    e.put(f"{name} = {text}" + (f".to({type_name(taken)})" if taken != value.dtype else ""))
    e.open = kept
    e.names.update(hidden)
    return name


def _blocks(e: Writer, stmt: Dot, blocks: Blocks, axis: int, base: str) -> str:
    """A factor read whole; its three parts as a tuple where it lies so."""
    if blocks.place is not None:
        return _block_of_array(e, stmt, blocks, blocks.place, axis, base)
    if blocks.thirds is None:
        return _block(e, blocks, axis, base, "")
    apart = f"tl.cast({e.name(blocks.thirds)}, tl.int32)"
    parts = [_block(e, blocks, axis, base, f" + {number} * {apart}") for number in range(3)]
    return f"({', '.join(parts)})"


def _block(e: Writer, blocks: Blocks, axis: int, base: str, further: str) -> str:
    """One block: k lies along `axis` of it, and along the columns of the matrix unless turned; `further` down the
    rows."""
    free = f"tl.cast({e.open[1 - axis].start}, tl.int32)"
    k = f"tl.cast({base}, tl.int32)"
    first, second = (k, free) if blocks.turned else (free, k)
    turned = (axis == COLS) == blocks.turned
    name = e.fresh("factor")
    e.put(f"{name} = {e.name(blocks.matrix)}.load([{first}{further}, {second}])" + (".T" if turned else ""))
    return name


def _block_of_array(e: Writer, stmt: Dot, blocks: Blocks, place: Region, axis: int, base: str) -> str:
    """One block of an array of more dims, as a matrix."""
    (k,) = place.args
    e.define(k, f"tl.cast({base}, tl.int64)", frozenset())
    e.body(place.body)
    index = ", ".join(f"tl.cast({e.name(at)}, tl.int32)" for at in place.results)
    sides = e.open[1 - axis].width, stmt.depth
    rows, cols = sides[::-1] if blocks.turned else sides
    turned = (axis == COLS) == blocks.turned
    name = e.fresh("factor")
    e.put(f"{name} = {e.name(blocks.matrix)}.load([{index}]).reshape({rows}, {cols})" + (".T" if turned else ""))
    return name


def store_block(e: Writer, stmt: Store, matrix: Var) -> None:
    """Stores a whole block where the tiles are."""
    rows, cols = e.open
    starts = [*map(e.name, stmt.place), cols.start] if stmt.place else [rows.start, cols.start]
    place = ", ".join(f"tl.cast({start}, tl.int32)" for start in starts)
    shape = f".reshape({', '.join(map(str, (*stmt.rows, cols.width)))})" if stmt.place else ""
    e.put(f"{e.name(matrix)}.store([{place}], {e.spread(stmt.value)}{shape})")


def _hide(e: Writer, axis: int) -> dict[Var, str]:
    """Takes away the values along the tile in whose place k stands: a factor does not depend on them."""
    found = [v for v, axes in e.axes.items() if axis in axes and v in e.names]
    return {v: e.names.pop(v) for v in found}


def _loaded(region: Region, value: Var, e: Writer, axis: int) -> bool:
    """Whether the value is a load, and so is zero in lanes of k that are not in use."""
    return any(isinstance(s, Load) and s.out is value and s.other is None for s in region.body) and axis in e.axes_of(
        value
    )


def emit_parts(e: Writer, tile: Tile) -> None:
    """The body of the inner tile: the product whole, what is done with it a part of the columns at a time."""
    number, stmt = next((n, s) for n, s in enumerate(tile.body) if isinstance(s, Dot))
    before, after = tile.body[:number], tile.body[number + 1 :]
    e.body((*before, stmt))
    whole, width = e.open[COLS], e.open[COLS].width // tile.parts
    start, stop = e.name(tile.start), "" if tile.full else e.name(tile.stop)
    for part, text in enumerate(_split(e, e.name(stmt.out), whole, tile.parts)):
        e.open[COLS] = e.lanes_of(tile.var, COLS, f"{start} + {part * width}", stop, width)
        e.body(before)
        e.names[stmt.out] = text
        e.body(after)
    e.open[COLS] = whole


def _split(e: Writer, block: str, axis: Axis, parts: int) -> list[str]:
    """The block in `parts` (a power of two) runs of columns."""
    names, width = [block], axis.width
    while len(names) < parts:
        width //= 2
        halves: list[str] = []
        for name in names:
            one, two = e.fresh("part"), e.fresh("part")
            cut = f"tl.reshape({name}, [{e.open[ROWS].width}, 2, {width}])"
            e.put(f"{one}, {two} = tl.split(tl.permute({cut}, [0, 2, 1]))")
            halves += [one, two]
        names = halves
    return names
