"""Softmax found in plain ops: e / sum(e) with e = exp(x - max(x)), both reductions over one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ir.node import Instr
from .index import Access, Splitter, flatten
from .moves import sources
from .program import digits

_MOVES = ("broadcast", "reshape", "bitcast")


@dataclass(frozen=True)
class Softmax:
    """`quotient` is the softmax of `scores` over `axis`; `top` and `total`, reduces, are a row's maximum and sum."""

    scores: Instr
    top: Instr
    total: Instr
    quotient: Instr
    axis: int


def wide(instr: Instr) -> Instr:
    """What `instr` is but for conversions from float to float."""
    while instr.opcode == "convert" and _is_float(instr) and _is_float(instr.operands[0]):
        instr = instr.operands[0]
    return instr


def softmax_of(quotient: Instr) -> Softmax | None:
    """The softmax whose result `quotient` is; None where it is none. Conversions between floats may stand anywhere."""
    if quotient.opcode != "divide" or not _is_float(quotient) or quotient.shape.rank == 0:
        return None
    power = wide(quotient.operands[0])
    shifted = wide(power.operands[0]) if power.opcode == "exponential" else None
    if shifted is None or shifted.opcode != "subtract":
        return None
    total, top = _row(quotient.operands[1]), _row(shifted.operands[1])
    if total is None or top is None or total.attrs["dimensions"] != top.attrs["dimensions"]:
        return None
    scores = shifted.operands[0]
    same = wide(total.operands[0]) is power and wide(top.operands[0]) is wide(scores)
    if not same or not folds(total, "add", 0.0) or not folds(top, "maximum", -np.inf):
        return None
    return Softmax(scores, top, total, quotient, top.attrs["dimensions"][0])


def _is_float(instr: Instr) -> bool:
    return instr.shape.is_array and instr.shape.element_type.is_float


def _row(value: Instr) -> Instr | None:
    """The reduce over one dimension whose result `value` repeats along that dimension."""
    own = digits(value.shape.dims, "s")
    access = Access(value, own)
    while access.instr.opcode in _MOVES or wide(access.instr) is not access.instr:
        (access,) = sources(access, Splitter())
    reduce = access.instr
    if reduce.opcode != "reduce" or len(reduce.operands) != 2 or len(reduce.attrs["dimensions"]) != 1:
        return None
    axis = reduce.attrs["dimensions"][0]
    kept = flatten(own[:axis] + own[axis + 1 :])
    if reduce.operands[0].shape.dims != value.shape.dims or flatten(access.index) != kept:
        return None
    return reduce


def folds(reduce: Instr, opcode: str, initial: float) -> bool:
    """Whether a reduce combines with `opcode` from `initial` on."""
    body, first = reduce.attrs["to_apply"], wide(reduce.operands[1])
    if body.root.opcode != opcode or set(body.root.operands) != set(body.params) or first.opcode != "constant":
        return False
    return float(np.asarray(first.attrs["literal"])) == initial
