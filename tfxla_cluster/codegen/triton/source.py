"""Kernel IR to Triton source: elementwise kernels and row reductions.

A task is a program. A vector loop becomes a loop over blocks of BLOCK lanes with a mask; inside it
every value that depends on the loop's variable is a block. Other statements stay scalar code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import UnsupportedError
from ..kernel.ir import Buffer, Const, For, If, Kernel, Load, Op, Reduce, Region, Size, Stmt, Store, Var
from .ops import PRELUDE, expression, type_name


@dataclass(frozen=True, slots=True)
class TritonSource:
    """`text` defines the jitted function `function`, whose parameters are the input pointers, the output
    pointers, then the sizes (i64), and last the constexpr BLOCK."""

    function: str
    text: str
    pointers: tuple[str, ...]
    sizes: int
    block: int


def render(kernel: Kernel, block: int = 1024) -> TritonSource:
    """UnsupportedError names the first statement or op that has no Triton form yet."""
    if kernel.scratch:
        raise UnsupportedError(f"kernel {kernel.name}: scratch buffers have no Triton form yet")
    return _Emitter(kernel, block).render()


class _Emitter:
    def __init__(self, kernel: Kernel, block: int) -> None:
        self.kernel, self.block = kernel, block
        self.names: dict[Var, str] = {kernel.task: "task"}
        self.helpers: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.mask: str | None = None
        self.lanes: set[Var] = set()

    def render(self) -> TritonSource:
        kernel = self.kernel
        buffers = [*kernel.inputs, *kernel.outputs]
        parameters = [*map(_pointer, buffers), *(f"size{i}" for i in range(len(kernel.sizes)))]
        function = "".join(c if c.isalnum() else "_" for c in kernel.name) or "kernel"
        self.put("task = tl.program_id(0).to(tl.int64)")
        self.block_of(kernel.body)
        head = f"@triton.jit\ndef {function}({', '.join(parameters)}, BLOCK: tl.constexpr):"
        text = "\n\n".join([PRELUDE, *self.helpers, head + "\n" + "\n".join(self.lines)]) + "\n"
        pointers = tuple(f"*{_storage(b)}" for b in buffers)
        return TritonSource(function, text, pointers, len(kernel.sizes), self.block)

    # --- plumbing ---
    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def define(self, var: Var, text: str, lanes: bool) -> None:
        self.names[var] = name = f"v{len(self.names)}"
        if lanes:
            self.lanes.add(var)
        self.put(f"{name} = {text}")

    def name(self, var: Var) -> str:
        return self.names[var]

    def is_lanes(self, *variables: Var | None) -> bool:
        return any(v in self.lanes for v in variables if v is not None)

    # --- statements ---
    def block_of(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            emit = _EMIT.get(type(stmt))
            if emit is None:
                raise UnsupportedError(f"kernel {self.kernel.name}: {type(stmt).__name__} has no Triton form yet")
            emit(self, stmt)

    def const(self, stmt: Const) -> None:
        dtype = stmt.out.dtype
        self.define(stmt.out, f"tl.full([], {_literal(stmt.value)}, {type_name(dtype)})", False)

    def size(self, stmt: Size) -> None:
        self.define(stmt.out, f"tl.cast(size{stmt.slot}, tl.int64)", False)

    def op(self, stmt: Op) -> None:
        text = expression(stmt, [self.name(v) for v in stmt.operands])
        self.define(stmt.out, text, self.is_lanes(*stmt.operands))

    def load(self, stmt: Load) -> None:
        lanes = self.is_lanes(stmt.offset, stmt.mask)
        mask = self.access_mask(stmt.mask, lanes)
        other = f", other={self.name(stmt.other)}" if stmt.other is not None and mask else ", other=0" if mask else ""
        text = f"tl.load({_pointer(stmt.buffer)} + {self.name(stmt.offset)}{mask}{other})"
        self.define(stmt.out, f"({text} != 0)" if stmt.buffer.dtype.kind == "pred" else text, lanes)

    def store(self, stmt: Store) -> None:
        lanes = self.is_lanes(stmt.offset, stmt.mask)
        value = self.name(stmt.value)
        if stmt.buffer.dtype.kind == "pred":
            value += ".to(tl.int8)"
        self.put(
            f"tl.store({_pointer(stmt.buffer)} + {self.name(stmt.offset)}, {value}{self.access_mask(stmt.mask, lanes)})"
        )

    def access_mask(self, own: Var | None, lanes: bool) -> str:
        parts = [self.name(own)] if own is not None else []
        if lanes and self.mask:
            parts.append(self.mask)
        return f", mask={' & '.join(parts)}" if parts else ""

    def for_loop(self, stmt: For) -> None:
        if stmt.kind == "vector" and self.mask is None:
            self.in_blocks(stmt.var, stmt.start, stmt.stop, lambda: self.block_of(stmt.body))
            return

        def fill() -> tuple[Var, ...]:
            self.block_of(stmt.body)
            return stmt.yields

        self.serial(stmt.var, (stmt.start, stmt.stop), (stmt.init, stmt.args, stmt.outs), fill)

    def in_blocks(self, var: Var, start: Var, stop: Var, fill: Callable[[], None]) -> None:
        """A loop whose iterations run in lanes, a block at a time; `fill` writes its body."""
        base = f"base{len(self.names)}"
        self.put(f"for {base} in range({self.name(start)}, {self.name(stop)}, BLOCK):")
        self.depth += 1
        self.define(var, f"{base} + tl.arange(0, BLOCK)", True)
        self.mask = f"m{len(self.names)}"
        self.put(f"{self.mask} = {self.name(var)} < {self.name(stop)}")
        fill()
        self.mask = None
        self.depth -= 1

    def serial(
        self,
        var: Var,
        bounds: tuple[Var, Var],
        carried: tuple[tuple[Var, ...], ...],
        fill: Callable[[], tuple[Var, ...]],
    ) -> None:
        """A Python loop; `carried` (initial values, values inside, results) are assigned over at its end."""
        init, args, outs = carried
        for arg, first in zip(args, init):
            self.define(arg, self.name(first), self.mask is not None)
        index = f"i{len(self.names)}"
        self.put(f"for {index} in range({self.name(bounds[0])}, {self.name(bounds[1])}):")
        self.depth += 1
        self.define(var, f"tl.cast({index}, tl.int64)", False)
        results = fill()
        for arg, result in zip(args, results):
            self.put(f"{self.name(arg)}_next = {self.name(result)}")
        for arg in args:
            self.put(f"{self.name(arg)} = {self.name(arg)}_next")
        self.depth -= 1
        for out, arg in zip(outs, args):
            self.names[out] = self.names[arg]
            if arg in self.lanes:
                self.lanes.add(out)

    def reduce(self, stmt: Reduce) -> None:
        if stmt.kind != "vector" or self.mask is not None:
            self.reduce_in_order(stmt)
            return
        if any(identity is None for identity in stmt.identity):
            raise UnsupportedError(f"kernel {self.kernel.name}: a reduction with no identity has no Triton form yet")
        accumulators = [f"acc{len(self.names)}_{i}" for i in range(len(stmt.outs))]
        for name, identity, out in zip(accumulators, stmt.identity, stmt.outs):
            self.put(f"{name} = tl.full([BLOCK], {_literal(identity)}, {type_name(out.dtype)})")
        self.in_blocks(stmt.var, stmt.start, stmt.stop, lambda: self.accumulate(stmt, accumulators))
        helper = self.combine_helper(stmt.combine)
        whole = accumulators[0] if len(accumulators) == 1 else f"({', '.join(accumulators)})"
        result = f"red{len(self.names)}"
        self.put(f"{result} = tl.reduce({whole}, 0, {helper})")
        folded = [result] if len(accumulators) == 1 else [f"{result}[{i}]" for i in range(len(accumulators))]
        inputs = [self.name(v) for v in stmt.init] + folded
        self.put(f"{result}_all = {helper}({', '.join(inputs)})")
        for i, out in enumerate(stmt.outs):
            self.define(out, f"{result}_all" if len(accumulators) == 1 else f"{result}_all[{i}]", False)

    def accumulate(self, stmt: Reduce, accumulators: list[str]) -> None:
        self.block_of(stmt.body)
        for i, value in enumerate(stmt.values):
            neutral = f"tl.full([BLOCK], {_literal(stmt.identity[i])}, {type_name(value.dtype)})"
            self.names[stmt.combine.args[i]] = accumulators[i]
            self.define(
                stmt.combine.args[len(accumulators) + i], f"tl.where({self.mask}, {self.name(value)}, {neutral})", True
            )
        self.lanes.update(stmt.combine.args)
        self.block_of(stmt.combine.body)
        for name, result in zip(accumulators, stmt.combine.results):
            self.put(f"{name} = {self.name(result)}")

    def reduce_in_order(self, stmt: Reduce) -> None:
        args = stmt.combine.args[: len(stmt.init)]

        def fill() -> tuple[Var, ...]:
            self.block_of(stmt.body)
            for arg, value in zip(stmt.combine.args[len(stmt.init) :], stmt.values):
                self.names[arg] = self.names[value]
                if value in self.lanes:
                    self.lanes.add(arg)
            self.block_of(stmt.combine.body)
            return stmt.combine.results

        self.serial(stmt.var, (stmt.start, stmt.stop), (stmt.init, args, stmt.outs), fill)

    def combine_helper(self, region: Region) -> str:
        """A jitted function of the combine region, as tl.reduce wants it."""
        name = f"_combine{len(self.helpers)}"
        inner = _Emitter(self.kernel, self.block)
        for i, arg in enumerate(region.args):
            inner.names[arg] = f"x{i}"
        inner.block_of(region.body)
        results = ", ".join(inner.name(r) for r in region.results)
        parameters = ", ".join(f"x{i}" for i in range(len(region.args)))
        body = "\n".join([*inner.lines, f"    return {results}"])
        self.helpers.append(f"@triton.jit\ndef {name}({parameters}):\n{body}")
        return name

    def if_else(self, stmt: If) -> None:
        if stmt.outs:
            raise UnsupportedError(f"kernel {self.kernel.name}: a branch with results has no Triton form yet")
        for word, region in (("if " + self.name(stmt.cond), stmt.then), ("else", stmt.orelse)):
            self.put(word + ":")
            self.depth += 1
            self.block_of(region.body)
            self.put("pass")
            self.depth -= 1


_EMIT: dict[type, Callable[[_Emitter, Any], None]] = {
    Const: _Emitter.const,
    Size: _Emitter.size,
    Op: _Emitter.op,
    Load: _Emitter.load,
    Store: _Emitter.store,
    For: _Emitter.for_loop,
    Reduce: _Emitter.reduce,
    If: _Emitter.if_else,
}


def _pointer(buffer: Buffer) -> str:
    return f"{buffer.role}{buffer.index}"


def _storage(buffer: Buffer) -> str:
    """The element type in memory, as Triton's signatures spell it; pred is a byte."""
    names = {"pred": "i8", "bf16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64"}
    name = buffer.dtype.name
    return names.get(name) or (name.replace("s", "i") if name[0] == "s" else name)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"float('{value}')"
    return repr(value)
