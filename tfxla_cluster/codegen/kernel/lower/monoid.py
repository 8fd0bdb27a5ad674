"""What partial results of a reduction may start from: a neutral element, or an initial value that may count often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ....ir.dtype import DType
from ....ir.evaluator import evaluate
from ....ir.node import Computation, Instr, Module


def identities(comp: Computation, count: int) -> tuple[Any, ...]:
    """For each of `count` accumulators its neutral element, or None.

    A combiner that computes each accumulator apart, with one add, multiply, minimum, maximum, and, or,
    or xor, has one; for any other all are None (a partial neutral element would be of no use).
    """
    roots = comp.root.operands if comp.root.opcode == "tuple" else (comp.root,)
    found = [_identity(root, comp.params[n], comp.params[n + count]) for n, root in enumerate(roots)]
    return tuple(found) if all(f is not None for f in found) else (None,) * count


def starts(reduce: Instr) -> tuple[Any, ...]:
    """For each accumulator a value that any number of partial results may start from, in a reduction that counts its
    initial values too; None for all where there is none known.

    Besides neutral elements these are constant initial values that combined with themselves give themselves: one
    more of them in a sum of any order changes nothing (argmax's -inf at 0).
    """
    count = len(reduce.operands) // 2
    found = identities(reduce.attrs["to_apply"], count)
    initial = reduce.operands[count:]
    if None not in found or any(i.opcode != "constant" or i.shape.rank for i in initial):
        return found
    values = [np.asarray(i.attrs["literal"]) for i in initial]
    twice = evaluate(Module("twice", reduce.attrs["to_apply"]), [*values, *values])
    same = all(np.asarray(a).tobytes() == b.tobytes() for a, b in zip(twice, values, strict=True))
    return tuple(value.item() for value in values) if same else found


def _identity(root: Instr, accumulator: Instr, value: Instr) -> Any:
    if root.opcode not in NEUTRAL or root.shape.dtype != accumulator.shape.dtype:
        return None
    if {*root.operands} != {accumulator, value}:
        return None
    return NEUTRAL[root.opcode](root.shape.element_type)


def _limits(dtype: DType) -> Any:
    return ml_dtypes.iinfo(dtype.numpy)


def _lowest(dtype: DType) -> Any:
    if dtype.kind == "pred":
        return False
    return -np.inf if dtype.is_float else int(_limits(dtype).min)


def _highest(dtype: DType) -> Any:
    if dtype.kind == "pred":
        return True
    return np.inf if dtype.is_float else int(_limits(dtype).max)


def _zero(dtype: DType) -> Any:
    """-0.0 for floats: adding 0.0 to -0.0 would lose the sign."""
    return {"pred": False, "float": -0.0, "complex": complex(-0.0, -0.0)}.get(dtype.kind, 0)


def _one(dtype: DType) -> Any:
    return {"pred": True, "float": 1.0, "complex": 1 + 0j}.get(dtype.kind, 1)


def _ones(dtype: DType) -> Any:
    if dtype.kind == "uint":
        return int(_limits(dtype).max)
    return True if dtype.kind == "pred" else -1


NEUTRAL: dict[str, Callable[[DType], Any]] = {
    "add": _zero,
    "multiply": _one,
    "maximum": _lowest,
    "minimum": _highest,
    "and": _ones,
    "or": lambda dtype: False if dtype.kind == "pred" else 0,
    "xor": lambda dtype: False if dtype.kind == "pred" else 0,
}
