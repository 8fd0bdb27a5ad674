"""The meaning of every opcode, in NumPy: slow, plain, and what tests compare kernels with."""

from __future__ import annotations

from . import contraction, control, elementwise, linear, move, random, reduction
from .core import Evaluator, Meaning, Value, evaluate

MEANINGS: dict[str, Meaning] = {
    **elementwise.MEANINGS,
    **move.MEANINGS,
    **reduction.MEANINGS,
    **contraction.MEANINGS,
    **control.MEANINGS,
    **linear.MEANINGS,
    **random.MEANINGS,
}

__all__ = ["MEANINGS", "Evaluator", "Value", "evaluate"]
