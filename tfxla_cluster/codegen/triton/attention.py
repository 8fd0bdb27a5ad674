"""`Attention` statements: a loop over blocks of looped rows, with two levels of products by the matrix units.

The softmax is the online one: a running maximum and sum a fixed row, by which what was added up so far is scaled. It is
computed with powers of 2 of scores that are multiplied by log2(e) already; where a sum tells that this left the range
of f32, or there is no telling, all is done again with the scores as they are.

All blocks have two axes. Along the first lie the rows of an operand or the fixed rows, along the second what they are
multiplied with, or the looped rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..kernel.attention_ir import Attention, Cut, Span
from ..kernel.ir import Load, Region, Var
from .ops import LOG2E
from .types import type_name
from .writer import Axis, Writer

ROWS, COLUMNS = 0, 1
# Options: a product and the sum it is part of are one instruction, and rounded once. Scores are not exact anyway.
CONTRACTED = (("enable_fp_fusion", True),)
LN2 = 1 / LOG2E
_FAR = 150.0  # so much above a score, the exponential of that is 0
_LARGE, _SMALL = 1e30, 1e-30  # a sum of exponentials that is not far from the largest float, or from the least
_LANES = 8  # a row of a block of scores lies in 4 threads, in pairs: a sum of each of those is one thread's own
_LOWEST = "float('-inf')"
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
    over = far + max(_FAR, abs(far) * 1e-6)
    return repr(over) if over > _LEAST else _LOWEST


class _Template:
    def __init__(self, e: Writer, stmt: Attention) -> None:
        self.e, self.stmt = e, stmt
        self.fixed = self._lanes(e.name(stmt.start), stmt.fixed)
        self.base = e.fresh("base")
        self.looped = self._lanes(self.base, stmt.looped)
        self.totals = [e.fresh("acc") for _ in stmt.sums]
        self.top, self.total, self.partial = e.fresh("top"), e.fresh("total"), e.fresh("partial")
        self.binary = False  # scores are times log2(e)
        self.operands: list[str] = []

    def _lanes(self, start: str, span: Span) -> _Lanes:
        return _Lanes(start, "" if span.full else self.e.name(span.stop), span.width)

    def emit(self) -> None:
        e, stmt = self.e, self.stmt
        self.operands = [self._operand(s.fixed, self.fixed, self._lanes("0", s.depth)) for s in stmt.scores]
        if stmt.score is None:
            for name, summed in zip(self.totals, stmt.sums):
                e.put(f"{name} = tl.zeros([{stmt.fixed.width}, {summed.width.width}], tl.float32)")
            self._all_blocks(self._block)
        else:
            self._softmax_sums()
        self._finish()

    def _softmax_sums(self) -> None:
        e, stmt, good = self.e, self.stmt, self.e.fresh("good")
        self.binary = True
        self._start()
        if stmt.reference:
            self._refer()
        self._all_blocks(self._reference_block if stmt.reference else self._block)
        e.put(f"{self.total} = tl.sum({self.partial}, 1)")
        if stmt.statistics is not None:
            e.put(f"{self.top} = {self.top} * {LN2}")
        self.binary = False
        least = f"tl.where({self._rows_there()}, {self.total}, 1.0)" if self.fixed.stop else self.total
        tests = [f"(tl.sum({self.total}, 0) < {_LARGE})", f"(tl.min({least}, 0) > {_SMALL})"]
        tests += [f"(tl.sum(tl.sum({name} * 0.0, 1), 0) == 0.0)" for name in self.totals]
        e.put(f"{good} = {' & '.join(tests)}")
        e.put(f"if not {good}:")
        e.depth += 1
        self._start()
        self._all_blocks(self._block)
        e.put(f"{self.total} = tl.sum({self.partial}, 1)")
        e.depth -= 1

    def _start(self) -> None:
        """Nothing is added up yet."""
        e, rows = self.e, self.stmt.fixed.width
        e.put(f"{self.top} = tl.full([{rows}], {_LOWEST}, tl.float32)")
        e.put(f"{self.partial} = tl.zeros([{rows}, {_LANES}], tl.float32)")
        for name, summed in zip(self.totals, self.stmt.sums):
            e.put(f"{name} = tl.zeros([{rows}, {summed.width.width}], tl.float32)")

    def _refer(self) -> None:
        """The maximum of the first block serves for all, which saves scaling what was added up."""
        e, kept = self.e, (self.base, self.looped)
        self.base, self.looped = "0", replace(self.looped, start="0")
        first = self._score_block()
        self.base, self.looped = kept
        e.put(f"{self.top} = tl.max({first}, 1)")
        e.put(f"{self.top} = tl.where({self.top} == {_LOWEST}, 0.0, {self.top})")

    def _all_blocks(self, block: Callable[[], None]) -> None:
        stop = self.e.name(self.stmt.looped.stop)
        if self.stmt.cut is None:
            self._blocks("0", stop, block)
        else:
            self._cut_blocks(self.stmt.cut, stop, block)

    def _blocks(self, start: str, stop: str, fill: Callable[[], None]) -> None:
        """A loop over blocks of looped rows."""
        e, stmt = self.e, self.stmt
        e.put(f"for {self.base} in tl.range({start}, {stop}, {stmt.looped.width}, num_stages={stmt.stages}):")
        e.depth += 1
        fill()
        e.depth -= 1

    # --- hidden rows ---
    def _cut_blocks(self, cut: Cut, stop: str, block: Callable[[], None]) -> None:
        """The loop without the hidden rows where they add nothing; with them otherwise."""
        e = self.e
        edge, bound = e.fresh("edge"), e.fresh("bound")
        e.put(f"{edge} = tl.minimum({e.name(cut.edge)}, {stop})")
        clean = self._clean(cut, edge, stop)
        e.put(f"{bound} = tl.where({clean}, {edge}, {stop if cut.after else 0})")
        if self.stmt.score is None:
            self._blocks(*(("0", bound) if cut.after else (bound, stop)), block)
        else:
            self._rounds(cut, bound, stop, block)

    def _rounds(self, cut: Cut, bound: str, stop: str, block: Callable[[], None]) -> None:
        """First the rows that are seen. Where a row's maximum is then not far above what hidden rows have, these count,
        and a second round has them."""
        e = self.e
        start, end, low = e.fresh("start"), e.fresh("end"), e.fresh("low")
        e.put(f"{start}, {end} = " + (f"{bound} * 0, {bound}" if cut.after else f"{bound}, {bound} * 0 + {stop}"))
        e.put("for _ in tl.range(0, 2):")
        e.depth += 1
        self._blocks(start, end, block)
        e.put(f"{low} = tl.min(tl.where({self._rows_there()}, {self.top}, float('inf')), 0)")
        far = _over(cut.far * LOG2E if self.binary else cut.far)
        other = f"tl.where({low} > {far}, {bound}, {stop if cut.after else 0})"
        e.put(f"{start}, {end} = " + (f"{bound}, {other}" if cut.after else f"{other}, {bound}"))
        e.depth -= 1

    def _rows_there(self) -> str:
        lanes = f"({self.fixed.start} + tl.arange(0, {self.fixed.width}))"
        return f"{lanes} < {self.fixed.stop}" if self.fixed.stop else f"{lanes} >= 0"

    def _clean(self, cut: Cut, edge: str, stop: str) -> str:
        """The name of whether the hidden rows add nothing.

        What their weights are multiplied with is finite: 0 times all of it adds up to 0. In a gradient the weights
        themselves are 0, for the scores that they have: those of all hidden rows with the first fixed one, and of all
        fixed rows with the first hidden one, since no float depends on a pair of them.
        """
        e, gradient = self.e, self.stmt.score is None
        sums = [e.fresh("sum") for _ in cut.checked]
        for name, (_, span) in zip(sums, cut.checked):
            e.put(f"{name} = tl.zeros([{self.looped.width}, {span.width}], tl.float32)")
        weights = e.fresh("sum")
        if gradient:
            e.put(f"{weights} = tl.zeros([1, {self.looped.width}], tl.float32)")

        def check() -> None:
            for name, (region, span) in zip(sums, cut.checked):
                e.put(f"{name} += {self._operand(region, self.looped, self._lanes('0', span))}.to(tl.float32) * 0.0")
            if gradient:
                for weight in self._hidden_weights(_Lanes(self.fixed.start, "", 1), self.looped):
                    e.put(f"{weights} += tl.abs({self._masked(weight, '0.0')})")

        first, last = (edge, stop) if cut.after else ("0", edge)
        self._blocks(first, last, check)
        clean = e.fresh("clean")
        tests = [f"(tl.sum(tl.sum({name}, 1), 0) == 0.0)" for name in sums]
        if gradient:
            tests.append(f"(tl.sum(tl.sum({weights}, 1), 0) == 0.0)")
            for weight in self._hidden_weights(self.fixed, _Lanes(edge if cut.after else "0", "", 1)):
                held = f"tl.where(({self._rows_there()})[:, None], tl.abs({weight}), 0.0)"
                tests.append(f"(tl.sum(tl.sum({held}, 1), 0) == 0.0)")
            tests += [f"(tl.sum(tl.sum({name}.to(tl.float32) * 0.0, 1), 0) == 0.0)" for name in self.operands]
        e.put(f"{clean} = {' & '.join(tests)}")
        return clean

    def _hidden_weights(self, rows: _Lanes, columns: _Lanes) -> list[str]:
        """The weights where all products are 0: those of hidden scores do not depend on them."""
        zeros = f"tl.zeros([{rows.width}, {columns.width}], tl.float32)"
        return self._region(self.stmt.weights, rows, columns, [zeros] * len(self.stmt.scores))

    # --- one block of looped rows ---
    def _block(self) -> None:
        self._add(self._softmax() if self.stmt.score is not None else self._plain())

    def _reference_block(self) -> None:
        power = self._powers(self._score_block(), self.top)
        self._add_powers(power)
        self._add(self._region(self.stmt.weights, self.fixed, self.looped, [power]))

    def _powers(self, score: str, shift: str, columns: str = "[:, None]") -> str:
        """The exponential of scores less a number a row."""
        power = self.e.fresh("power")
        less = f"{score} - {shift}{columns}"
        self.e.put(f"{power} = tl.exp2({less if self.binary else f'({less}) * {LOG2E}'})")
        return power

    def _add_powers(self, power: str) -> None:
        parts = f"tl.reshape({power}, [{self.fixed.width}, {self.looped.width // _LANES}, {_LANES}])"
        self.e.put(f"{self.partial} = {self.partial} + tl.sum({parts}, 1)")

    def _add(self, weights: Sequence[str]) -> None:
        """Adds up the outer products of a block."""
        for total, weight, summed in zip(self.totals, weights, self.stmt.sums):
            values = self._operand(summed.values, self.looped, self._lanes("0", summed.width))
            rounded = f"{weight}.to({type_name(summed.values.results[0].dtype)})"
            self.e.put(f"{total} = tl.dot({rounded}, {values}, {total}, {self._precision()})")

    def _precision(self) -> str:
        return f"input_precision={self.stmt.precision!r}"

    def _scores(self, number: int) -> str:
        scores, name = self.stmt.scores[number], self.e.fresh("score")
        rows = self._operand(scores.looped, self.looped, self._lanes("0", scores.depth))
        self.e.put(f"{name} = tl.dot({self.operands[number]}, tl.trans({rows}), {self._precision()})")
        return name

    def _products(self) -> list[str]:
        return [self._scores(n) for n in range(len(self.stmt.scores))]

    def _score_block(self) -> str:
        """What the softmax is of, -inf for looped rows that are not there."""
        region = self.stmt.binary_score if self.binary else self.stmt.score
        assert region is not None
        (raw,) = self._region(region, self.fixed, self.looped, self._products())
        return self._masked(raw, _LOWEST)

    def _plain(self) -> list[str]:
        """Weights; none for looped rows that are not there."""
        scores = self._products()
        return [self._masked(w, "0.0") for w in self._region(self.stmt.weights, self.fixed, self.looped, scores)]

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
        e, stmt = self.e, self.stmt
        score, new, shift = self._score_block(), e.fresh("new"), e.fresh("shift")
        e.put(f"{new} = tl.maximum({self.top}, tl.max({score}, 1))")
        e.put(f"{shift} = tl.where({new} == {_LOWEST}, 0.0, {new})")
        power, scale = self._powers(score, shift), self._powers(self.top, shift, "")
        e.put(f"{self.partial} = {self.partial} * {scale}[:, None]")
        self._add_powers(power)
        for total in self.totals:
            e.put(f"{total} = {total} * {scale}[:, None]")
        e.put(f"{self.top} = {new}")
        return self._region(stmt.weights, self.fixed, self.looped, [power])

    # --- after all blocks ---
    def _finish(self) -> None:
        e, stmt = self.e, self.stmt
        for total, summed in zip(self.totals, stmt.sums):
            result = total
            if stmt.score is not None:
                result = e.fresh("result")
                e.put(f"{result} = tl.where({e.name(stmt.looped.stop)} > 0, {total} / {self.total}[:, None], 0.0)")
            self._region(summed.store, self.fixed, self._lanes("0", summed.width), [result])
        if stmt.statistics is not None:
            i, top, total_of_row = stmt.statistics.args
            e.open = [e.lanes_of(i, ROWS, self.fixed.start, self.fixed.stop, self.fixed.width)]
            kept = f"tl.where({self.total} == {self.total}, {self.top}, {self.total})"
            e.define(top, f"({kept})[:, None]", frozenset([ROWS]))
            e.define(total_of_row, f"{self.total}[:, None]", frozenset([ROWS]))
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
