"""Kernel IR to LLVM IR text: one function a kernel, in the ABI of `codegen.kernel.abi`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...errors import InternalError
from ...ir.dtype import S64
from ...target import Target
from ..kernel import abi
from ..kernel.ir import Buffer, Const, For, If, Kernel, Load, Op, Product, Reduce, Region, Size, Stmt, Store, Var, While
from . import loops, ops
from .analysis import index_variables
from .asm import Asm
from .contraction import emit_product
from .formats import register_type, round_to
from .memory import COPY_FUNCTION, emit_load, emit_store
from .operand import Reg
from .texts import Shared, Text
from .values import Value, combine_strides, registers

_LINEAR_OPCODES = ("add", "subtract", "multiply")
_SHIFTS = {"add": "add", "subtract": "sub", "multiply": "mul"}


class Emitter:
    """State while one kernel's function is written.

    `width` lanes run side by side (1 outside vector loops). Where a loop may end within them, `mask` says
    which lanes run and `count` how many: the first ones, at least one; `full` (a scalar) whether all of
    them do, None where they never all do. `varying` holds the variables that may differ between lanes of
    the vector loop being written.
    """

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target, self.asm = kernel, target, Asm()
        self.env: dict[Var, Value] = {}
        self.width = 1
        self.mask: Reg | None = None
        self.count: Reg | None = None
        self.full: Reg | None = None
        self.varying: set[Var] = set()
        self.index_variables = index_variables(kernel)
        self.functions: dict[str, str] = {}
        self.shared: dict[str, Shared] = {}
        self._slots: dict[int, Reg] = {}
        self._pointers: dict[tuple[str, int], Reg] = {}
        self._fence = False

    # --- memory the kernel owns ---
    def pointer(self, buffer: Buffer) -> Reg:
        return self._pointers[buffer.role, buffer.index]

    def slot(self, bytes: int) -> Reg:
        """A stack slot for the elements at the end of a loop."""
        if bytes not in self._slots:
            self._slots[bytes] = self.asm.alloca(bytes)
        return self._slots[bytes]

    def dummy(self) -> Reg:
        """Where masked-off lanes read and write."""
        return self.slot(16)

    def copy(self, kind: str, to: Reg, source: Reg) -> None:
        """Copies the elements of the lanes that run."""
        assert self.count is not None
        self.functions[f"copy_{kind}"] = COPY_FUNCTION.format(type=kind)
        self.asm.line(f"call void @copy_{kind}(ptr {to.text}, ptr {source.text}, i64 {self.count.text})")

    def streams(self) -> None:
        """Some store writes past the caches: others see it after a fence."""
        self.functions["nontemporal"] = "!0 = !{i32 1}"
        self._fence = True

    # --- values ---
    def registers(self, var: Var) -> tuple[Reg, ...]:
        return registers(self.asm, self.env[var], self.width)

    def scalar(self, var: Var) -> Reg:
        """The register of a value that is the same in all lanes."""
        value = self.env[var]
        if value.varying:
            name = var.hint or "a loop bound"
            raise InternalError(f"kernel {self.kernel.name}: {name} differs between lanes")
        return value.parts[0]

    def widened(self, var: Var, wide: bool) -> tuple[Reg, ...]:
        """The registers of `var`, as vectors where `wide`."""
        parts = self.registers(var)
        return tuple(self.asm.splat(p, self.width) for p in parts) if wide else parts

    @contextmanager
    def lanes(self, width: int, count: Reg | None = None, full: Reg | None = None) -> Iterator[None]:
        """Inside, `width` lanes run, the first `count` of them where that is given."""
        before = self.width, self.mask, self.count, self.full
        mask = None if count is None else loops.lane_mask(self, count, width)
        self.width, self.mask, self.count, self.full = width, mask, count, full
        try:
            yield
        finally:
            self.width, self.mask, self.count, self.full = before

    def full_or_partial(
        self, full: Callable[[], Sequence[Reg]], partial: Callable[[], Sequence[Reg]]
    ) -> tuple[Reg, ...]:
        """What `full` writes where all lanes run, what `partial` writes otherwise."""
        if self.full is None:
            return tuple(partial())
        self.asm.begin_branch()
        all_lanes = full()
        then = self.asm.end_branch()
        self.asm.begin_branch()
        some_lanes = partial()
        return self.asm.branch(self.full, then, all_lanes, self.asm.end_branch(), some_lanes)

    # --- statements ---
    def block(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            _EMIT[type(stmt)](self, stmt)

    def region(self, region: Region, args: Sequence[Value]) -> list[Value]:
        """Writes the region's body with its arguments bound; the values of its results."""
        self.env.update(zip(region.args, args))
        self.block(region.body)
        return [self.env[r] for r in region.results]

    def const(self, stmt: Const) -> None:
        """Binds a constant (a complex one as two parts)."""
        dtype, kind = stmt.out.dtype, register_type(stmt.out.dtype)
        if dtype.kind == "complex":
            number = complex(stmt.value)
            numbers: tuple[float, ...] = (number.real, number.imag)
        else:
            value = dtype.numpy.type(stmt.value)
            numbers = (float(value) if dtype.is_float else int(value),)
        parts = tuple(self.asm.literal(kind, n) for n in numbers)
        self.env[stmt.out] = Value(dtype, parts)

    def size(self, stmt: Size) -> None:
        self.env[stmt.out] = Value(S64, (self.sizes[stmt.slot],))

    def op(self, stmt: Op) -> None:
        args = [self.env[v] for v in stmt.operands]
        self.env[stmt.out] = self._linear(stmt, args) or self._elementwise(stmt, args)

    def _linear(self, stmt: Op, args: list[Value]) -> Value | None:
        """Index arithmetic that keeps the form base + lane * stride."""
        dtype = stmt.out.dtype
        if not any(a.stride is not None for a in args):
            return None
        if stmt.opcode in _LINEAR_OPCODES and dtype.bits >= 32:
            found = combine_strides(self.asm, stmt.opcode, *args)
            return Value(dtype, (found[0],), found[1]) if found else None
        if stmt.opcode == "convert" and dtype.is_integer and 32 <= dtype.bits <= args[0].dtype.bits:
            cast = [self._narrow(r, register_type(dtype)) for r in (args[0].parts[0], args[0].stride)]
            return Value(dtype, (cast[0],), cast[1])
        return None

    def _narrow(self, reg: Reg | None, kind: str) -> Reg:
        assert reg is not None
        if reg.value is not None:
            return self.asm.literal(kind, reg.value)
        return self.asm.cast("trunc", reg, kind)

    def _elementwise(self, stmt: Op, args: list[Value]) -> Value:
        dtype = stmt.out.dtype
        if stmt.attrs.get("index"):
            a, b = (registers(self.asm, v, self.width)[0] for v in args)
            return Value(dtype, (ops.index_division(self.asm, stmt.opcode, a, b),))
        operands = [ops.Operands(a.dtype, registers(self.asm, a, self.width)) for a in args]
        parts = ops.emit(self.asm, stmt.opcode, stmt.attrs, operands, dtype)
        if stmt.opcode not in ops.EXACT:
            parts = tuple(round_to(self.asm, dtype, p) for p in parts)
        return Value(dtype, parts)

    def load(self, stmt: Load) -> None:
        self.env[stmt.out] = emit_load(self, stmt)

    def store(self, stmt: Store) -> None:
        emit_store(self, stmt)

    # --- the function ---
    def function(self, symbol: str) -> Text:
        """The whole kernel as a function called `symbol`: a loop over the tasks it is given."""
        asm = self.asm
        context = self._argument("%ctx")
        begin, end = self._field(context, abi.TASK_BEGIN), self._field(context, abi.TASK_END)
        for role, name, buffers in (("in", "%inputs", self.kernel.inputs), ("out", "%outputs", self.kernel.outputs)):
            table = self._argument(name)
            for buffer in buffers:
                where = asm.gep(table, "ptr", asm.literal("i64", buffer.index))
                self._pointers[role, buffer.index] = asm.load("ptr", 1, where, 8)
        if self.kernel.scratch:
            scratch = self._field(context, abi.SCRATCH, "ptr")
            for buffer, offset in zip(self.kernel.scratch, abi.scratch_layout(self.kernel)[0]):
                self._pointers["scratch", buffer.index] = asm.gep(scratch, "i8", asm.literal("i64", offset))
        sizes = self._argument("%sizes")
        self.sizes = [
            asm.load("i64", 1, asm.gep(sizes, "i64", asm.literal("i64", slot)), 8)
            for slot in range(len(self.kernel.sizes))
        ]
        loop = asm.begin_loop(begin)
        self.env[self.kernel.task] = Value(S64, (loop.index,))
        self.block(self.kernel.body)
        asm.end_loop(loop, end, 1)
        if self._fence:
            asm.declare("llvm.x86.sse.sfence", "void", [])
            asm.line("call void @llvm.x86.sse.sfence()")
        return self._text(symbol)

    def _argument(self, name: str) -> Reg:
        return Reg(self.asm, name, "ptr", 1, 0)

    def _field(self, context: Reg, number: int, type: str = "i64") -> Reg:
        return self.asm.load(type, 1, self.asm.gep(context, "i64", self.asm.literal("i64", number)), 8)

    def _text(self, symbol: str) -> Text:
        head = f"define void @{symbol}(ptr %ctx, ptr %inputs, ptr %outputs, ptr %sizes) nounwind {{\nentry:"
        function = "\n".join([head, *self.asm.finish(), "  ret void", "}", ""])
        return Text(function, self.functions, self.asm.declares, self.shared)


_EMIT: dict[type, Callable[..., None]] = {
    Const: Emitter.const,
    Size: Emitter.size,
    Op: Emitter.op,
    Load: Emitter.load,
    Store: Emitter.store,
    For: loops.emit_for,
    Reduce: loops.emit_reduce,
    If: loops.emit_if,
    While: loops.emit_while,
    Product: emit_product,
}


def emit(kernel: Kernel, target: Target, symbol: str) -> Text:
    """LLVM IR of the kernel's function under the name `symbol`."""
    return Emitter(kernel, target).function(symbol)
