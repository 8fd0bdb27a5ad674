"""Loop kernels: every output element is computed on its own; the innermost loop runs in lanes."""

from __future__ import annotations

from collections.abc import Sequence

from ....fusion.index import flatten
from ....fusion.program import Group, Program
from ....ir.dim import ceil_div, make, product, sample
from ....ir.opcode import element_cost
from ..builder import KernelBuilder
from ..choice import Knobs
from ..ir import Buffer, Kernel
from .emit import Emitter
from .grid import BLOCK, BLOCKS, Blocks, bind_rows, extent, outer_task, rows_per_task, task_rows
from .segments import vector_loop
from .tiles import TILE, TILES, tile_group, tiled

STREAM_BYTES = 32 << 20  # read and written by a kernel: about a last-level cache


def open_kernel(program: Program, name: str, multiple: int = 0) -> tuple[Emitter, list[Buffer]]:
    """A builder with the program's parameters as inputs, and its outputs."""
    b = KernelBuilder(name, multiple)
    buffers = {p: b.input(p.shape.element_type) for p in program.params}
    outputs = [b.output(r.instr.shape.element_type) for r in program.roots]
    e = Emitter(b, program, buffers)
    e.streamed = _streamed(program)
    return e, outputs


def _streamed(program: Program) -> frozenset[int]:
    """Outputs too large, with what is read for them, to stay in the caches."""
    sizes = [sample(root.instr.shape.byte_size) for root in program.roots]
    total = sum(sizes) + sum(sample(p.shape.byte_size) for p in program.params)
    if total < STREAM_BYTES or any(root.instr.opcode == "dynamic-update-slice" for root in program.roots):
        return frozenset()
    return frozenset(n for n, size in enumerate(sizes) if 8 * size >= total)


def store_roots(e: Emitter, numbers: Sequence[int], outputs: Sequence[Buffer]) -> None:
    """Computes and stores the current element of the outputs with these numbers."""
    values = [e.value(e.program.roots[n]) for n in numbers]
    for n, value in zip(numbers, values):
        e.b.store(outputs[n], e.number(flatten(e.program.stores[n])), value, stream=n in e.streamed)


def loop_kernel(program: Program, name: str, knobs: Knobs) -> Kernel:
    """One kernel over the space of the outputs. Knobs: 'block', elements of a task, or 'tile', the side of a tile."""
    e, outputs = open_kernel(program, name)
    groups, every = program.groups_of(program.space), range(len(outputs))
    if not groups:
        store_roots(e, every, outputs)
        return e.b.finish(1, work(program))
    crossing = tile_group(program, groups)
    if crossing is not None:
        side = knobs.take("tile", TILE, TILES)
        return tiled(e, groups, crossing, side, lambda: store_roots(e, every, outputs), work(program))
    block = knobs.take("block", BLOCK, BLOCKS)
    inner = extent(groups[-1])
    if len(groups) == 1 or sample(inner) >= 4 * block:
        return _blocked(e, groups, outputs, block)
    rows = product(extent(g) for g in groups[:-1])
    step = rows_per_task(inner, block)
    with task_rows(e.b, rows, step) as row:
        bind_rows(e, groups[:-1], row)
        vector_loop(e, groups[-1], e.b.index(0), e.b.size(inner), lambda: store_roots(e, every, outputs))
    cost = make("mul", make("mul", step, inner), work(program))
    return e.b.finish(ceil_div(rows, step), cost)


def _blocked(e: Emitter, groups: Sequence[Group], outputs: Sequence[Buffer], size: int) -> Kernel:
    """A task is a block of the innermost loop of one row, `size` elements."""
    b, blocks = e.b, Blocks(extent(groups[-1]), size)
    rows, block = outer_task(e, groups[:-1], blocks, b.task)
    start, stop = blocks.bounds(b, block)
    vector_loop(e, groups[-1], start, stop, lambda: store_roots(e, range(len(outputs)), outputs))
    return b.finish(make("mul", rows, blocks.count), size * work(e.program))


def work(program: Program) -> int:
    """Scalar operations an element, roughly."""
    return 1 + sum(element_cost(i.opcode) for i in program.instrs)
