"""Attention as a statement of kernel IR: two levels of products, with regions for all that is computed between."""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Region, Template, Var

NOTHING = 150.0  # so much below a score, the exponential of that is 0 in f32


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A dim of blocks: the numbers up to `stop`, `width` (a power of two) at a time; `full`: no lane is ever idle."""

    stop: Var
    width: int
    full: bool


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A block of products of fixed and looped rows: `sum of fixed(i, d) * looped(j, d)` over d in `depth`, in f32.

    `depth` is one block. Both regions have one float dtype, of at most 32 bits. `matrix`: looped rows as rows of a
    `Descriptor` of such blocks.
    """

    fixed: Region
    looped: Region
    depth: Span
    matrix: Var | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """`store(i, w, sum of weight(i, j) * values(j, w) over all j)` for every fixed row i and w in `width`, one block.

    The sum is f32; the weight is converted to the dtype of `values`, a float of at most 32 bits. `matrix`: values as
    rows of a `Descriptor` of such blocks.
    """

    values: Region
    width: Span
    store: Region
    matrix: Var | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """What is computed of a block of products of rows i and j. `score` (i, j, products...) is what the softmax is of,
    in f32, where there is one; `weights` (i, j, probability or else products...) gives a weight for each sum."""

    score: Region | None
    weights: Region


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Looped rows that a mask hides from all fixed rows of a block: there every score is `far`, maybe -inf.

    `after`: those from `edge` on, otherwise those before it; `edge` is a multiple of the looped width, and so is
    `inside`, on the other side of which no fixed row of the block has a hidden one. A target may leave hidden rows out
    where they add nothing: they do not where `zeros` (0, k) gives 0 for all k in `count`, fixed operands of a gradient
    are finite, and a softmax's maximum is so far above `far` that exp(far - top) is 0.
    """

    edge: Var
    inside: Var
    after: bool
    far: float
    zeros: Region
    count: Span


@dataclass(frozen=True, slots=True, eq=False)
class Attention(Template):
    """Two levels of products for the fixed rows i = `start` ... of one block, over all looped rows j.

    `scores` multiply rows of both, and `exact` makes weights of the products, for each of `sums`. With a softmax
    p(i, j) = exp(score(i, j) - top(i)) / total(i) is in between, where top is the maximum over j and total the sum of
    those exponentials; then there is one sum, whose weight must be a multiple of p: a target may divide by total at the
    end. `statistics` (i, top, total) may store both. No looped row at all gives sums of 0. The order of additions is
    the target's choice, from the statement and the extents alone; `precision` (one of PRECISIONS) is that of products
    of f32, `stages`: so many blocks of looped rows are on their way at once.

    `fast` is `exact` with less work, its score times log2(e). Where that leaves the range of f32, or the numbers are
    none that it is right for, it gives infinity or NaN, from which a target has to tell that it must do without. `seen`
    is the same for rows of which a cut hides none. `reference`: with them, a target may subtract another number than
    the maximum, for which the same comes out.
    """

    start: Var
    fixed: Span
    looped: Span
    scores: tuple[Scores, ...]
    exact: Between
    sums: tuple[Weighted, ...]
    fast: Between | None = None
    seen: Between | None = None
    statistics: Region | None = None
    precision: str = "ieee"
    stages: int = 2
    cut: Cut | None = None
    reference: bool = False

    def regions(self) -> tuple[Region, ...]:
        scores = [region for s in self.scores for region in (s.fixed, s.looped)]
        between = [region for b in (self.exact, self.fast, self.seen) if b for region in (b.score, b.weights)]
        sums = [region for w in self.sums for region in (w.values, w.store)]
        zeros = self.cut.zeros if self.cut else None
        return tuple(r for r in (*scores, *between, *sums, zeros, self.statistics) if r is not None)
