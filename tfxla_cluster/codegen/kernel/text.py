"""Kernel IR as text, for dumps and people; the body is also the kernel's key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .attention_ir import Attention, Span
from .ir import (
    Across,
    Blocks,
    Buffer,
    Const,
    Descriptor,
    Dot,
    For,
    If,
    Kernel,
    Load,
    Op,
    Product,
    Reduce,
    Region,
    Scan,
    Size,
    Stmt,
    Store,
    Template,
    Tile,
    TritonCall,
    Var,
    While,
)
from .lane_ir import SortLanes, Update
from .makers import maker


def render(kernel: Kernel) -> str:
    """The kernel as text: a header with its sizes and tasks, then `body_lines`, with what they were made for."""
    sizes = ", ".join(f"size[{slot}] = {dim}" for slot, dim in enumerate(kernel.sizes))
    head = f"kernel {kernel.name}(tasks = {kernel.tasks}" + (f", {sizes}" if sizes else "") + ")"
    return "\n".join([head, *(f"  {line}" for line in _Printer(made_for=True).kernel(kernel)), ""])


def body_lines(kernel: Kernel) -> list[str]:
    """Buffers and statements, variables numbered in order: equal lines mean equal structure."""
    return _Printer().kernel(kernel)


def statement_line(kernel: Kernel, stmt: Stmt) -> str:
    """The first line of one of the kernel's statements, as `render` shows it."""
    printer = _Printer()
    printer.kernel(kernel)
    return printer.line(stmt)


class _Printer:
    """`made_for`: lines end with the HLO instruction that they were made for."""

    def __init__(self, made_for: bool = False) -> None:
        self._numbers: dict[Var, int] = {}
        self._made_for = made_for

    def kernel(self, kernel: Kernel) -> list[str]:
        buffers = (*kernel.inputs, *kernel.outputs, *kernel.scratch)
        declared = ", ".join(
            f"{_buffer(b)}: {b.dtype.name}" + (f"[{b.elements}]" if b.role == "scratch" else "") for b in buffers
        )
        warps = f"; {kernel.warps} warps" if kernel.warps else ""
        head = f"buffers {declared}; {len(kernel.sizes)} sizes; task {self._var(kernel.task)}{warps}"
        return [head, *self._body(kernel.body)]

    def line(self, stmt: Stmt) -> str:
        return next(self._stmt(stmt))

    def _var(self, var: Var | None) -> str:
        return "none" if var is None else f"%{self._numbers.setdefault(var, len(self._numbers))}"

    def _vars(self, variables: Iterable[Var]) -> str:
        return ", ".join(self._var(v) for v in variables)

    def _body(self, body: Iterable[Stmt]) -> Iterator[str]:
        for stmt in body:
            name = maker(stmt) if self._made_for else ""
            lines = self._stmt(stmt)
            yield next(lines) + (f"  // %{name}" if name else "")
            yield from lines

    def _stmt(self, stmt: Stmt) -> Iterator[str]:
        if isinstance(stmt, Const):
            yield f"{self._define(stmt.out)} = const {_number(stmt.value)}"
        elif isinstance(stmt, Size):
            known = f" multiple of {stmt.multiple}" if stmt.multiple else ""
            yield f"{self._define(stmt.out)} = size[{stmt.slot}]{known}"
        elif isinstance(stmt, Op):
            attrs = "".join(f", {k}={v}" for k, v in sorted(stmt.attrs.items()))
            yield f"{self._define(stmt.out)} = {stmt.opcode} {self._vars(stmt.operands)}{attrs}"
        elif isinstance(stmt, Load):
            mask = f" if {self._var(stmt.mask)} else {self._var(stmt.other)}" if stmt.mask else ""
            yield f"{self._define(stmt.out)} = {_buffer(stmt.buffer)}[{self._var(stmt.offset)}]{mask}"
        elif isinstance(stmt, Store):
            mask = f" if {self._var(stmt.mask)}" if stmt.mask else ""
            stream = " streamed" * stmt.stream + (f" in {self._var(stmt.matrix)}" if stmt.matrix else "")
            stream += f" at {self._vars(stmt.place)}" if stmt.place else ""
            yield f"{_buffer(stmt.buffer)}[{self._var(stmt.offset)}] = {self._var(stmt.value)}{mask}{stream}"
        elif isinstance(stmt, Product):
            yield self._product(stmt)
        elif isinstance(stmt, TritonCall):
            yield from _triton_call(stmt)
        elif isinstance(stmt, Descriptor):
            place = f"{_buffer(stmt.buffer)}[{self._var(stmt.offset)}] stride {self._vars(stmt.strides)}"
            block = f"{self._vars(stmt.dims)}, blocks of {' x '.join(map(str, stmt.block))}"
            yield f"{self._define(stmt.out)} = matrix {place}, {block}"
        elif isinstance(stmt, Tile | Across | Scan | Dot | Template):
            yield from self._block(stmt)
        else:
            yield from self._structured(stmt)

    def _structured(self, stmt: For | Reduce | If | While) -> Iterator[str]:
        if isinstance(stmt, For):
            span = f"{self._var(stmt.var)} in {self._var(stmt.start)} .. {self._var(stmt.stop)}"
            carried = f" carry {self._vars(stmt.args)} from {self._vars(stmt.init)}" if stmt.args else ""
            yield f"for {stmt.kind}{_width(stmt)} {span}{carried}{' overlapping' * stmt.overlap}"
            yield from _indent(self._body(stmt.body))
            if stmt.args:
                yield f"{self._defines(stmt.outs)} = yield {self._vars(stmt.yields)}"
        elif isinstance(stmt, Reduce):
            span = f"{self._var(stmt.var)} in {self._var(stmt.start)} .. {self._var(stmt.stop)}"
            yield f"reduce {stmt.kind}{_width(stmt)} {span} from {self._vars(stmt.init)} identity {_identity(stmt)}"
            yield from _indent(self._body(stmt.body))
            yield from self._combine(stmt)
        elif isinstance(stmt, If):
            yield f"if {self._var(stmt.cond)}"
            yield from self._region(stmt.then)
            yield "else"
            yield from self._region(stmt.orelse)
            yield f"{self._defines(stmt.outs)} = chosen"
        else:
            yield f"while from {self._vars(stmt.init)}"
            yield from self._region(stmt.cond)
            yield "do"
            yield from self._region(stmt.body)
            yield f"{self._defines(stmt.outs)} = last"

    def _block(self, stmt: Tile | Across | Scan | Dot | Template) -> Iterator[str]:
        if isinstance(stmt, Attention):
            yield from self._attention(stmt)
        elif isinstance(stmt, Update):
            mask = f" if {self._var(stmt.mask)}" if stmt.mask else ""
            yield f"{_buffer(stmt.buffer)}[{self._var(stmt.offset)}] {stmt.opcode}= {self._var(stmt.value)}{mask}"
        elif isinstance(stmt, SortLanes):
            yield f"{self._define(stmt.out)} = sorted {self._var(stmt.value)} along {self._var(stmt.lane)}"
        elif isinstance(stmt, Scan):
            yield f"scan {self._var(stmt.lane)}"
            yield from self._combine(stmt)
        elif isinstance(stmt, Tile):
            how = " full" * stmt.full + (f" in {stmt.parts} parts" if stmt.parts > 1 else "")
            yield f"tile {stmt.width} {self._var(stmt.var)} in {self._var(stmt.start)} .. {self._var(stmt.stop)}{how}"
            yield from _indent(self._body(stmt.body))
        elif isinstance(stmt, Dot):
            how = f"{' full' * stmt.full} {stmt.precision} stages {stmt.stages}" + f" run {stmt.run}" * (stmt.run > 0)
            for side, blocks in (("a", stmt.a_blocks), ("b", stmt.b_blocks)):
                how += f" {side} of {self._blocks(blocks)}" if blocks else ""
            span = f"{self._var(stmt.start)} .. {self._var(stmt.stop)}"
            yield f"{self._define(stmt.out)} = dot {stmt.depth} in {span}{how}"
            for region in stmt.regions():
                yield from self._region(region)
        elif isinstance(stmt, Across):
            yield f"across {self._var(stmt.lane)} from {self._vars(stmt.init)} identity {_identity(stmt)}"
            yield from self._combine(stmt)

    def _blocks(self, blocks: Blocks) -> str:
        thirds = f" in thirds {self._var(blocks.thirds)} apart" if blocks.thirds else ""
        return f"{self._var(blocks.matrix)}{' turned' * blocks.turned}{thirds}"

    def _attention(self, stmt: Attention) -> Iterator[str]:
        how = f"{stmt.precision}, {stmt.stages} stages{', by reference' * stmt.reference}"
        yield f"attention from {self._var(stmt.start)}: {self._span(stmt.fixed)} over {self._span(stmt.looped)}, {how}"
        if stmt.cut is not None:
            side = "from" if stmt.cut.after else "before"
            places = f"{side} {self._var(stmt.cut.edge)}, none on the other side of {self._var(stmt.cut.inside)}"
            yield f"scores are {stmt.cut.far} {places}"
        for scores in stmt.scores:
            yield f"scores over {self._span(scores.depth)}"
            yield from self._region(scores.fixed)
            yield from self._region(scores.looped)
        for name, between in (("exact", stmt.exact), ("fast", stmt.fast), ("seen", stmt.seen)):
            for part, region in (("score", between.score), ("weights", between.weights)) if between else ():
                if region is not None:
                    yield f"{name} {part}"
                    yield from self._region(region)
        if stmt.statistics is not None:
            yield "statistics"
            yield from self._region(stmt.statistics)
        for summed in stmt.sums:
            yield f"sums of {self._span(summed.width)}"
            yield from self._region(summed.values)
            yield from self._region(summed.store)

    def _span(self, span: Span) -> str:
        return f"{self._var(span.stop)} by {span.width}{' full' if span.full else ''}"

    def _combine(self, stmt: Reduce | Across | Scan) -> Iterator[str]:
        yield f"combine {self._vars(stmt.values)}"
        yield from self._region(stmt.combine)
        yield f"{self._defines(stmt.outs)} = {'scanned' if isinstance(stmt, Scan) else 'reduced'}"

    def _region(self, region: Region) -> Iterator[str]:
        yield f"  ({self._defines(region.args)})"
        yield from _indent(self._body(region.body))
        yield f"  -> {self._vars(region.results)}"

    def _product(self, p: Product) -> str:
        places = ", ".join(
            f"{_buffer(b)}[{self._var(at)}] stride {self._var(stride)}"
            for b, at, stride in (
                (p.c, p.c_offset, p.c_stride),
                (p.a, p.a_offset, p.a_stride),
                (p.b, p.b_offset, p.b_stride),
            )
        )
        return (
            f"product {places}, {self._vars((p.rows, p.cols, p.depth, p.accumulate))}, "
            f"{p.a_major} packed={p.packed} panel={p.panel}"
        )

    def _define(self, var: Var) -> str:
        return f"{self._var(var)}: {var.dtype.name}"

    def _defines(self, variables: Iterable[Var]) -> str:
        return ", ".join(self._define(v) for v in variables)


def _triton_call(stmt: TritonCall) -> Iterator[str]:
    arguments = ", ".join(f"{n}={_buffer(a) if isinstance(a, Buffer) else a}" for n, a in stmt.arguments)
    options = "".join(f" {name}={value}" for name, value in stmt.options)
    yield f"triton {stmt.function}({arguments}) grid tasks x {stmt.grid[0]} x {stmt.grid[1]}{options}"
    yield from _indent(stmt.text.splitlines())


def _buffer(buffer: Buffer) -> str:
    return f"{buffer.role}{buffer.index}"


def _width(stmt: For | Reduce) -> str:
    return f" {stmt.width}" if stmt.width else ""


def _identity(stmt: Reduce | Across) -> str:
    return ", ".join(_number(i) for i in stmt.identity)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _number(value: Any) -> str:
    """The value as Python prints it, whichever NumPy scalar it came as."""
    return repr(value.item() if hasattr(value, "item") else value)
