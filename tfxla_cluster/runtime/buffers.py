"""Buffer assignment: which values share memory, and where in the arena each lies.

The planner emits steps over numbered buffers (Ref kind 'virtual'). Here copies are removed by giving
source and target one place where their live ranges allow it, an elementwise result takes the place of
an operand that dies, and what is left of temporaries is packed into an arena.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import dim as dims
from ..ir.dim import Dim
from ..ir.size_proofs import at_most
from .liveness import Effect, Liveness, Segment, merged, overlaps
from .plan import Ref

ALIGN = 64


@dataclass(frozen=True, slots=True)
class Buffer:
    """`bytes` is the most it can need (produced sizes at their bound); `place` is fixed for inputs,
    outputs and constants, None for what goes to the arena. `name` is the instruction's."""

    bytes: Dim
    place: Ref | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Affinity:
    """`source` and `target` would like to share. `step`: the id of the copy between them, or, where
    `inplace`, of the kernel that may write `target` over `source` element by element."""

    source: int
    target: int
    step: int
    depth: int
    inplace: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """`places[buffer]`, what the arena needs, and which group (that shares a place) each buffer is in."""

    places: tuple[Ref, ...]
    arena_bytes: Dim
    group_of: tuple[int, ...]


def assign(
    buffers: Sequence[Buffer], liveness: Liveness, affinities: Iterable[Affinity], effects: Mapping[int, Effect]
) -> Assignment:
    """Merges buffers along `affinities`, most promising first, then packs what remains into the arena."""
    groups = _Groups(buffers, liveness, effects)
    ranked = sorted(affinities, key=lambda a: (a.inplace, -a.depth, -dims.sample(buffers[a.target].bytes)))
    for affinity in ranked:
        groups.try_merge(affinity)
    roots = [groups.find(n) for n in range(len(buffers))]
    offsets, arena = _layout(groups, sorted(set(roots)))
    places = tuple(groups.place[root] or Ref("temp", 0, offsets[root]) for root in roots)
    return Assignment(places, arena, tuple(roots))


class _Groups:
    """Buffers that share a place, as a union-find; the root's entries describe the group."""

    def __init__(self, buffers: Sequence[Buffer], liveness: Liveness, effects: Mapping[int, Effect]) -> None:
        self.parent = list(range(len(buffers)))
        self.place = [b.place for b in buffers]
        self.bytes = [b.bytes for b in buffers]
        self.range: list[list[Segment]] = [liveness.segments.get(n, []) for n in range(len(buffers))]
        self.members = [[n] for n in range(len(buffers))]
        self.ticks, self.effects = liveness.ticks, effects

    def find(self, buffer: int) -> int:
        while self.parent[buffer] != buffer:
            self.parent[buffer] = self.parent[self.parent[buffer]]
            buffer = self.parent[buffer]
        return buffer

    def try_merge(self, affinity: Affinity) -> None:
        a, b = self.find(affinity.source), self.find(affinity.target)
        if a == b or not self._places_allow(a, b) or not self._lives_allow(affinity, a, b):
            return
        self.parent[a] = b
        self.place[b] = self.place[a] or self.place[b]
        self.range[b] = merged([*self.range[a], *self.range[b]])
        self.members[b] += self.members[a]

    def _places_allow(self, a: int, b: int) -> bool:
        """Inputs and constants are never written; one group has one place; sizes are equal."""
        fixed = [p for p in (self.place[a], self.place[b]) if p is not None]
        if len(fixed) == 2 or any(p.kind != "output" for p in fixed):
            return False
        return self.bytes[a] == self.bytes[b]

    def _lives_allow(self, affinity: Affinity, a: int, b: int) -> bool:
        shared = list(overlaps(self.range[a], self.range[b]))
        if not affinity.inplace or not shared:
            return not shared
        tick = self.ticks[affinity.step]
        survives = any(start <= tick + 1 and end > tick + 2 for start, end in self.range[a])
        if survives or any(part != (tick + 1, tick + 2) for part in shared):
            return False
        step = self.effects[affinity.step]
        others = [n for n in (*step.kills, *step.updates) if n != affinity.target]
        return not any(self.find(n) in (a, b) for n in others)


def _layout(groups: _Groups, roots: Sequence[int]) -> tuple[dict[int, Dim], Dim]:
    """Offsets of the groups that lie in the arena: numbers packed first, expressions behind them."""
    temps = [r for r in roots if groups.place[r] is None]
    used = [r for r in temps if groups.range[r] and groups.bytes[r] != 0]
    offsets: dict[int, Dim] = dict.fromkeys(temps, 0)
    static = [r for r in used if isinstance(groups.bytes[r], int)]
    sizes = [dims.sample(groups.bytes[r]) for r in static]
    packed, total = _pack(sizes, [_hull(groups.range[r]) for r in static])
    offsets.update(zip(static, packed))
    symbolic = [r for r in used if not isinstance(groups.bytes[r], int)]
    slots = _slots([(r, groups.bytes[r], groups.range[r]) for r in symbolic])
    start: Dim = total
    for size, owners in slots:
        offsets.update(dict.fromkeys(owners, start))
        start = start + _aligned(size)
    return offsets, start


def _hull(segments: Sequence[Segment]) -> Segment:
    return segments[0][0], max(end for _, end in segments)


def _pack(sizes: Sequence[int], spans: Sequence[Segment]) -> tuple[list[int], int]:
    """Largest first, each at the smallest gap that fits among those alive with it; (offsets, total)."""
    count = len(sizes)
    padded = -(-np.array(sizes, np.int64) // ALIGN) * ALIGN
    begin, end = (np.array([s[k] for s in spans], np.int64) for k in (0, 1))
    offset, placed, total = np.zeros(count, np.int64), np.zeros(count, bool), 0
    for n in sorted(range(count), key=lambda k: (-sizes[k], begin[k])):
        near = np.flatnonzero(placed & (begin < end[n]) & (begin[n] < end))
        near = near[np.argsort(offset[near], kind="stable")]
        offset[n] = _best_gap(offset[near].tolist(), (offset[near] + padded[near]).tolist(), int(padded[n]))
        placed[n] = True
        total = max(total, int(offset[n] + padded[n]))
    return [int(o) for o in offset], total


def _best_gap(starts: Sequence[int], ends: Sequence[int], size: int) -> int:
    """The start of the smallest gap of at least `size` between occupied intervals sorted by start."""
    best, room, reached = -1, 0, 0
    for start, end in zip(starts, ends):
        gap = start - reached
        if gap >= size and (best < 0 or gap < room):
            best, room = reached, gap
        reached = max(reached, end)
    return best if best >= 0 else reached


# --- sizes that are expressions ---
def _slots(groups: Sequence[tuple[int, Dim, Sequence[Segment]]]) -> list[tuple[Dim, list[int]]]:
    """Slots (size, owners): owners of a slot are never alive together, and none is larger than it."""
    slots: list[tuple[Dim, list[int], list[Segment]]] = []
    for root, size, segments in sorted(groups, key=lambda g: -dims.sample(g[1])):
        for slot_size, owners, busy in slots:
            if not next(iter(overlaps(busy, segments)), None) and at_most(size, slot_size):
                owners.append(root)
                busy[:] = merged([*busy, *segments])
                break
        else:
            slots.append((size, [root], list(segments)))
    return [(size, owners) for size, owners, _ in slots]


def _aligned(size: Dim) -> Dim:
    return (size + (ALIGN - 1)) // ALIGN * ALIGN
