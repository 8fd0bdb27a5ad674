"""`Attention` statements: a loop over blocks of looped rows, with two levels of products by the matrix units.

The softmax is the online one: a running maximum and sum a fixed row, by which what was added up so far is scaled. All
is computed in the fast form first, with powers of 2, and without the rows that a mask hides from a whole block; where
the sums tell that this left the range of f32, or hidden rows may add something, it is done again in the exact form.

All blocks have two axes. Along the first lie the rows of an operand or the fixed rows, along the second what they are
multiplied with, or the looped rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..kernel.attention_ir import NOTHING, Attention, Between, Cut, Span
from ..kernel.ir import Load, Region, Var
from .ops import LOG2E
from .types import type_name
from .writer import Axis, Writer

ROWS, COLUMNS = 0, 1
LN2 = 1 / LOG2E
_LARGE, _SMALL = 1e30, 1e-30  # a sum of exponentials that is not far from the largest float, or from the least
_LANES = 8  # a row of a block of scores lies in 4 threads, in pairs: a sum of each of those is one thread's own
_LOWEST = "float('-inf')"
_HIGHEST = "float('inf')"
_LEAST = -3.4e38  # of f32, and less of it than this is taken for -inf


def emit_attention(e: Writer, stmt: Attention) -> None:
    if e.open or e.rank != 2:
        raise e.unsupported("attention inside a tile")
    _Template(e, stmt).emit()


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The numbers start, start + 1, ... of a span as one axis of blocks; idle from `stop` on ('': none is)."""

    start: str
    stop: str
    width: int


def _over(far: float) -> str:
    """So much that the exponential of a score less it is 0: those of f32 end at -104."""
    over = far + max(NOTHING, abs(far) * 1e-6)
    return repr(over) if over > _LEAST else _LOWEST


class _Template:
    def __init__(self, e: Writer, stmt: Attention) -> None:
        self.e, self.stmt = e, stmt
        self.fixed = self._lanes(e.name(stmt.start), stmt.fixed)
        self.base = e.fresh("base")
        self.looped = self._lanes(self.base, stmt.looped)
        self.stop = e.name(stmt.looped.stop)
        self.totals = [e.fresh("acc") for _ in stmt.sums]
        self.top, self.total, self.partial = e.fresh("top"), e.fresh("total"), e.fresh("partial")
        self.highest, self.kept = e.fresh("highest"), e.fresh("kept")  # what is for statistics alone
        self.softmax = stmt.exact.score is not None
        self.between = stmt.exact
        self.operands: list[str] = []
        self.blocks: dict[Var, str] = {}  # of matrices, as far as they are read in this iteration

    def _lanes(self, start: str, span: Span) -> _Lanes:
        return _Lanes(start, "" if span.full else self.e.name(span.stop), span.width)

    @property
    def fast(self) -> bool:
        """Whether scores are times log2(e)."""
        return self.between is not self.stmt.exact

    @property
    def _seeks_highest(self) -> bool:
        return self.fast and self.stmt.reference and self.stmt.statistics is not None

    def emit(self) -> None:
        e, stmt = self.e, self.stmt
        self.operands = [self._operand(s.fixed, self.fixed, self._lanes("0", s.depth)) for s in stmt.scores]
        if stmt.fast is not None:
            e.put(f"if not ({' & '.join(self._fast(stmt.fast))}):")
            e.depth += 1
        self.between = stmt.exact
        self._start()
        self._blocks("0", self.stop, self._block)
        self._end()
        e.depth -= stmt.fast is not None
        self._finish()

    def _start(self) -> None:
        """Nothing is added up yet."""
        e, rows = self.e, self.stmt.fixed.width
        if self.softmax:
            e.put(f"{self.top} = tl.full([{rows}], {_LOWEST}, tl.float32)")
            e.put(f"{self.partial} = tl.zeros([{rows}, {_LANES}], tl.float32)")
            if self._seeks_highest:
                e.put(f"{self.highest} = tl.full([{rows}, {_LANES}], {_LOWEST}, tl.float32)")
        for name, summed in zip(self.totals, self.stmt.sums):
            e.put(f"{name} = tl.zeros([{rows}, {summed.width.width}], tl.float32)")

    def _end(self) -> None:
        """All is added up."""
        if self.softmax:
            self.e.put(f"{self.total} = tl.sum({self.partial}, 1)")
            if self.stmt.statistics is not None:
                self._keep()

    def _keep(self) -> None:
        """The maximum and the sum of each row: what was subtracted may be another number than the maximum."""
        e = self.e
        if self._seeks_highest:
            most = e.fresh("most")
            e.put(f"{most} = tl.max({self.highest}, 1)")
            e.put(f"{self.kept} = {self.total} * tl.exp2({self.top} - {most})")
            e.put(f"{self.top} = {most} * {LN2}")
        else:
            e.put(f"{self.kept} = {self.total}")
            if self.fast:
                e.put(f"{self.top} = {self.top} * {LN2}")

    # --- the fast form ---
    def _fast(self, between: Between) -> list[str]:
        """Adds all up; conditions, all of which must hold for it to count."""
        stmt = self.stmt
        self.between = between
        good = [] if stmt.cut is None else self._clean(stmt.cut)
        self._start()
        if stmt.reference:
            self._refer()
        block = self._reference_block if stmt.reference else self._block
        if stmt.cut is None:
            self._blocks("0", self.stop, block)
        else:
            self._seen_blocks(stmt.cut, block)
            if self.softmax:
                far = _over(stmt.cut.far * LOG2E)
                good.append(self._condition(f"tl.min({self._of_rows(self.top, _HIGHEST)}, 0) > {far}"))
        self._end()
        good += [self._condition(f"tl.sum(tl.sum({name} * 0.0, 1), 0) == 0.0") for name in self.totals]
        if self.softmax:
            good.append(self._condition(f"tl.sum({self.total}, 0) < {_LARGE}"))
            good.append(self._condition(f"tl.min({self._of_rows(self.total, '1.0')}, 0) > {_SMALL}"))
        return good

    def _condition(self, text: str) -> str:
        name = self.e.fresh("good")
        self.e.put(f"{name} = {text}")
        return name

    def _refer(self) -> None:
        """The maximum of the first block serves for all, which saves scaling what was added up."""
        e, kept = self.e, (self.base, self.looped)
        self.base, self.looped = "0", replace(self.looped, start="0")
        first = self._score_block()
        self.base, self.looped = kept
        e.put(f"{self.top} = tl.max({first}, 1)")
        e.put(f"{self.top} = tl.where({self.top} == {_LOWEST}, 0.0, {self.top})")

    def _of_rows(self, name: str, other: str) -> str:
        """A number a fixed row, `other` in idle lanes."""
        if not self.fixed.stop:
            return name
        lanes = f"({self.fixed.start} + tl.arange(0, {self.fixed.width}))"
        return f"tl.where({lanes} < {self.fixed.stop}, {name}, {other})"

    def _blocks(self, start: str, stop: str, fill: Callable[[], None]) -> None:
        """A loop over blocks of looped rows."""
        e, stmt = self.e, self.stmt
        e.put(f"for {self.base} in tl.range({start}, {stop}, {stmt.looped.width}, num_stages={stmt.stages}):")
        e.depth += 1
        self.blocks.clear()
        fill()
        self.blocks.clear()
        e.depth -= 1

    # --- hidden rows ---
    def _seen_blocks(self, cut: Cut, block: Callable[[], None]) -> None:
        """The rows that some fixed row sees; where all of them do, none is asked for."""
        e, masked = self.e, self.between
        edge, inside = e.fresh("edge"), e.fresh("inside")
        e.put(f"{edge} = tl.minimum({e.name(cut.edge)}, {self.stop})")
        e.put(f"{inside} = tl.minimum({e.name(cut.inside)}, {edge if cut.after else self.stop})")
        seen = ("0", inside, self.stmt.seen or masked) if cut.after else (inside, self.stop, self.stmt.seen or masked)
        partly = (inside, edge, masked) if cut.after else (edge, inside, masked)
        for start, stop, between in (seen, partly) if cut.after else (partly, seen):
            self.between = between
            self._blocks(start, stop, block)
        self.between = masked

    def _clean(self, cut: Cut) -> list[str]:
        """Conditions for hidden rows to add nothing; besides, a softmax's maxima have to be far above hidden scores."""
        zeros = [self._operand(cut.zeros, _Lanes("0", "", 1), self._lanes("0", cut.count))]
        zeros += [] if self.softmax else [f"{name}.to(tl.float32) * 0.0" for name in self.operands]
        return [self._condition(f"tl.sum(tl.sum({zero}, 1), 0) == 0.0") for zero in zeros]

    # --- one block of looped rows ---
    def _block(self) -> None:
        self._add(self._softmax() if self.softmax else self._plain())

    def _reference_block(self) -> None:
        score = self._score_block()
        if self._seeks_highest:
            self.e.put(f"{self.highest} = tl.maximum({self.highest}, tl.max({self._in_lanes(score)}, 1))")
        power = self._powers(score, self.top)
        self._add_powers(power)
        self._add(self._region(self.between.weights, self.fixed, self.looped, [power]))

    def _powers(self, score: str, shift: str, columns: str = "[:, None]") -> str:
        """The exponential of scores less a number a row."""
        power = self.e.fresh("power")
        less = f"{score} - {shift}{columns}"
        self.e.put(f"{power} = tl.exp2({less if self.fast else f'({less}) * {LOG2E}'})")
        return power

    def _add_powers(self, power: str) -> None:
        self.e.put(f"{self.partial} = {self.partial} + tl.sum({self._in_lanes(power)}, 1)")

    def _in_lanes(self, block: str) -> str:
        return f"tl.reshape({block}, [{self.fixed.width}, {self.looped.width // _LANES}, {_LANES}])"

    def _add(self, weights: Sequence[str]) -> None:
        """Adds up the outer products of a block."""
        for total, weight, summed in zip(self.totals, weights, self.stmt.sums):
            values = self._looped_rows(summed.values, summed.width, summed.matrix)
            rounded = f"{weight}.to({type_name(summed.values.results[0].dtype)})"
            self.e.put(f"{total} = tl.dot({rounded}, {values}, {total}, {self._precision()})")

    def _looped_rows(self, region: Region, columns: Span, matrix: Var | None) -> str:
        """A block of an operand of looped rows, 0 in idle lanes; of a matrix one that may be there already."""
        if matrix is None:
            return self._operand(region, self.looped, self._lanes("0", columns))
        if matrix not in self.blocks:
            self.blocks[matrix] = self.e.fresh("rows")
            self.e.put(
                f"{self.blocks[matrix]} = {self.e.name(matrix)}.load([tl.cast({self.looped.start}, tl.int32), 0])"
            )
        return self.blocks[matrix]

    def _precision(self) -> str:
        return f"input_precision={self.stmt.precision!r}"

    def _scores(self, number: int) -> str:
        scores, name = self.stmt.scores[number], self.e.fresh("score")
        rows = self._looped_rows(scores.looped, scores.depth, scores.matrix)
        self.e.put(f"{name} = tl.dot({self.operands[number]}, tl.trans({rows}), {self._precision()})")
        return name

    def _products(self) -> list[str]:
        return [self._scores(n) for n in range(len(self.stmt.scores))]

    def _score_block(self) -> str:
        """What the softmax is of, -inf for looped rows that are not there."""
        assert self.between.score is not None
        (raw,) = self._region(self.between.score, self.fixed, self.looped, self._products())
        return self._masked(raw, _LOWEST)

    def _plain(self) -> list[str]:
        """Weights; none for looped rows that are not there."""
        scores = self._products()
        return [self._masked(w, "0.0") for w in self._region(self.between.weights, self.fixed, self.looped, scores)]

    def _masked(self, block: str, other: str) -> str:
        """`block` with `other` in the columns of looped rows that are not there."""
        if not self.looped.stop:
            return block
        name = self.e.fresh("held")
        lanes = f"({self.base} + tl.arange(0, {self.looped.width}))[None, :]"
        self.e.put(f"{name} = tl.where({lanes} < {self.looped.stop}, {block}, {other})")
        return name

    def _softmax(self) -> list[str]:
        """Weights of probabilities that are not yet divided by the sum of their row.

        Of a row that was -inf so far all are 0: then 0 is subtracted, for -inf less itself is NaN. The maximum drops
        NaN, but the exponential of one is in the row's sum, as is that of +inf less itself.
        """
        e = self.e
        score, new, shift = self._score_block(), e.fresh("new"), e.fresh("shift")
        e.put(f"{new} = tl.maximum({self.top}, tl.max({score}, 1))")
        e.put(f"{shift} = tl.where({new} == {_LOWEST}, 0.0, {new})")
        power, scale = self._powers(score, shift), self._powers(self.top, shift, "")
        e.put(f"{self.partial} = {self.partial} * {scale}[:, None]")
        self._add_powers(power)
        for total in self.totals:
            e.put(f"{total} = {total} * {scale}[:, None]")
        e.put(f"{self.top} = {new}")
        return self._region(self.between.weights, self.fixed, self.looped, [power])

    # --- after all blocks ---
    def _finish(self) -> None:
        e, stmt = self.e, self.stmt
        share = e.fresh("share") if self.softmax else ""
        if share:  # one division a row, not one an element
            e.put(f"{share} = tl.where({self.stop} > 0, 1.0 / {self.total}, 0.0)")
        for total, summed in zip(self.totals, stmt.sums):
            result = total
            if share:
                result = e.fresh("result")
                e.put(f"{result} = {total} * {share}[:, None]")
            self._region(summed.store, self.fixed, self._lanes("0", summed.width), [result])
        if stmt.statistics is not None:
            i, top, total_of_row = stmt.statistics.args
            e.open = [e.lanes_of(i, ROWS, self.fixed.start, self.fixed.stop, self.fixed.width)]
            kept = f"tl.where({self.kept} == {self.kept}, {self.top}, {self.kept})"
            e.define(top, f"({kept})[:, None]", frozenset([ROWS]))
            e.define(total_of_row, f"{self.kept}[:, None]", frozenset([ROWS]))
            e.body(stmt.statistics.body)
            e.open = []

    # --- regions ---
    def _region(self, region: Region, rows: _Lanes, columns: _Lanes, blocks: Sequence[str]) -> list[str]:
        """The results of a region of a row, a column and the elements of `blocks`, as blocks."""
        e = self.e
        first, second, *others = region.args
        self._open(first, second, rows, columns)
        for var, block in zip(others, blocks):
            e.names[var], e.axes[var] = block, frozenset([ROWS, COLUMNS])
        e.body(region.body)
        found = [e.spread(v) for v in region.results]
        e.open = []
        return found

    def _open(self, first: Var, second: Var, rows: _Lanes, columns: _Lanes) -> list[Axis]:
        lanes = ((first, ROWS, rows), (second, COLUMNS, columns))
        self.e.open = [self.e.lanes_of(var, axis, s.start, s.stop, s.width) for var, axis, s in lanes]
        return self.e.open

    def _operand(self, region: Region, rows: _Lanes, columns: _Lanes) -> str:
        """A block of an operand, 0 in idle lanes."""
        e = self.e
        row, column = region.args
        axes = self._open(row, column, rows, columns)
        e.body(region.body)
        (value,) = region.results
        text, masks = e.spread(value), [a.mask for a in axes if a.mask]
        zero_already = e.axes_of(value) == frozenset([ROWS, COLUMNS]) and _is_loaded(region, value)
        if masks and not zero_already:
            text = f"tl.where({' & '.join(masks)}, {text}, 0.0)"
        e.open = []
        name = e.fresh("rows")
        e.put(f"{name} = {text}")
        return name


def _is_loaded(region: Region, value: Var) -> bool:
    """Whether the value is a load, and so is 0 in idle lanes."""
    return any(isinstance(s, Load) and s.out is value and s.other is None for s in region.body)
