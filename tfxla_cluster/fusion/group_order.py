"""Groups of instructions in an acyclic order that survives merging them.

Each group has a key; every edge goes from a smaller key to a larger one. Merging two groups asks for
a path between them that leaves both: it only visits groups whose keys lie between theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.dim import Dim
from ..ir.node import Instr

LONG_KEY = 24
SEARCH_LIMIT = 3000  # groups visited before a merge is given up
Key = tuple[int, ...]


@dataclass(eq=False)
class Group:
    """Instructions of one kernel to be. kind 'loop', 'row' (has a reduce), 'hero', or 'single'.

    `plain`: the dims of all members where all are elementwise on arrays of these dims (the hero, if there
    is one, comes before them and has these dims).
    `recomputed`: members of other groups that this one computes for itself instead of reading them.
    """

    key: Key
    kind: str
    members: dict[Instr, None] = field(default_factory=dict)
    plain: tuple[Dim, ...] | None = None
    recomputed: dict[Instr, None] = field(default_factory=dict)


class Order:
    """Which group an instruction is in, and whether groups may merge."""

    def __init__(self, groups: Sequence[Group], users: Mapping[Instr, Sequence[Instr]]) -> None:
        self.users = users
        self.group = {instr: group for group in groups for instr in group.members}
        self._moves = 0

    def successors(self, group: Group) -> Iterable[Group]:
        """Groups that use a value of `group` (with repeats)."""
        for member in group.members:
            for user in self.users[member]:
                other = self.group[user]
                if other is not group:
                    yield other

    def between(self, a: Group, b: Group) -> set[Group] | None:
        """What must come after both once they are one; None where merging makes a cycle, or might."""
        first, last = (a, b) if a.key < b.key else (b, a)
        return self._between(first, last)

    def merge(self, a: Group, b: Group, between: set[Group]) -> None:
        """Merges `b` into `a`; `between` is what `between(a, b)` just said."""
        key = max(a.key, b.key)
        self._moves += 1
        for number, group in enumerate(sorted(between, key=lambda g: g.key)):
            group.key = (*key, -self._moves, number)
        a.key = key
        a.members.update(b.members)
        a.recomputed.update(b.recomputed)
        for member in b.members:
            self.group[member] = a
        if len(key) > LONG_KEY:
            self._renumber()

    def groups(self) -> list[Group]:
        """All groups, users last."""
        return sorted(dict.fromkeys(self.group.values()), key=lambda g: g.key)

    def _renumber(self) -> None:
        for number, group in enumerate(self.groups()):
            group.key = (number,)

    def _between(self, first: Group, last: Group) -> set[Group] | None:
        """Groups after `first` that come before `last` in the order; None where one leads to `last`."""
        seen: set[Group] = set()
        todo = [g for g in self.successors(first) if g is not last]
        while todo:
            group = todo.pop()
            if group in seen or group.key > last.key:
                continue
            seen.add(group)
            if len(seen) > SEARCH_LIMIT:
                return None
            for other in self.successors(group):
                if other is last:
                    return None
                todo.append(other)
        return seen
