"""band-literals: a literal of two values that a diagonal divides --> a comparison of row and column numbers.

So TensorFlow hands over a causal mask that it has folded. Computed it takes no memory, and fusion sees what it is.
"""

from __future__ import annotations

import numpy as np

from ..ir.dtype import DTYPES, PRED
from ..ir.node import Instr
from ..ir.shape import array
from .base import of_rules
from .match import make, splat

LEAST = 64  # elements of a literal that is looked at


def band(i: Instr) -> Instr | None:
    """constant {{a, b, b}, {a, a, b}, ...} --> select(row + n >= column, a, b)"""
    shape, literal = i.shape, i.attrs["literal"]
    if (
        not shape.is_array
        or shape.rank < 2
        or literal.size < LEAST
        or literal.size != literal.shape[-2] * literal.shape[-1]
    ):
        return None
    found = diagonal(literal.reshape(literal.shape[-2:]))
    if found is None:
        return None
    numbers = array(DTYPES["s32"], shape.dims)
    row, column = (make(i, "iota", numbers, (), iota_dimension=shape.rank - 2 + n) for n in (0, 1))
    if found:
        row = make(i, "add", numbers, (row, splat(i, found, numbers)))
    lower, upper = literal.reshape(-1)[-literal.shape[-1]], literal.reshape(-1)[literal.shape[-1] - 1]
    if shape.dtype == PRED:
        return make(i, "compare", shape, (row, column), direction="GE" if lower else "LT")
    inside = make(i, "compare", array(PRED, shape.dims), (row, column), direction="GE")
    return make(i, "select", shape, (inside, splat(i, lower, shape), splat(i, upper, shape)))


def _bits(literal: np.ndarray) -> np.ndarray:
    """Equal where the elements are the same, NaN and -0.0 too."""
    raw = np.ascontiguousarray(literal)
    return raw.view(f"u{raw.itemsize}") if raw.itemsize in (1, 2, 4, 8) else raw


def diagonal(literal: np.ndarray) -> int | None:
    """The n with a matrix's lower left value exactly where row + n >= column; None where there is none."""
    bits = _bits(literal)
    rows, columns = bits.shape
    inside = bits == bits[-1, 0]
    if bits[-1, 0] == bits[0, -1] or not (bits[~inside] == bits[0, -1]).all():
        return None
    counts = inside.sum(1)
    cut = np.flatnonzero((counts > 0) & (counts < columns))
    if not len(cut):
        return None
    number = int(counts[cut[0]] - 1 - cut[0])
    expected = np.arange(rows)[:, None] + number >= np.arange(columns)
    return number if bool((inside == expected).all()) else None


PASS = of_rules("band-literals", {"constant": [band]})
