"""algebraic-simplifier: rewrites that keep every value, NaN, infinity, signed zero and overflow included."""

from __future__ import annotations

from ..base import Rule, of_rules
from . import arithmetic, converts, dynamic, logic, moves, reductions, splats


def _joined(*tables: dict[str, list[Rule]]) -> dict[str, list[Rule]]:
    rules: dict[str, list[Rule]] = {}
    for table in tables:
        for opcode, found in table.items():
            rules.setdefault(opcode, []).extend(found)
    return rules


RULES = _joined(
    moves.RULES, splats.RULES, arithmetic.RULES, logic.RULES, converts.RULES, reductions.RULES, dynamic.RULES
)
PASS = of_rules("algebraic-simplifier", RULES)
