"""Attention as a statement of kernel IR: two levels of products, with regions for all that is computed between."""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Region, Template, Var


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A dim of blocks: the numbers up to `stop`, `width` (a power of two) at a time; `full`: no lane is ever idle."""

    stop: Var
    width: int
    full: bool


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A block of products of fixed and looped rows: `sum of fixed(i, d) * looped(j, d)` over d in `depth`, in f32.

    `depth` is one block. Both regions have one float dtype, of at most 32 bits.
    """

    fixed: Region
    looped: Region
    depth: Span


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """`store(i, w, sum of weight(i, j) * values(j, w) over all j)` for every fixed row i and w in `width`, one block.

    The sum is f32; the weight is converted to the dtype of `values`, a float of at most 32 bits.
    """

    values: Region
    width: Span
    store: Region


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Looped rows that a mask hides from all fixed rows of a block: there every score is `far`, maybe -inf.

    `after`: those from `edge` on, otherwise those before it; `edge` is a multiple of the looped width. A target may
    leave them out where it finds that they add nothing: their weights are 0, and what these are multiplied with is
    finite, in all of `checked`: operands of looped rows with the span of their columns.
    """

    edge: Var
    after: bool
    far: float
    checked: tuple[tuple[Region, Span], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Attention(Template):
    """Two levels of products for the fixed rows i = `start` ... of one block, over all looped rows j.

    `scores` multiply rows of both. Without a softmax `weights` (i, j, scores...) gives a weight for each of `sums`.
    With one, `score` (i, j, scores...) gives what it is of, in f32: p(i, j) = exp(s(i, j) - top(i)) / total(i), where
    top is the maximum over j and total the sum of those exponentials. `weights` (i, j, p) gives the weight of the only
    sum, and must be a multiple of p: a target may divide by total at the end. `statistics` (i, top, total) may store
    both. No looped row at all gives sums of 0. The order of additions is the target's choice, from the statement and
    the extents alone; `precision` (one of PRECISIONS) is that of products of f32, `stages`: so many blocks of looped
    rows are on their way at once.

    `binary_score` gives `score` times log2(e) with less work; where that leaves the range of f32 infinity or NaN comes
    out, from which a target has to tell that it must do without. `reference`: with it, a target may subtract another
    number than the maximum, for which the same comes out; there are no statistics then.
    """

    start: Var
    fixed: Span
    looped: Span
    scores: tuple[Scores, ...]
    score: Region | None
    binary_score: Region | None
    weights: Region
    sums: tuple[Weighted, ...]
    statistics: Region | None = None
    precision: str = "ieee"
    stages: int = 2
    cut: Cut | None = None
    reference: bool = False

    def regions(self) -> tuple[Region, ...]:
        scores = [region for s in self.scores for region in (s.fixed, s.looped)]
        sums = [region for w in self.sums for region in (w.values, w.store)]
        return tuple(
            r for r in (*scores, self.score, self.binary_score, self.weights, *sums, self.statistics) if r is not None
        )
