"""Runs kernel IR on NumPy arrays: slow and plain, what a kernel means, and a sanitizer.

Ops mean what `ir.evaluator` says. A value is an array of no dimension, or, in a vector loop, of one: a
lane for each iteration, all of the loop at once. In tiles it has a dimension for each that nests, of the lanes
in use (idle ones are not there), or of 1 where it is the same in all. Accesses are checked
(`checked_memory`), and scratch memory is poisoned at the start of each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...decision import YES, Decision, no
from ...errors import InternalError, UnsupportedError
from ...ir.attributes import complete
from ...ir.dtype import DType
from ...ir.evaluator import MEANINGS, Evaluator
from ...ir.infer.elementwise import works_on
from ...ir.node import Instr
from ...ir.opcode import is_elementwise
from ...ir.shape import array as array_shape
from .attention_ir import Attention
from .attention_meaning import attention
from .checked_memory import Array, CheckedMemory, poison
from .ir import (
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
    Product,
    Reduce,
    Region,
    Scan,
    Size,
    Stmt,
    Store,
    Tile,
    Var,
    While,
)
from .lane_ir import SortLanes, Update
from .lanes import runs_in_lanes, varying_variables
from .text import statement_line
from .walk import lane_depth


def run(kernel: Kernel, inputs: Sequence[Array], outputs: Sequence[Array], sizes: Sequence[int], tasks: range) -> None:
    """Runs `tasks` of `kernel`, one after the other.

    `inputs` and `outputs`: a dense array for each buffer, of any shape and dtype, whose bytes are the buffer's
    elements; outputs are updated in place. `sizes`: the number in each size slot. InternalError, with the
    statement, where the kernel leaves a buffer or two tasks touch one element that one of them writes;
    UnsupportedError for an opcode that the evaluator has no meaning for.
    """
    interpreter = _Interpreter(kernel, inputs, outputs, sizes)
    with np.errstate(all="ignore"):
        for task in tasks:
            interpreter.task(task)


_REAL_ONLY = ("atan2", "cbrt")  # in NumPy


def support(opcode: str, operands: Sequence[DType], out: DType) -> Decision:
    """Whether the evaluator has a meaning for an op on operands of these types."""
    known = is_elementwise(opcode) and opcode != "map" and opcode in MEANINGS and works_on(opcode, operands[0])
    if not known or (operands[0].kind == "complex" and opcode in _REAL_ONLY):
        return no("opcode", f"no meaning for {opcode} on {operands[0].name}")
    if opcode == "bitcast-convert" and operands[0].bits != out.bits:
        return no("bitcast", f"no meaning for bitcast-convert on {operands[0].name} as {out.name}")
    return YES


class _Interpreter:
    """`env` holds the variables defined so far; `lanes` is set inside a vector loop."""

    def __init__(self, kernel: Kernel, inputs: Sequence[Array], outputs: Sequence[Array], sizes: Sequence[int]) -> None:
        self.kernel, self.sizes = kernel, sizes
        scratch = [np.empty(b.elements, b.dtype.numpy) for b in kernel.scratch]
        buffers = [*zip(kernel.inputs, inputs), *zip(kernel.outputs, outputs), *zip(kernel.scratch, scratch)]
        self.memory = {(b.role, b.index): CheckedMemory(b, a) for b, a in buffers}
        self.env: dict[Var, Array] = {}
        self.lanes = False
        self.rank = lane_depth(kernel.body)  # dimensions of a value in the innermost tile
        self.axes: dict[Var, int] = {}  # of the lanes of each open tile
        self.number = 0  # of the task
        self._evaluator = Evaluator(MEANINGS)
        self._instrs: dict[Op, Instr] = {}
        self._in_lanes: dict[Stmt, bool] = {}

    def task(self, number: int) -> None:
        self.number = number
        for buffer in self.kernel.scratch:
            self.memory[buffer.role, buffer.index].data[...] = poison(buffer.dtype)
        self.env = {self.kernel.task: np.asarray(np.int64(number))}
        self.block(self.kernel.body)

    # --- values ---
    def scalar(self, var: Var) -> int:
        """The number of a value that is the same in all lanes."""
        value = self.env[var]
        if value.ndim:
            raise InternalError(f"kernel {self.kernel.name}: {var.hint or 'a loop bound'} differs between lanes")
        return int(value)

    def values(self, variables: Sequence[Var]) -> list[Array]:
        return [self.env[v] for v in variables]

    def bind(self, variables: Sequence[Var], values: Sequence[Array]) -> None:
        self.env.update(zip(variables, values, strict=True))

    # --- statements ---
    def block(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            _RUN[type(stmt)](self, stmt)

    def region(self, region: Region, args: Sequence[Array]) -> list[Array]:
        self.bind(region.args, args)
        self.block(region.body)
        return self.values(region.results)

    def const(self, stmt: Const) -> None:
        self.env[stmt.out] = np.asarray(stmt.out.dtype.numpy.type(stmt.value))

    def size(self, stmt: Size) -> None:
        self.env[stmt.out] = np.asarray(np.int64(self.sizes[stmt.slot]))

    def op(self, stmt: Op) -> None:
        args = self.values(stmt.operands)
        if stmt.attrs.get("index"):
            args[1] = np.maximum(args[1], 1)
        instr = self._instr(stmt)
        result = np.asarray(MEANINGS[stmt.opcode](self._evaluator, instr, args))
        if result.dtype != stmt.out.dtype.numpy:
            raise self._error(stmt, f"the value is {result.dtype}")
        self.env[stmt.out] = result

    def _instr(self, stmt: Op) -> Instr:
        """The HLO instruction whose meaning is the op's; UnsupportedError names an opcode and dtype without one."""
        if stmt not in self._instrs:
            decision = support(stmt.opcode, [v.dtype for v in stmt.operands], stmt.out.dtype)
            if not decision:
                raise UnsupportedError(decision.reason)
            attrs = complete(stmt.opcode, dict(stmt.attrs), stmt.operands[0].dtype.kind)
            self._instrs[stmt] = Instr(stmt.opcode, stmt.opcode, array_shape(stmt.out.dtype), attrs=attrs)
        return self._instrs[stmt]

    # --- memory ---
    def load(self, stmt: Load) -> None:
        offset = self.env[stmt.offset]
        if stmt.mask is None:
            self.env[stmt.out] = self._read(stmt, stmt.buffer, offset)
            return
        zero = np.zeros((), stmt.out.dtype.numpy)
        other = zero if stmt.other is None else self.env[stmt.other]
        offset, mask, other = np.broadcast_arrays(offset, self.env[stmt.mask], other)
        value = other.copy()
        value[mask] = self._read(stmt, stmt.buffer, offset[mask])
        self.env[stmt.out] = value

    def store(self, stmt: Store) -> None:
        mask = np.asarray(True) if stmt.mask is None else self.env[stmt.mask]
        offset, value, mask = np.broadcast_arrays(self.env[stmt.offset], self.env[stmt.value], mask)
        self._write(stmt, stmt.buffer, offset[mask], value[mask])

    def update(self, stmt: Update) -> None:
        mask = np.asarray(True) if stmt.mask is None else self.env[stmt.mask]
        offset, value, mask = np.broadcast_arrays(self.env[stmt.offset], self.env[stmt.value], mask)
        memory = self.memory[stmt.buffer.role, stmt.buffer.index]
        with self._located(stmt):
            memory.update(offset[mask], value[mask], _UPDATED[stmt.opcode], self.number)

    def _read(self, stmt: Stmt, buffer: Buffer, offsets: Array) -> Array:
        with self._located(stmt):
            return self.memory[buffer.role, buffer.index].read(offsets, self.number)

    def _write(self, stmt: Stmt, buffer: Buffer, offsets: Array, values: Array) -> None:
        with self._located(stmt):
            self.memory[buffer.role, buffer.index].write(offsets, values, self.number)

    @contextmanager
    def _located(self, stmt: Stmt) -> Iterator[None]:
        try:
            yield
        except InternalError as error:
            raise self._error(stmt, error.message) from None

    def _error(self, stmt: Stmt, message: str) -> InternalError:
        line = statement_line(self.kernel, stmt)
        return InternalError(f"kernel {self.kernel.name}, task {self.number}, '{line}': {message}")

    # --- loops ---
    def _enters_lanes(self, stmt: For | Reduce) -> bool:
        """Whether all iterations run at once, a lane each."""
        if self.lanes or stmt.kind != "vector":
            return False
        if stmt not in self._in_lanes:
            body = (*stmt.body, *stmt.combine.body) if isinstance(stmt, Reduce) else stmt.body
            seeds = (stmt.var, *stmt.combine.args) if isinstance(stmt, Reduce) else (stmt.var,)
            self._in_lanes[stmt] = runs_in_lanes(body, varying_variables(body, seeds))
        return self._in_lanes[stmt]

    @contextmanager
    def _all_lanes(self, stmt: For | Reduce, span: range) -> Iterator[None]:
        self.lanes = True
        self.env[stmt.var] = np.arange(span.start, span.stop, dtype=np.int64)
        yield
        self.lanes = False

    def _span(self, stmt: For | Reduce | Tile) -> range:
        return range(self.scalar(stmt.start), self.scalar(stmt.stop))

    def for_loop(self, stmt: For) -> None:
        span, carried = self._span(stmt), self.values(stmt.init)
        if self._enters_lanes(stmt):
            if span:
                with self._all_lanes(stmt, span):
                    self.block(stmt.body)
            return
        for number in span:
            self.env[stmt.var] = np.asarray(np.int64(number))
            self.bind(stmt.args, carried)
            self.block(stmt.body)
            carried = self.values(stmt.yields)
        self.bind(stmt.outs, carried)

    def reduce(self, stmt: Reduce) -> None:
        span, total = self._span(stmt), self.values(stmt.init)
        if span and self._enters_lanes(stmt):
            with self._all_lanes(stmt, span):
                self.block(stmt.body)
                rows = [np.broadcast_to(v, len(span)) for v in self.values(stmt.values)]
                folded = self._fold_lanes(stmt, rows)
            total = self.region(stmt.combine, [*total, *folded])
        else:
            for number in span:
                self.env[stmt.var] = np.asarray(np.int64(number))
                self.block(stmt.body)
                total = self.region(stmt.combine, [*total, *self.values(stmt.values)])
        self.bind(stmt.outs, total)

    def tile(self, stmt: Tile) -> None:
        span, axis, around = self._span(stmt), len(self.axes), self.lanes
        if len(span) > stmt.width:
            raise self._error(stmt, f"{len(span)} lanes are in use")
        self.lanes, self.axes[stmt.var] = True, axis
        lanes = np.arange(span.start, span.stop, dtype=np.int64)
        self.env[stmt.var] = lanes.reshape([-1 if n == axis else 1 for n in range(self.rank)])
        self.block(stmt.body)
        self.lanes = around
        del self.axes[stmt.var]

    def across(self, stmt: Across) -> None:
        axis, lanes = self.axes[stmt.lane], self.env[stmt.lane]
        total = self.values(stmt.init)
        if lanes.size:
            spread = np.broadcast_arrays(*self.values(stmt.values), lanes)[:-1]
            rows = [np.moveaxis(v, axis, 0) for v in spread]
            folded = [np.expand_dims(r, axis) for r in self._fold_lanes(stmt, rows)]
            total = self.region(stmt.combine, [*total, *folded])
        self.bind(stmt.outs, total)

    def scan(self, stmt: Scan) -> None:
        axis, lanes = self.axes[stmt.lane], self.env[stmt.lane]
        spread = np.broadcast_arrays(*self.values(stmt.values), lanes)[:-1]
        rows = [np.moveaxis(v, axis, 0) for v in spread]
        found = [r[:1] for r in rows]
        for number in range(1, lanes.size):
            last = self.region(stmt.combine, [*(f[-1] for f in found), *(r[number] for r in rows)])
            found = [np.concatenate([f, np.broadcast_to(v, f.shape[1:])[None]]) for f, v in zip(found, last)]
        self.bind(stmt.outs, [np.moveaxis(f, 0, axis) for f in found])

    def sort_lanes(self, stmt: SortLanes) -> None:
        value, _ = np.broadcast_arrays(self.env[stmt.value], self.env[stmt.lane])
        self.env[stmt.out] = np.sort(value, self.axes[stmt.lane])

    def _fold_lanes(self, stmt: Reduce | Across, rows: list[Array]) -> list[Array]:
        """Neighbours (along the first dimension) are combined until one lane is left."""
        while len(rows[0]) > 1:
            even = len(rows[0]) // 2 * 2
            rest = [r[even:] for r in rows]
            pairs = self.region(stmt.combine, [*(r[0:even:2] for r in rows), *(r[1:even:2] for r in rows)])
            half = (even // 2, *rows[0].shape[1:])
            rows = [np.concatenate([np.broadcast_to(p, half), r]) for p, r in zip(pairs, rest)]
        return [r[0, ...] for r in rows]

    def if_else(self, stmt: If) -> None:
        chosen = stmt.then if self.scalar(stmt.cond) else stmt.orelse
        self.bind(stmt.outs, self.region(chosen, []))

    def while_loop(self, stmt: While) -> None:
        carried = self.values(stmt.init)
        while self._holds(stmt.cond, carried):
            carried = self.region(stmt.body, carried)
        self.bind(stmt.outs, carried)

    def _holds(self, cond: Region, carried: Sequence[Array]) -> bool:
        self.region(cond, carried)
        return bool(self.scalar(cond.results[0]))

    # --- products ---
    def descriptor(self, stmt: Descriptor) -> None:
        """Nothing: the regions of a dot say what its blocks hold."""

    def dot(self, stmt: Dot) -> None:
        """Each region for all lanes and all k at once: k stands where the other tile's lanes are."""
        steps = np.arange(self.scalar(stmt.start), self.scalar(stmt.stop), dtype=np.int64)
        rows, cols = (self.env[v].size for v in self.axes)
        parts = np.divmod(steps, stmt.run) if stmt.run else (steps,)
        (a,) = self.region(stmt.a, [part[None, :] for part in parts])
        (b,) = self.region(stmt.b, [part[:, None] for part in parts])
        kind = stmt.out.dtype.numpy
        left, right = np.broadcast_to(a, (rows, len(steps))), np.broadcast_to(b, (len(steps), cols))
        self.env[stmt.out] = np.matmul(left.astype(kind), right.astype(kind))

    def product(self, p: Product) -> None:
        """Whole panels of a packed right operand, as a target works: what lies past `cols` is read too."""
        rows, cols, depth = (max(0, self.scalar(v)) for v in (p.rows, p.cols, p.depth))
        i, k = np.arange(rows)[:, None], np.arange(depth)
        j = np.arange(-(-cols // p.panel) * p.panel if p.packed else cols)
        c_at = self.scalar(p.c_offset) + i * self.scalar(p.c_stride) + j[:cols]
        a_at = self.scalar(p.a_offset) + self._a_places(p, i, k)
        b_at = self.scalar(p.b_offset) + self._b_places(p, k[:, None], j)
        a, b = self._read(p, p.a, a_at), self._read(p, p.b, b_at)
        total = np.zeros((rows, len(j)), p.c.dtype.numpy)
        for step in k:
            total = total + a[:, step : step + 1] * b[step]
        total = total[:, :cols]
        if self.scalar(p.accumulate):
            total = self._read(p, p.c, c_at) + total
        self._write(p, p.c, c_at, total)

    def _a_places(self, p: Product, i: Array, k: Array) -> Array:
        stride = self.scalar(p.a_stride)
        return i * stride + k if p.a_major == "row" else k * stride + i

    def _b_places(self, p: Product, k: Array, j: Array) -> Array:
        stride = self.scalar(p.b_stride)
        return j // p.panel * stride + k * p.panel + j % p.panel if p.packed else k * stride + j


_UPDATED: dict[str, np.ufunc] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_RUN: dict[type, Callable[[_Interpreter, Any], None]] = {
    Const: _Interpreter.const,
    Size: _Interpreter.size,
    Op: _Interpreter.op,
    Load: _Interpreter.load,
    Store: _Interpreter.store,
    For: _Interpreter.for_loop,
    Reduce: _Interpreter.reduce,
    Tile: _Interpreter.tile,
    Across: _Interpreter.across,
    Scan: _Interpreter.scan,
    If: _Interpreter.if_else,
    While: _Interpreter.while_loop,
    Descriptor: _Interpreter.descriptor,
    Dot: _Interpreter.dot,
    Product: _Interpreter.product,
    Attention: attention,
    Update: _Interpreter.update,
    SortLanes: _Interpreter.sort_lanes,
}
