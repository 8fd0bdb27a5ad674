"""Decision: a yes, or a no with its reason. Every yes/no about the user's graph is one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """Truthy when `ok`. `rule` is the short, stable name of the rule that said no; `reason` a sentence."""

    ok: bool
    reason: str = ""
    rule: str = ""

    def __bool__(self) -> bool:
        return self.ok

    def __and__(self, other: Decision) -> Decision:
        """The first no, else yes."""
        return self if not self.ok else other


YES = Decision(True)


def no(rule: str, reason: str) -> Decision:
    return Decision(False, reason, rule)
