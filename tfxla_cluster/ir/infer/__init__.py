"""Shape inference: what shape an instruction must have, from operands and attributes.

`infer(opcode, operands, attrs, result)` returns the implied shape, or raises VerifierError with the
label of the broken rule. `result` is the shape the instruction claims, which some opcodes (reshape,
broadcast, convert, ...) are free to choose within their rules; None in the builder where it is implied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..shape import Shape
from . import combine, control, elementwise, move, other
from .common import Case, Rule

_RULES: dict[str, Rule] = {**elementwise.RULES, **move.RULES, **combine.RULES, **control.RULES, **other.RULES}


def infer(opcode: str, operands: Sequence[Shape], attrs: Mapping[str, Any], result: Shape | None = None) -> Shape:
    """The shape that `opcode` gives; `result` itself where nothing is known about the opcode."""
    rule = _RULES.get(opcode)
    if rule is None:
        assert result is not None, f"{opcode} needs its shape said"
        return result
    return rule(Case(opcode, tuple(operands), attrs, result))
