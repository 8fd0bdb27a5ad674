"""The state of a kernel's function while its LLVM IR is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import InternalError
from ...ir.dtype import S64
from ...target import Target
from ..kernel import abi
from ..kernel.ir import Buffer, Kernel, Region, Stmt, Var
from ..kernel.makers import maker
from .analysis import index_variables
from .asm import Asm
from .operand import Reg
from .texts import Shared, Text
from .values import Value, registers

Rule = Callable[["Emission", Any], None]


class Emission:
    """State while one kernel's function is written. `rules`: what writes each kind of statement.

    `width` lanes run side by side (1 outside vector loops). Where a loop may end within them, `mask` says
    which lanes run and `count` how many: the first ones, at least one; `full` (a scalar) whether all of
    them do, None where they never all do. `varying` holds the variables that may differ between lanes of
    the vector loop being written.
    """

    def __init__(self, kernel: Kernel, target: Target, rules: Mapping[type, Rule]) -> None:
        self.kernel, self.target, self.rules, self.asm = kernel, target, rules, Asm()
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
        mask = None if count is None else self.lane_mask(count, width)
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

    def lane_mask(self, count: Reg, width: int) -> Reg:
        """i1 lanes that hold for the first `count` of `width`, compared in integers as wide as the data."""
        kind = f"i{max(8, min(64, self.target.vector_bits // width))}"
        return self.asm.cmp("slt", self.asm.lane_numbers(kind, width), self.asm.cast("trunc", count, kind))

    # --- statements ---
    def block(self, body: Sequence[Stmt]) -> None:
        outer = self.asm.maker
        for stmt in body:
            self.asm.maker = maker(stmt) or outer
            self.rules[type(stmt)](self, stmt)
        self.asm.maker = outer

    def region(self, region: Region, args: Sequence[Value]) -> list[Value]:
        """Writes the region's body with its arguments bound; the values of its results."""
        self.env.update(zip(region.args, args))
        self.block(region.body)
        return [self.env[r] for r in region.results]

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
        return Text(function, self.functions, self.asm.declares, self.shared, self.asm.makers)
