"""barrier-remover: opt-barrier(x) --> x. Runs last: nothing after it moves work across one."""

from __future__ import annotations

from ..ir.node import Instr
from .base import of_rules


def remove(i: Instr) -> Instr | None:
    """opt-barrier(x) --> x"""
    return i.operands[0]


PASS = of_rules("barrier-remover", {"opt-barrier": [remove]})
