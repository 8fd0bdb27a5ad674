"""Float opcodes: the table of functions on f32 or f64 registers."""

from __future__ import annotations

from collections.abc import Callable

from ..operand import Reg
from . import basic, exponential, logarithm, power, trigonometric

FLOAT_FUNCTIONS: dict[str, Callable[..., Reg]] = {
    **basic.FUNCTIONS,
    **exponential.FUNCTIONS,
    **logarithm.FUNCTIONS,
    **trigonometric.FUNCTIONS,
    **power.FUNCTIONS,
}
