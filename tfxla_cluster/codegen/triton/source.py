"""Kernel IR to Triton source.

A task is a program. A tile, and each block of a vector loop, is an axis of the program's blocks: a value
that depends on its variable has that axis, with length 1 where it does not. All blocks of a kernel have
as many axes as tiles and vector loops nest in it; what depends on none of them is a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...errors import UnsupportedError
from ...ir.dtype import S64, U32
from ..kernel.attention_ir import Attention
from ..kernel.ir import (
    Across,
    Buffer,
    Const,
    Descriptor,
    Dot,
    For,
    If,
    Kernel,
    Load,
    Op,
    Reduce,
    Region,
    Scan,
    Size,
    Stmt,
    Store,
    Tile,
    TritonCall,
    Var,
    While,
)
from ..kernel.lane_ir import SortLanes, Update
from ..kernel.planes import split_complex
from ..kernel.walk import lane_depth, walk
from . import contracted, early_start, user_kernel
from .attention import emit_attention
from .control import emit_if, emit_while
from .convert import from_memory, to_memory
from .dot import emit_descriptor, emit_dot, emit_parts, store_block
from .helpers import with_helpers
from .lane_statements import emit_sort_lanes, emit_update
from .ops import expression
from .scans import scan
from .triton_source import TritonSource
from .types import constant, storage
from .writer import Axis

DEFAULT_WIDTH = 1024  # of vector loops that say none
LANES_OF_A_WARP = 256  # of the largest block, where the kernel does not say how many warps a program has


def render(kernel: Kernel, starts_early: bool = False) -> TritonSource:
    """UnsupportedError names the first statement or op that has no Triton form. `starts_early`: as `early_start`, which
    a user's kernel never does; for architectures from 9.0 on."""
    if kernel.scratch:
        raise UnsupportedError(f"kernel {kernel.name}: scratch buffers have no Triton form")
    if isinstance(kernel.body[0], TritonCall):
        return user_kernel.render(kernel, kernel.body[0])
    return Emitter(split_complex(kernel)).render(starts_early)


class Emitter:
    """Writes one kernel's statements: a `writer.Writer` for those that have a module of their own."""

    def __init__(self, kernel: Kernel, rank: int | None = None) -> None:
        self.kernel = kernel
        self.rank = lane_depth(kernel.body) if rank is None else rank
        self.names: dict[Var, str] = {kernel.task: "task"}
        self.axes: dict[Var, frozenset[int]] = {}
        self.constants: dict[Var, Any] = {}
        self.positive: set[Var] = set()  # known divisors of indices that are not 0
        self.position: dict[Var, int] = {}  # axis of each open tile
        self.open: list[Axis] = []
        self.read = {s.buffer for s in walk(kernel.body) if isinstance(s, Load)}
        self.helpers: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.lanes = 1
        self.count = 0
        self.makers: list[tuple[str, str]] = []

    def render(self, starts_early: bool) -> TritonSource:
        kernel = self.kernel
        buffers = [*kernel.inputs, *kernel.outputs]
        parameters = [*map(self.pointer, buffers), *(f"size{i}" for i in range(len(kernel.sizes)))]
        function = "tfxla_" + "".join(c if c.isalnum() else "_" for c in kernel.name)
        for line in early_start.LINES if starts_early else ():
            self.put(line)
        self.put("task = tl.program_id(0).to(tl.int64)")
        self.body(kernel.body)
        head = f"@triton.jit\ndef {function}({', '.join(parameters)}):"
        text = "\n\n".join([*self.helpers, head + "\n" + "\n".join(self.lines)]) + "\n"
        return TritonSource(
            function,
            with_helpers(text),
            tuple(f"*{storage(b.dtype)}" for b in buffers),
            len(kernel.sizes),
            tuple(sorted({(s.slot, s.multiple) for s in walk(kernel.body) if isinstance(s, Size) and s.multiple})),
            kernel.warps or max(1, min(16, self.lanes // LANES_OF_A_WARP)),
            (
                *(contracted.OPTIONS if contracted.may_contract(kernel) else ()),
                *(early_start.OPTIONS if starts_early else ()),
            ),
            makers=tuple(self.makers),
        )

    # --- plumbing ---
    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def define(self, var: Var, text: str, axes: frozenset[int]) -> None:
        self.names[var] = name = self.fresh("v")
        if var.hint:
            self.makers.append((name, var.hint))
        self.axes[var] = axes
        self.put(f"{name} = {text}")

    def name(self, var: Var) -> str:
        if var not in self.names and var in self.constants:  # of the kernel, used in a helper
            self.define(var, constant(self.constants[var], var.dtype), frozenset())
        return self.names[var]

    def axes_of(self, *variables: Var | None) -> frozenset[int]:
        return frozenset().union(*(self.axes.get(v, frozenset()) for v in variables if v is not None))

    def pointer(self, buffer: Buffer) -> str:
        return f"{buffer.role}{buffer.index}"

    def unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"kernel {self.kernel.name}: {what} has no Triton form")

    def shape(self) -> str:
        """Of a block with every open axis."""
        lengths = [self.open[n].width if n < len(self.open) else 1 for n in range(self.rank)]
        return f"[{', '.join(map(str, lengths))}]"

    def spread(self, var: Var) -> str:
        """The value as a block with every open axis (a scalar where none is)."""
        if not self.open or len(self.axes_of(var)) == len(self.open):
            return self.name(var)
        return f"tl.broadcast_to({self.name(var)}, {self.shape()})"

    def every_axis(self) -> frozenset[int]:
        return frozenset(range(len(self.open)))

    # --- statements ---
    def body(self, body: Iterable[Stmt]) -> None:
        for stmt in body:
            emit = _EMIT.get(type(stmt))
            if emit is None:
                raise self.unsupported(type(stmt).__name__)
            emit(self, stmt)

    def const(self, stmt: Const) -> None:
        self.constants[stmt.out] = stmt.value
        if stmt.out.dtype in (S64, U32) and stmt.value > 0:
            self.positive.add(stmt.out)
        self.define(stmt.out, constant(stmt.value, stmt.out.dtype), frozenset())

    def size(self, stmt: Size) -> None:
        if stmt.multiple:
            self.positive.add(stmt.out)
        self.define(stmt.out, f"tl.cast(size{stmt.slot}, tl.int64)", frozenset())

    def op(self, stmt: Op) -> None:
        positive = self.positive.issuperset(stmt.operands[1:])
        text = expression(stmt, [self.name(v) for v in stmt.operands], positive)
        self.define(stmt.out, text, self.axes_of(*stmt.operands))

    def load(self, stmt: Load) -> None:
        axes = self.axes_of(stmt.offset, stmt.mask)
        mask = self.mask(axes, stmt.mask)
        offset = self.place(stmt.offset, axes, mask)
        other = to_memory(self.name(stmt.other), stmt.buffer.dtype) if stmt.other is not None else "0"
        guard = f", mask={mask}, other={other}" if mask else ""
        text = f"tl.load({self.pointer(stmt.buffer)} + {offset}{guard})"
        self.define(stmt.out, from_memory(text, stmt.buffer.dtype), axes)

    def store(self, stmt: Store) -> None:
        if stmt.matrix is not None:
            store_block(self, stmt, stmt.matrix)
            return
        axes, value = self.axes_of(stmt.offset, stmt.value, stmt.mask), self.name(stmt.value)
        mask = self.mask(axes, stmt.mask)
        offset = self.place(stmt.offset, axes, mask)
        value = to_memory(value, stmt.buffer.dtype)
        guard = f", mask={mask}" if mask else ""
        text = f"tl.store({self.pointer(stmt.buffer)} + {offset}, {value}{guard})"
        # Of a buffer that is read too: other threads of the program have read before it, and read after it.
        barrier = ["tl.debug_barrier()"] if stmt.buffer in self.read else []
        for line in (*barrier, text, *barrier):
            self.put(line)

    def place(self, offset: Var, axes: frozenset[int], mask: str) -> str:
        """An offset as a block with these axes."""
        name = self.name(offset)
        if axes == self.axes_of(offset):
            return name
        return f"tl.where({mask}, {name}, 0)" if mask else f"tl.broadcast_to({name}, {self.shape()})"

    def mask(self, axes: Iterable[int], own: Var | None) -> str:
        """Where an access happens: the lanes in use of the axes that it has, and its own condition."""
        parts = [self.open[n].mask for n in sorted(axes) if self.open[n].mask]
        return " & ".join(([self.name(own)] if own is not None else []) + parts)

    # --- blocks ---
    def enter(self, var: Var, start: str, stop: str, width: int) -> None:
        """Opens an axis of `width` lanes whose values are start, start + 1, ..."""
        self.position[var] = len(self.open)
        self.open.append(self.lanes_of(var, len(self.open), start, stop, width))
        total = 1
        for opened in self.open:
            total *= opened.width
        self.lanes = max(self.lanes, total)

    def lanes_of(self, var: Var, axis: int, start: str, stop: str, width: int) -> Axis:
        """Defines `var` as lanes along `axis`; a `stop` of '' says that all are in use."""
        lanes = f"tl.arange(0, {width})"
        if self.rank > 1:
            lanes += f"[{', '.join(':' if n == axis else 'None' for n in range(self.rank))}]"
        self.define(var, f"{start} + {lanes}", frozenset([axis]))
        mask = self.fresh("m") if stop else ""
        if stop:
            self.put(f"{mask} = {self.name(var)} < {stop}")
        return Axis(width, mask, start)

    def tile(self, stmt: Tile) -> None:
        self.enter(stmt.var, self.name(stmt.start), "" if stmt.full else self.name(stmt.stop), stmt.width)
        if stmt.parts > 1:
            emit_parts(self, stmt)
        else:
            self.body(stmt.body)
        self.open.pop()

    def blocks(self, stmt: For | Reduce, fill: Callable[[], None]) -> None:
        """A vector loop, a block of lanes at a time; `fill` writes its body."""
        width, base = stmt.width or DEFAULT_WIDTH, self.fresh("base")
        self.put(f"for {base} in range({self.name(stmt.start)}, {self.name(stmt.stop)}, {width}):")
        self.depth += 1
        self.enter(stmt.var, base, self.name(stmt.stop), width)
        fill()
        self.open.pop()
        self.depth -= 1

    def across(self, stmt: Across) -> None:
        axis = self.position[stmt.lane]
        self.fold([self.guarded(v, i, self.open[axis].mask) for v, i in zip(stmt.values, stmt.identity)], stmt, axis)

    def guarded(self, value: Var, identity: Any, mask: str) -> str:
        """The value as a block, neutral in idle lanes."""
        return (
            f"tl.where({mask}, {self.spread(value)}, {self.neutral(identity, value)})" if mask else self.spread(value)
        )

    def neutral(self, identity: Any, value: Var) -> str:
        if identity is None:
            raise self.unsupported("a reduction with no neutral element")
        return constant(identity, value.dtype)

    def fold(self, blocks: Sequence[str], stmt: Reduce | Across, axis: int) -> None:
        """Reduces the axis of blocks that have every open axis and it, and adds the initial values."""
        helper, result = self.combine_helper(stmt.combine), self.fresh("red")
        whole = blocks[0] if len(blocks) == 1 else f"({', '.join(blocks)})"
        keep = ", keep_dims=True" if self.rank > 1 else ""
        self.put(f"{result} = tl.reduce({whole}, {axis}, {helper}{keep})")
        count = len(blocks)
        folded = [result] if count == 1 else [f"{result}[{i}]" for i in range(count)]
        self.put(f"{result}_all = {helper}({', '.join([*(self.name(v) for v in stmt.init), *folded])})")
        axes = frozenset(range(len(self.open))) - {axis}
        if self.rank > 1 and not axes:
            raise self.unsupported("a reduction of one axis in a kernel with more")
        for i, out in enumerate(stmt.outs):
            self.define(out, f"{result}_all" if count == 1 else f"{result}_all[{i}]", axes)

    def reduce(self, stmt: Reduce) -> None:
        if stmt.kind != "vector":
            self.reduce_in_order(stmt)
            return
        axis, width = len(self.open), stmt.width or DEFAULT_WIDTH
        lengths = [*(a.width for a in self.open), width, *[1] * (self.rank - axis - 1)]
        accumulators = [self.fresh("acc") for _ in stmt.outs]
        for name, identity, value in zip(accumulators, stmt.identity, stmt.values):
            neutral = self.neutral(identity, value)
            self.put(f"{name} = tl.broadcast_to({neutral}, [{', '.join(map(str, lengths))}])")
        self.blocks(stmt, lambda: self.accumulate(stmt, accumulators))
        self.fold(accumulators, stmt, axis)

    def accumulate(self, stmt: Reduce, accumulators: Sequence[str]) -> None:
        """One block: idle lanes keep what they have."""
        self.body(stmt.body)
        count, everywhere, mask = len(accumulators), self.every_axis(), self.open[-1].mask
        for arg, name in zip(stmt.combine.args, accumulators):
            self.names[arg], self.axes[arg] = name, everywhere
        for arg, value in zip(stmt.combine.args[count:], stmt.values):
            self.names[arg], self.axes[arg] = self.name(value), self.axes_of(value)
        self.body(stmt.combine.body)
        for name, result in zip(accumulators, [self.name(r) for r in stmt.combine.results]):
            self.put(f"{name}_next = tl.where({mask}, {result}, {name})")
        for name in accumulators:
            self.put(f"{name} = {name}_next")

    def combine_helper(self, region: Region) -> str:
        """A jitted function of the combine region, as tl.reduce wants it."""
        name = f"_combine{len(self.helpers)}"
        inner = Emitter(self.kernel, self.rank)
        inner.constants = self.constants
        for i, arg in enumerate(region.args):
            inner.names[arg] = f"x{i}"
        inner.body(region.body)
        results = ", ".join(inner.name(r) for r in region.results)
        parameters = ", ".join(f"x{i}" for i in range(len(region.args)))
        body = "\n".join([*inner.lines, f"    return {results}"])
        self.helpers.append(f"@triton.jit\ndef {name}({parameters}):\n{body}")
        return name

    # --- serial loops and branches ---
    def for_loop(self, stmt: For) -> None:
        if stmt.kind == "vector":
            self.blocks(stmt, lambda: self.body(stmt.body))
            return

        def fill() -> Sequence[Var]:
            self.body(stmt.body)
            return stmt.yields

        self.serial(stmt, stmt.args, stmt.init, fill)

    def serial(
        self, stmt: For | Reduce, args: Sequence[Var], init: Sequence[Var], fill: Callable[[], Sequence[Var]]
    ) -> None:
        """A Python loop; carried values are assigned over at its end."""
        self.carry(args, init)
        index = self.fresh("i")
        span = f"{self.name(stmt.start)}, {self.name(stmt.stop)}"
        overlap = isinstance(stmt, For) and stmt.overlap
        self.put(f"for {index} in " + (f"tl.range({span}, flatten=True):" if overlap else f"range({span}):"))
        self.depth += 1
        self.define(stmt.var, f"tl.cast({index}, tl.int64)", frozenset())
        self.assign(args, fill())
        self.depth -= 1
        for out, arg in zip(stmt.outs, args):
            self.names[out], self.axes[out] = self.names[arg], self.axes[arg]

    def carry(self, args: Sequence[Var], init: Sequence[Var]) -> None:
        """Variables that a loop assigns over: blocks with every open axis, so that their type stays."""
        for arg, first in zip(args, init):
            self.define(arg, self.spread(first), self.every_axis())

    def assign(self, args: Sequence[Var], values: Sequence[Var]) -> None:
        for arg, value in zip(args, values):
            self.put(f"{self.name(arg)}_next = {self.spread(value)}")
        for arg in args:
            self.put(f"{self.name(arg)} = {self.name(arg)}_next")

    def reduce_in_order(self, stmt: Reduce) -> None:
        args = stmt.combine.args[: len(stmt.init)]

        def fill() -> Sequence[Var]:
            self.body(stmt.body)
            for arg, value in zip(stmt.combine.args[len(stmt.init) :], stmt.values):
                self.names[arg], self.axes[arg] = self.name(value), self.axes_of(value)
            self.body(stmt.combine.body)
            return stmt.combine.results

        self.serial(stmt, args, stmt.init, fill)


_EMIT: dict[type, Callable[[Emitter, Any], None]] = {
    Const: Emitter.const,
    Size: Emitter.size,
    Op: Emitter.op,
    Load: Emitter.load,
    Store: Emitter.store,
    For: Emitter.for_loop,
    Reduce: Emitter.reduce,
    Tile: Emitter.tile,
    Across: Emitter.across,
    Scan: scan,
    If: emit_if,
    While: emit_while,
    Descriptor: emit_descriptor,
    Dot: emit_dot,
    Attention: emit_attention,
    Update: emit_update,
    SortLanes: emit_sort_lanes,
}
