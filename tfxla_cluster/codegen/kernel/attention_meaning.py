"""What an `Attention` statement computes, on NumPy arrays: all looped rows at once, the softmax as it is written.

Fixed rows stand along the first dimension of a block, or what they are multiplied with does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .attention_ir import Attention, Span
from .checked_memory import Array
from .ir import Region, Var


class Regions(Protocol):
    """What runs the statements of regions. `lanes`: a value may have dimensions."""

    lanes: bool

    def scalar(self, var: Var) -> int: ...

    def region(self, region: Region, args: Sequence[Array]) -> list[Array]: ...


def attention(run: Regions, stmt: Attention) -> None:
    start, stop = run.scalar(stmt.start), run.scalar(stmt.fixed.stop)
    i = np.arange(start, min(start + stmt.fixed.width, stop), dtype=np.int64)[:, None]
    j, around = _numbers(run, stmt.looped), run.lanes
    run.lanes = True
    blocks: list[Array] = []
    for s in stmt.scores:
        d = _numbers(run, s.depth)[None, :]
        blocks.append(_rows(run, s.fixed, i, d) @ _rows(run, s.looped, j[:, None], d).T)
    index = [i, j[None, :]]
    if stmt.exact.score is not None:
        (score,) = run.region(stmt.exact.score, [*index, *blocks])
        blocks = [_softmax(run, stmt, i, np.broadcast_to(score, (i.size, j.size)))]
    weights = run.region(stmt.exact.weights, [*index, *blocks])
    for weight, summed in zip(weights, stmt.sums):
        w = _numbers(run, summed.width)[None, :]
        values = _rows(run, summed.values, j[:, None], w)
        rounded = np.broadcast_to(weight, (i.size, j.size)).astype(summed.values.results[0].dtype.numpy)
        run.region(summed.store, [i, w, rounded.astype(np.float32) @ values])
    run.lanes = around


def _numbers(run: Regions, span: Span) -> Array:
    return np.arange(run.scalar(span.stop), dtype=np.int64)


def _rows(run: Regions, region: Region, rows: Array, columns: Array) -> Array:
    (value,) = run.region(region, [rows, columns])
    return np.broadcast_to(value, (rows.size, columns.size)).astype(np.float32)


def _softmax(run: Regions, stmt: Attention, i: Array, scores: Array) -> Array:
    top = scores.max(1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - top)
    total = powers.sum(1, keepdims=True, dtype=np.float32)
    if stmt.statistics is not None:
        run.region(stmt.statistics, [i, top, total])
    return np.asarray(powers / total)
