"""Merging nodes of a directed acyclic graph into clusters without making a cycle. Integers only.

Two stages. `by_level` is linear: each node gets a level that grows whenever a path leaves a colour, so nodes of one
colour and level that touch can be merged all at once, since no path between them passes anything else.
`contract` then merges along the remaining edges one at a time, keeping an order of the contracted graph up to
date (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006), and refuses an
edge beside which another path runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NO_COLOUR = -1


@dataclass
class Merged:
    """`cluster[i]`: representative of node i's cluster (itself where alone). `refused`: merge refusals by reason."""

    cluster: list[int]
    refused: dict[str, int] = field(default_factory=dict)


def merge(
    sources: Sequence[Sequence[int]],
    order: Sequence[int],
    colour: Sequence[int],
    weight: Sequence[int],
    max_size: int,
    work_limit: int | None = None,
) -> Merged:
    """Merge along edges between nodes of equal colour (NO_COLOUR: never).

    `sources[i]`: producers of node i; `order`: topological; `weight`: what counts towards `max_size`.
    `work_limit`: edge visits the second stage may spend (default: 200 a node), so that its time is bounded.
    """
    union = _Union(len(sources))
    if sum(weight) <= max_size:
        by_level(sources, order, colour, union)
    quotient = _Quotient(sources, order, colour, weight, union)
    quotient.contract(max_size, 200 * len(sources) + 100_000 if work_limit is None else work_limit)
    return Merged([union.find(i) for i in range(len(sources))], quotient.refused)


def by_level(sources: Sequence[Sequence[int]], order: Sequence[int], colour: Sequence[int], union: _Union) -> None:
    """Join nodes of equal colour and level that share an edge."""
    level = [0] * len(sources)
    for node in order:
        mine, highest = colour[node], 0
        for source in sources[node]:
            step = level[source] + (colour[source] != NO_COLOUR and colour[source] != mine)
            highest = max(highest, step)
        level[node] = highest
        if mine != NO_COLOUR:
            for source in sources[node]:
                if colour[source] == mine and level[source] == highest:
                    union.join(source, node)


class _Union:
    """Disjoint sets; the representative is the smallest member, so results do not depend on the order of joins."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, node: int) -> int:
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def join(self, a: int, b: int) -> int:
        a, b = self.find(a), self.find(b)
        low, high = (a, b) if a < b else (b, a)
        self.parent[high] = low
        return low


class _Quotient:
    """The graph of clusters: neighbours as sets of representatives, `rank` a topological numbering."""

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        order: Sequence[int],
        colour: Sequence[int],
        weight: Sequence[int],
        union: _Union,
    ) -> None:
        self.union, self.colour = union, colour
        self.refused: dict[str, int] = {}
        self.before: dict[int, set[int]] = {}
        self.after: dict[int, set[int]] = {}
        self.weight: dict[int, int] = {}
        for node in range(len(sources)):
            root = union.find(node)
            self.before.setdefault(root, set())
            self.after.setdefault(root, set())
            self.weight[root] = self.weight.get(root, 0) + weight[node]
        for node in range(len(sources)):
            root = union.find(node)
            for source in sources[node]:
                other = union.find(source)
                if other != root:
                    self.before[root].add(other)
                    self.after[other].add(root)
        self.rank = self._sort(order)

    def _sort(self, order: Sequence[int]) -> dict[int, int]:
        """Kahn's algorithm; clusters first seen in `order` come first among the ready ones."""
        waiting = {root: len(found) for root, found in self.before.items()}
        ready = list(dict.fromkeys(r for r in map(self.union.find, order) if not waiting[r]))
        for root in ready:
            for user in sorted(self.after[root]):
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
        return {root: rank for rank, root in enumerate(ready)}

    def contract(self, max_size: int, work_limit: int) -> None:
        """Try every edge between equal colours, the last clusters first, until nothing changes."""
        self.work = work_limit
        for root in sorted(self.rank, key=lambda r: -self.rank[r]):
            if self.colour[root] == NO_COLOUR or self.union.find(root) != root:
                continue
            current, changed = root, True
            while changed and self.work > 0:
                changed = False
                for user in sorted(self.after[current], key=lambda u: self.rank[u]):
                    if self._may_join(current, user, max_size):
                        current = self._join(current, user)
                        changed = True
                        break
        if self.work <= 0:
            self._refuse("the limit on merging work was reached")

    def _refuse(self, reason: str) -> bool:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return False

    def _may_join(self, a: int, b: int, max_size: int) -> bool:
        self.work -= 1
        if self.colour[b] != self.colour[a]:
            return self.colour[b] != NO_COLOUR and self._refuse("they do not always run together, or scopes differ")
        if self.weight[a] + self.weight[b] > max_size:
            return self._refuse("the cluster would exceed the maximum size")
        self.forward = self._reach(a, b, self.after, self.rank[b], 1)
        if b in self.forward:
            return self._refuse("a path between them leaves the cluster")
        return True

    def _reach(self, start: int, end: int, edges: dict[int, set[int]], bound: int, sign: int) -> set[int]:
        """What `start` reaches (its direct edge to `end` left out) with ranks before `bound`, in direction `sign`."""
        rank, found, stack = self.rank, set(), [n for n in edges[start] if n != end]
        while stack:
            node = stack.pop()
            if node in found or (rank[node] - bound) * sign > 0:
                continue
            found.add(node)
            if node == end:
                break
            self.work -= len(edges[node]) + 1
            stack.extend(edges[node])
        return found

    def _join(self, a: int, b: int) -> int:
        """Contract the edge a -> b. Ranks: what b needs, the new cluster, what a feeds."""
        backward = self._reach(b, a, self.before, self.rank[a], -1)
        rank = self.rank
        slots = sorted([rank[a], rank[b], *(rank[n] for n in backward), *(rank[n] for n in self.forward)])
        ordered = sorted(backward, key=lambda n: rank[n])
        after = sorted(self.forward, key=lambda n: rank[n])
        root = self.union.join(a, b)
        gone = b if root == a else a
        for node, slot in zip([*ordered, root, *after], slots):
            rank[node] = slot
        for mine, theirs in ((self.before, self.after), (self.after, self.before)):
            for node in mine.pop(gone):
                theirs[node].discard(gone)
                if node != root:
                    theirs[node].add(root)
                    mine[root].add(node)
            mine[root].discard(gone)
        del rank[gone]
        self.weight[root] += self.weight.pop(gone)
        return root
