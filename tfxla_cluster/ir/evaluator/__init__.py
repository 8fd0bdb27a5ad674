"""The meaning of every opcode, in NumPy: slow, plain, and what tests compare kernels with."""

from __future__ import annotations

from .core import Evaluator, Value
from .modules import evaluate
from .table import MEANINGS

__all__ = ["MEANINGS", "Evaluator", "Value", "evaluate"]
