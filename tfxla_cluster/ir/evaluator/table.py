"""The table of meanings, by opcode."""

from __future__ import annotations

from . import contraction, control, custom_calls, elementwise, linear, move, random, reduction
from .core import Meaning

MEANINGS: dict[str, Meaning] = {
    **elementwise.MEANINGS,
    **move.MEANINGS,
    **reduction.MEANINGS,
    **contraction.MEANINGS,
    **control.MEANINGS,
    **linear.MEANINGS,
    **custom_calls.MEANINGS,
    **random.MEANINGS,
}
