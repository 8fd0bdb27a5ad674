"""Float opcodes: the table of functions on one f32 or f64 register."""
from __future__ import annotations

from collections.abc import Callable

from ..asm import Reg
from . import basic, exponential

FLOAT_FUNCTIONS: dict[str, Callable[..., Reg]] = {**basic.FUNCTIONS, **exponential.FUNCTIONS}
