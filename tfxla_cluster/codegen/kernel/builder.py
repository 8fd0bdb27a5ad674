"""Builds kernel IR: methods append statements and return the values they define."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...ir.dim import Dim
from ...ir.dtype import PRED, S64, DType
from ...ir.size_proofs import at_most, divides
from .attention_ir import Attention
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


class KernelBuilder:
    """Collects one kernel. Constants, sizes and equal pure ops are shared, and stand in the outermost
    open loop where their operands are known (loop-invariant code is hoisted while building). `multiple`: sizes that
    are proven to be multiples of this power of two, or of its half or fourth, say so. `constant`: fixed sizes are
    constants, so that dividing by one is a multiplication (and machine code is for them alone)."""

    def __init__(self, name: str, multiple: int = 0, constant: bool = False) -> None:
        self.name, self.multiple, self.constant = name, multiple, constant
        self.task = Var(S64, "task")
        self.inputs: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.scratch: list[Buffer] = []
        self._slots: dict[Dim, int] = {}
        self._blocks: list[list[Stmt]] = [[]]
        self._memo: list[dict[object, Var]] = [{}]
        self._masks: list[Var] = []  # of `only_where`, each within those before
        self._depth: dict[Var, int] = {self.task: 0}
        self._floor = [0]  # nothing is hoisted above the innermost open region
        self._maker = ""  # the HLO instruction that values are made for

    # --- buffers and sizes ---
    def input(self, dtype: DType) -> Buffer:
        self.inputs.append(Buffer("in", len(self.inputs), dtype))
        return self.inputs[-1]

    def output(self, dtype: DType) -> Buffer:
        self.outputs.append(Buffer("out", len(self.outputs), dtype))
        return self.outputs[-1]

    def scratch_buffer(self, dtype: DType, elements: int) -> Buffer:
        self.scratch.append(Buffer("scratch", len(self.scratch), dtype, elements))
        return self.scratch[-1]

    def size(self, dim: Dim) -> Var:
        """The value of `dim` at run time: 0 and 1 are constants, anything else takes a size slot."""
        if isinstance(dim, int) and (self.constant or dim in (0, 1)):
            return self.index(dim)
        slot = self._slots.setdefault(dim, len(self._slots))
        return self._shared(("size", slot), S64, lambda out: Size(out, slot, self._multiple(dim)), ())

    def _multiple(self, dim: Dim) -> int:
        """The largest power of two, of those worth saying, that a positive size is proven to be a multiple of."""
        found = (m for m in (self.multiple, self.multiple // 2, self.multiple // 4) if m > 1 and divides(m, dim))
        return next(found, 0) if self.multiple and at_most(1, dim) else 0

    def number(self, dim: Dim) -> Var:
        """A number that may be negative: a constant of the code, or what an expression is at run time."""
        return self.index(dim) if isinstance(dim, int) else self.size(dim)

    # --- values ---
    def const(self, value: Any, dtype: DType) -> Var:
        key = ("const", repr(value), dtype.name)
        return self._shared(key, dtype, lambda out: Const(out, value), ())

    def index(self, value: int) -> Var:
        return self.const(value, S64)

    def op(self, opcode: str, *operands: Var, dtype: DType | None = None, **attrs: Any) -> Var:
        """An elementwise op; the result has the first operand's dtype unless given."""
        result = dtype or (PRED if opcode == "compare" else operands[0].dtype)
        key = (opcode, operands, result.name, tuple(sorted(attrs.items())))
        return self._shared(key, result, lambda out: Op(out, opcode, operands, attrs), operands)

    def load(self, buffer: Buffer, offset: Var, mask: Var | None = None, other: Var | None = None) -> Var:
        mask = self._within(mask)
        return self._define(Var(buffer.dtype, self._maker), lambda out: Load(out, buffer, offset, mask, other))

    def load_once(self, buffer: Buffer, offset: Var, mask: Var | None = None, other: Var | None = None) -> Var:
        """A load of a buffer that this kernel never writes: shared and hoisted like a pure op.

        The offset must be in bounds (or masked) wherever its operands are defined, even if the loop
        the load was hoisted from runs no iteration.
        """
        mask = self._within(mask)
        operands = tuple(v for v in (offset, mask, other) if v is not None)
        key = ("load", buffer, offset, mask, other)
        return self._shared(key, buffer.dtype, lambda out: Load(out, buffer, offset, mask, other), operands)

    @contextmanager
    def made_for(self, instr: str) -> Iterator[None]:
        """Values inside are made for the HLO instruction of that name, which listings say."""
        outer, self._maker = self._maker, instr
        yield
        self._maker = outer

    @contextmanager
    def only_where(self, mask: Var) -> Iterator[None]:
        """Loads inside happen where `mask` holds, besides what each says itself."""
        self._masks.append(self._within(mask) or mask)
        yield
        self._masks.pop()

    def _within(self, mask: Var | None) -> Var | None:
        outer = self._masks[-1] if self._masks else None
        return self.op("and", outer, mask) if outer is not None and mask is not None else mask or outer

    def recall(self, key: object) -> Var | None:
        """What `remember` was told in this block or one around it."""
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        return None

    def remember(self, key: object, value: Var) -> None:
        """Lets `recall` find `value` (of the innermost block) until the block ends."""
        self._memo[-1][key] = value

    def store(
        self,
        buffer: Buffer,
        offset: Var,
        value: Var,
        mask: Var | None = None,
        stream: bool = False,
        matrix: Var | None = None,
        place: tuple[Var, ...] = (),
        rows: tuple[int, ...] = (),
    ) -> None:
        self._append(Store(buffer, offset, value, mask, stream, matrix, place, rows))

    def update(self, buffer: Buffer, offset: Var, value: Var, opcode: str, mask: Var | None = None) -> None:
        """`opcode` of the element and `value` where other lanes and tasks may do the same."""
        self._append(Update(buffer, offset, value, opcode, self._within(mask)))

    # --- index arithmetic, folding what is known ---
    def add(self, a: Var, b: Var) -> Var:
        if self._is(a, 0):
            return b
        return a if self._is(b, 0) else self.op("add", a, b)

    def mul(self, a: Var, b: Var) -> Var:
        if self._is(a, 1) or self._is(b, 0):
            return b
        return a if self._is(b, 1) or self._is(a, 0) else self.op("multiply", a, b)

    def quotient(self, a: Var, b: Var) -> Var:
        """a // b of indices, as `ir` says."""
        return self.op("divide", a, b, index=True)

    def remainder(self, a: Var, b: Var) -> Var:
        """a % b of indices, as `ir` says."""
        return self.op("remainder", a, b, index=True)

    def compare(self, a: Var, b: Var, direction: str) -> Var:
        return self.op("compare", a, b, direction=direction)

    # --- structure ---
    @contextmanager
    def loop(self, start: Var, stop: Var, kind: str = "serial", width: int = 0, overlap: bool = False) -> Iterator[Var]:
        """`with b.loop(start, stop, "vector") as i:` statements inside form the body."""
        var = Var(S64)
        with self._block(var) as body:
            yield var
        self._append(For(var, start, stop, tuple(body), kind, width=width, overlap=overlap))

    @contextmanager
    def tile(self, start: Var, stop: Var, width: int, full: bool = False, parts: int = 1) -> Iterator[Var]:
        """`with b.tile(start, stop, 64) as i:` statements inside form the body."""
        var = Var(S64)
        with self._block(var) as body:
            yield var
        self._append(Tile(var, start, stop, width, tuple(body), full, parts))

    def across(
        self,
        lane: Var,
        values: Sequence[Var],
        init: Sequence[Var],
        identity: Sequence[Any],
        combine: Callable[..., Sequence[Var]],
    ) -> tuple[Var, ...]:
        """The values of all lanes of the tile of `lane`; `combine(*accumulators, *values)` folds them."""
        region = self.region([v.dtype for v in (*init, *values)], combine)
        outs = self._outs([v.dtype for v in init])
        self._append(Across(lane, tuple(values), tuple(init), tuple(identity), region, outs))
        return outs

    def scan(self, lane: Var, values: Sequence[Var], combine: Callable[..., Sequence[Var]]) -> tuple[Var, ...]:
        """In each lane of the tile of `lane` the fold of all values up to it, by `combine(*left, *right)`."""
        region = self.region([v.dtype for v in (*values, *values)], combine)
        outs = self._outs([v.dtype for v in values])
        self._append(Scan(lane, tuple(values), region, outs))
        return outs

    def sort_lanes(self, lane: Var, value: Var) -> Var:
        """The values of the lanes of the innermost tile, which is that of `lane`, in their order."""
        (out,) = self._outs([value.dtype])
        self._append(SortLanes(lane, value, out))
        return out

    def fold(self, start: Var, stop: Var, init: Sequence[Var], step: Callable[..., Sequence[Var]]) -> tuple[Var, ...]:
        """A serial loop with carried values: `step(i, *carried)` gives the next ones."""
        var, args = Var(S64), tuple(Var(v.dtype) for v in init)
        with self._block(var, *args) as body:
            yields = tuple(step(var, *args))
        outs = self._outs([v.dtype for v in init])
        self._append(For(var, start, stop, tuple(body), "serial", tuple(init), args, yields, outs))
        return outs

    def reduce(
        self,
        start: Var,
        stop: Var,
        init: Sequence[Var],
        identity: Sequence[Any],
        value: Callable[[Var], Sequence[Var]],
        combine: Callable[..., Sequence[Var]],
        kind: str = "vector",
        width: int = 0,
    ) -> tuple[Var, ...]:
        """`value(i)` gives the values of an iteration, `combine(*accumulators, *values)` folds them."""
        var = Var(S64)
        with self._block(var) as body:
            values = tuple(value(var))
        region = self.region([v.dtype for v in (*init, *values)], combine)
        outs = self._outs([v.dtype for v in init])
        self._append(
            Reduce(var, start, stop, tuple(body), values, tuple(init), tuple(identity), region, outs, kind, width)
        )
        return outs

    def cond(
        self, predicate: Var, then: Callable[[], Sequence[Var]], orelse: Callable[[], Sequence[Var]]
    ) -> tuple[Var, ...]:
        """`then()` where `predicate` holds, else `orelse()`: the values of the one that ran."""
        first, second = self.region([], then), self.region([], orelse)
        outs = self._outs([v.dtype for v in first.results])
        self._append(If(predicate, first, second, outs))
        return outs

    def while_loop(
        self, init: Sequence[Var], cond: Callable[..., Var], body: Callable[..., Sequence[Var]]
    ) -> tuple[Var, ...]:
        """`carried = body(*carried)` while `cond(*carried)`, from `init`; the last carried values."""
        dtypes = [v.dtype for v in init]
        test, step = self.region(dtypes, lambda *a: (cond(*a),)), self.region(dtypes, body)
        outs = self._outs(dtypes)
        self._append(While(tuple(init), test, step, outs))
        return outs

    def descriptor(
        self, buffer: Buffer, offset: Var, dims: Sequence[Var], strides: Sequence[Var], block: tuple[int, ...]
    ) -> Var:
        """An array of `dims`, all but the last `strides` apart, of which blocks are read or stored."""
        fields = (tuple(dims), tuple(strides))
        operands = (offset, *dims, *strides)
        key = ("descriptor", buffer, operands, block)
        return self._shared(key, buffer.dtype, lambda out: Descriptor(out, buffer, offset, *fields, block), operands)

    def dot(self, dtype: DType, start: Var, stop: Var, a: Region, b: Region, **how: Any) -> Var:
        """The sum of products in `dtype`; `how`: the further fields of a `Dot`."""
        (out,) = self._outs([dtype])
        self._append(Dot(out, start, stop, a, b, **how))
        return out

    def product(self, product: Product) -> None:
        self._append(product)

    def attention(self, attention: Attention) -> None:
        self._append(attention)

    def region(self, dtypes: Sequence[DType], fill: Callable[..., Sequence[Var]]) -> Region:
        """The statements that `fill` appends, given arguments of `dtypes`; it returns the results."""
        args = tuple(Var(d) for d in dtypes)
        self._floor.append(len(self._blocks))
        with self._block(*args) as body:
            results = tuple(fill(*args))
        self._floor.pop()
        return Region(args, tuple(body), results)

    def finish(self, tasks: Dim, cost: Dim = 1, warps: int = 0) -> Kernel:
        return Kernel(
            self.name,
            tuple(self.inputs),
            tuple(self.outputs),
            tuple(self.scratch),
            tuple(self._slots),
            tasks,
            self.task,
            tuple(self._blocks[0]),
            cost,
            warps,
        )

    # --- internals ---
    @contextmanager
    def _block(self, *variables: Var) -> Iterator[list[Stmt]]:
        """A new innermost block, in which `variables` are defined."""
        self._depth.update(dict.fromkeys(variables, len(self._blocks)))
        self._blocks.append([])
        self._memo.append({})
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()
            self._memo.pop()

    def _append(self, stmt: Stmt) -> None:
        self._blocks[-1].append(stmt)

    def _define(self, out: Var, make: Callable[[Var], Stmt]) -> Var:
        self._append(make(out))
        self._depth[out] = len(self._blocks) - 1
        return out

    def _outs(self, dtypes: Sequence[DType]) -> tuple[Var, ...]:
        """Result values of a statement about to be appended to the innermost block."""
        outs = tuple(Var(d, self._maker) for d in dtypes)
        self._depth.update(dict.fromkeys(outs, len(self._blocks) - 1))
        return outs

    def _shared(self, key: object, dtype: DType, make: Callable[[Var], Stmt], operands: Sequence[Var]) -> Var:
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        innermost = len(self._blocks) - 1
        depth = max((self._depth.get(v, innermost) for v in operands), default=0)
        depth = max(depth, self._floor[-1])
        out = Var(dtype, self._maker)
        self._blocks[depth].append(make(out))
        self._memo[depth][key] = out
        self._depth[out] = depth
        return out

    def _is(self, value: Var, number: int) -> bool:
        return any(memo.get(("const", repr(number), value.dtype.name)) is value for memo in self._memo)
