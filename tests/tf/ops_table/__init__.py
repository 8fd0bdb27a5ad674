"""Some 150 TensorFlow ops: how to call each on hostile values, for which dtypes, how close results must be."""

from __future__ import annotations

from typing import Any

from .contractions import contractions
from .elementwise import binary, bitwise, elementwise
from .linear_algebra import linear_algebra
from .moves import moves
from .reductions import reductions
from .row import Row

ROWS: list[Row] = []


def _add(*row: Any, **more: Any) -> None:
    ROWS.append(Row(*row, **more))


for _fill in (elementwise, binary, bitwise, reductions, moves, contractions, linear_algebra):
    _fill(_add)

__all__ = ["ROWS", "Row"]
