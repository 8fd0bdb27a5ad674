"""What one launch of a kernel reads, writes and computes, counted from its statements at given sizes: facts for people,
from which nothing is chosen.

A statement counts as often as the loops and lanes around it run, both sides of a mask included; of a branch that only
data decides the larger side, of a loop that only data ends one iteration. Where the bounds of inner loops depend on an
outer one of many iterations (the last block of a row, a triangle), some spread over all of it stand for all.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...ir.opcode import element_cost
from .attention_ir import Attention, Between, Span
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
    TritonCall,
    Var,
    While,
)
from .lane_ir import SortLanes, Update
from .walk import walk

# (is written, role, index of a buffer) -> elements accessed; _OPERATIONS -> scalar operations.
Count = Counter[Any]
_OPERATIONS = "operations"
_MOST_ITERATIONS, _LEAST_ITERATIONS = 64, 2  # of a loop that are looked at where they differ
_MOST_STATEMENTS = 3000  # to look at before it is the least of them
_GOLDEN = 0.6180339887498949  # its multiples meet no period


@dataclass(frozen=True, slots=True)
class Work:
    """bytes: of each buffer those that are read and those that are written, each at most once. operations: scalar ones
    by the costs of `ir.opcode`, index arithmetic left out; None where that cannot be known."""

    bytes: int
    operations: int | None


def work(kernel: Kernel, sizes: Sequence[int], tasks: int, inputs: Sequence[int], outputs: Sequence[int]) -> Work:
    """Of a launch of `tasks` tasks; `inputs` and `outputs`: bytes of the buffers."""
    calls = [stmt for stmt in walk(kernel.body) if isinstance(stmt, TritonCall)]
    if calls:
        return Work(_user_bytes(calls, inputs, outputs), None)
    count = _Counting(kernel, sizes).of(tasks)
    whole = {"in": inputs, "out": outputs}
    moved = 0
    for buffer in (*kernel.inputs, *kernel.outputs):
        for is_written in (False, True):
            elements = count[is_written, buffer.role, buffer.index]
            moved += min(round(elements) * buffer.dtype.itemsize, whole[buffer.role][buffer.index])
    return Work(moved, round(count[_OPERATIONS]))


def _user_bytes(calls: Iterable[TritonCall], inputs: Sequence[int], outputs: Sequence[int]) -> int:
    """Of kernels that are not read: all that they are handed, once."""
    handed = {a for call in calls for _, a in call.arguments if isinstance(a, Buffer)}
    return sum((inputs if b.role == "in" else outputs)[b.index] for b in handed)


@dataclass(frozen=True, slots=True)
class _Value:
    """number: None where only data tells. loops: bits of the open loops that it depends on. loaded: made of data."""

    number: int | None = None
    loops: int = 0
    loaded: bool = False


_UNKNOWN = _Value(loaded=True)
_NUMBERS: Mapping[str, Callable[..., int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": lambda a, b: a // b if b else a,
    "remainder": lambda a, b: a % b if b else 0,
    "minimum": min,
    "maximum": max,
    "and": operator.and_,
    "or": operator.or_,
    "select": lambda a, b, c: b if a else c,
    "clamp": lambda low, x, high: min(max(low, x), high),
    "negate": operator.neg,
    "convert": lambda a: a,
}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


class _Counting:
    """Evaluates index arithmetic and counts the rest."""

    def __init__(self, kernel: Kernel, sizes: Sequence[int]) -> None:
        self._kernel, self._sizes = kernel, sizes
        self._places = _place_arithmetic(kernel)
        self._env: dict[Var, _Value] = {}
        self._bits = 0  # loops opened so far
        self._asked = 0  # bits of the loops that some bound depended on
        self._lanes: list[int] = []  # of the open tiles
        self._samples, self._seen = _MOST_ITERATIONS, 0  # statements

    def of(self, tasks: int) -> Count:
        return self._repeated(self._kernel.task, 0, tasks, lambda: self._block(self._kernel.body))

    # --- repetition ---
    def _repeated(self, var: Var, start: int, stop: int, body: Callable[[], Count]) -> Count:
        """The sum over all iterations."""
        many = stop - start
        if many <= 0:
            return Counter()
        bit, before = 1 << self._bits, self._asked
        self._bits += 1
        self._asked = 0

        def at(number: int) -> Count:
            self._env[var] = _Value(number, bit)
            return body()

        count = at(start)
        if self._asked & bit and many > 1:
            outer = self._samples
            most = outer if self._seen < _MOST_STATEMENTS else _LEAST_ITERATIONS
            self._samples = max(most // 4, _LEAST_ITERATIONS)
            count = _scaled(_sum(*(at(start + n) for n in _spread(many, most))), many / min(many, most))
            self._samples = outer
        else:
            count = _scaled(count, many)
        self._asked = (self._asked & ~bit) | before
        self._bits -= 1
        return count

    def _loop(self, stmt: For | Reduce | Tile, body: Callable[[], Count]) -> Count:
        start, stop = self._bound(stmt.start), self._bound(stmt.stop)
        if start is None or stop is None:
            start, stop = 0, 1
        return self._repeated(stmt.var, start, stop, body)

    def _bound(self, var: Var) -> int | None:
        value = self._env.get(var, _UNKNOWN)
        self._asked |= value.loops
        return value.number

    def _extent(self, start: Var, stop: Var) -> int:
        first, last = self._bound(start), self._bound(stop)
        return 1 if first is None or last is None else max(last - first, 0)

    # --- statements ---
    def _block(self, body: Iterable[Stmt]) -> Count:
        count: Count = Counter()
        for stmt in body:
            self._seen += 1
            found = _COUNTS[type(stmt)](self, stmt)
            if found is not None:
                _add(count, found)
        return count

    def _region(self, region: Region, args: Sequence[_Value] = ()) -> Count:
        for number, var in enumerate(region.args):
            self._env[var] = args[number] if number < len(args) else _UNKNOWN
        return self._block(region.body)

    def const(self, stmt: Const) -> None:
        self._env[stmt.out] = _Value(int(stmt.value) if stmt.out.dtype.kind in ("int", "uint", "pred") else None)

    def size(self, stmt: Size) -> None:
        self._env[stmt.out] = _Value(self._sizes[stmt.slot])

    def op(self, stmt: Op) -> Count | None:
        values = [self._env.get(v, _UNKNOWN) for v in stmt.operands]
        loops = 0
        for value in values:
            loops |= value.loops
        loaded = any(value.loaded for value in values)
        numbers = [value.number for value in values]
        known = _number(stmt, numbers) if not loaded and None not in numbers else None
        self._env[stmt.out] = _Value(known, loops, loaded)
        counts = loaded or stmt.out.dtype.kind in ("float", "complex")
        if not counts or stmt.out in self._places:
            return None
        return Counter({_OPERATIONS: element_cost(stmt.opcode)})

    def load(self, stmt: Load) -> Count:
        self._env[stmt.out] = _UNKNOWN
        return _accesses(stmt.buffer, False)

    def for_(self, stmt: For) -> Count:
        for var in (*stmt.args, *stmt.outs):
            self._env[var] = _UNKNOWN
        return self._loop(stmt, lambda: self._block(stmt.body))

    def reduce(self, stmt: Reduce) -> Count:
        for var in stmt.outs:
            self._env[var] = _UNKNOWN
        return self._loop(stmt, lambda: _sum(self._block(stmt.body), self._region(stmt.combine)))

    def tile(self, stmt: Tile) -> Count:
        self._lanes.append(self._extent(stmt.start, stmt.stop))
        count = self._loop(stmt, lambda: self._block(stmt.body))
        self._lanes.pop()
        return count

    def fold(self, stmt: Across | Scan) -> Count:
        """Of a lane."""
        for var in stmt.outs:
            self._env[var] = _UNKNOWN
        return self._region(stmt.combine)

    def if_(self, stmt: If) -> Count:
        for var in stmt.outs:
            self._env[var] = _UNKNOWN
        cond = self._bound(stmt.cond)
        if cond is not None:
            return self._region(stmt.then if cond else stmt.orelse)
        return max((self._region(side) for side in (stmt.then, stmt.orelse)), key=lambda count: sum(count.values()))

    def while_(self, stmt: While) -> Count:
        for var in stmt.outs:
            self._env[var] = _UNKNOWN
        return _sum(self._region(stmt.cond), self._region(stmt.body))

    def dot(self, stmt: Dot) -> Count:
        """In each lane of two tiles; each factor is made once for all lanes of the other."""
        self._env[stmt.out] = _UNKNOWN
        depth = self._extent(stmt.start, stmt.stop)
        rows, columns = (max(n, 1) for n in self._lanes[-2:])
        parts = [_scaled(self._region(stmt.a), depth / columns), _scaled(self._region(stmt.b), depth / rows)]
        return _sum(Counter({_OPERATIONS: 2 * depth}), *parts)

    def product(self, stmt: Product) -> Count:
        rows, columns, depth = map(self._length, (stmt.rows, stmt.cols, stmt.depth))
        return _sum(
            Counter({_OPERATIONS: 2 * rows * columns * depth}),
            _scaled(_accesses(stmt.a, False), rows * depth),
            _scaled(_accesses(stmt.b, False), depth * columns),
            _scaled(_accesses(stmt.c, True), rows * columns),
        )

    def update(self, stmt: Update) -> Count:
        cost = Counter({_OPERATIONS: element_cost(stmt.opcode)})
        return _sum(_accesses(stmt.buffer, False), _accesses(stmt.buffer, True), cost)

    def sort(self, stmt: SortLanes) -> Count:
        """Comparisons of a lane in a network of so many."""
        self._env[stmt.out] = _UNKNOWN
        levels = max(self._lanes[-1] - 1, 0).bit_length()
        return Counter({_OPERATIONS: levels * (levels + 1) // 2})

    def attention(self, stmt: Attention) -> Count:
        fixed, looped = self._span(stmt.fixed), self._span(stmt.looped)
        parts = []
        for scores in stmt.scores:
            depth = self._span(scores.depth)
            parts.append(Counter({_OPERATIONS: 2 * fixed * looped * depth}))
            parts.append(_scaled(self._region(scores.fixed), fixed * depth))
            parts.append(_scaled(self._region(scores.looped), looped * depth))
        parts.append(_scaled(self._between(stmt.exact), fixed * looped))
        for weighted in stmt.sums:
            width = self._span(weighted.width)
            parts.append(Counter({_OPERATIONS: 2 * fixed * looped * width}))
            parts.append(_scaled(self._region(weighted.values), looped * width))
            parts.append(_scaled(self._region(weighted.store), fixed * width))
        if stmt.statistics is not None:
            parts.append(_scaled(self._region(stmt.statistics), fixed))
        return _sum(*parts)

    def _between(self, between: Between) -> Count:
        score = [] if between.score is None else [self._region(between.score)]
        exponential = Counter({_OPERATIONS: element_cost("exponential")}) if score else Counter()
        return _sum(self._region(between.weights), exponential, *score)

    def _span(self, span: Span) -> int:
        return self._length(span.stop)

    def _length(self, var: Var) -> int:
        """1 where only data tells."""
        known = self._bound(var)
        return 1 if known is None else known


def _spread(many: int, most: int) -> Iterable[int]:
    """All numbers below `many`, or `most` of them, one at no regular place in each of equal parts."""
    if many <= most:
        return range(many)
    starts = [-(-n * many // most) for n in range(most + 1)]
    return (low + int(n * _GOLDEN % 1 * (high - low)) for n, (low, high) in enumerate(pairwise(starts)))


def _number(stmt: Op, numbers: Sequence[Any]) -> int | None:
    if stmt.opcode == "compare":
        return int(_COMPARED[stmt.attrs["direction"]](*numbers))
    meaning = _NUMBERS.get(stmt.opcode)
    return None if meaning is None else meaning(*numbers)


def _accesses(buffer: Buffer, is_written: bool) -> Count:
    return Counter({(is_written, buffer.role, buffer.index): 1})


def _sum(*counts: Count) -> Count:
    total: Count = Counter()
    for count in counts:
        _add(total, count)
    return total


def _add(total: Count, more: Count) -> None:
    for key, value in more.items():
        total[key] += value


def _scaled(count: Count, factor: float) -> Count:
    return Counter({key: value * factor for key, value in count.items()})


def _place_arithmetic(kernel: Kernel) -> set[Var]:
    """What offsets, masks and bounds are made of."""
    made = {stmt.out: stmt for stmt in walk(kernel.body) if isinstance(stmt, Op)}
    pending = [var for stmt in walk(kernel.body) for var in _places(stmt)]
    found: set[Var] = set()
    while pending:
        var = pending.pop()
        if var not in found and var in made:
            found.add(var)
            pending.extend(made[var].operands)
    return found


def _places(stmt: Stmt) -> Sequence[Var]:
    if isinstance(stmt, (Load, Store, Update)):
        return [stmt.offset] if stmt.mask is None else [stmt.offset, stmt.mask]
    return (stmt.start, stmt.stop) if isinstance(stmt, (For, Reduce, Tile, Dot)) else ()


_COUNTS: Mapping[type, Callable[[_Counting, Any], Count | None]] = {
    Const: _Counting.const,
    Size: _Counting.size,
    Op: _Counting.op,
    Load: _Counting.load,
    Store: lambda counting, stmt: _accesses(stmt.buffer, True),
    For: _Counting.for_,
    Reduce: _Counting.reduce,
    Tile: _Counting.tile,
    Across: _Counting.fold,
    Scan: _Counting.fold,
    If: _Counting.if_,
    While: _Counting.while_,
    Descriptor: lambda counting, stmt: None,
    Dot: _Counting.dot,
    Product: _Counting.product,
    Update: _Counting.update,
    SortLanes: _Counting.sort,
    Attention: _Counting.attention,
}
