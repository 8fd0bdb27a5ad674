"""When each buffer of a step tree holds a value that is still to be read.

Steps are numbered as they stand in the tree. Step n reads at tick 2n and writes at tick 2n + 1. A live
range is a list of half-open tick intervals: a buffer that a loop overwrites each time round is dead
between the last read and the next write, and may share memory there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .plan import BranchStep, CopyStep, KernelStep, LibraryStep, LoopStep, SizeStep, Step

Segment = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a step does to buffers (by number): `reads`, `kills` (wholly overwritten), `updates`
    (written in part: read too). A copy is done reading when it writes; a kernel is not."""

    reads: tuple[int, ...] = ()
    kills: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    is_copy: bool = False


def effect(step: Step, table: Mapping[int, Effect]) -> Effect:
    """A leaf step's effect; `table` holds those of kernels, by id of the step."""
    if isinstance(step, CopyStep):
        return Effect((step.source.index,), (step.target.index,), is_copy=True)
    if isinstance(step, SizeStep):
        return Effect((step.source.index,))
    assert isinstance(step, (KernelStep, LibraryStep)), step
    return table[id(step)]


@dataclass(slots=True)
class _Summary:
    """`gen`: read before being overwritten; `kill`: overwritten on every path."""

    gen: set[int]
    kill: set[int]


class Liveness:
    """`segments[buffer]`: its live range, early to late. `ticks[id(step)]`: when a leaf reads."""

    def __init__(self, steps: Sequence[Step], table: Mapping[int, Effect], live_out: Iterable[int]) -> None:
        self._table = table
        self.segments: dict[int, list[Segment]] = {}
        self.ticks: dict[int, int] = {}
        self._summaries: dict[int, _Summary] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        self.end = self._number(steps, 0)
        live = dict.fromkeys(live_out, self.end)
        self._walk(steps, live)
        for buffer, until in live.items():
            self._record(buffer, 0, until)
        self.segments = {buffer: merged(found) for buffer, found in self.segments.items()}

    # --- numbering ---
    def _number(self, steps: Sequence[Step], tick: int) -> int:
        """Give ticks to steps from `tick` on; a loop's own tick is where it tests its flag."""
        for step in steps:
            start = tick
            if isinstance(step, LoopStep):
                tick = self._number(step.condition, tick)
                self.ticks[id(step)] = tick
                tick = self._number(step.body, tick + 2) + 2
            elif isinstance(step, BranchStep):
                self.ticks[id(step)] = tick
                tick += 2
                for branch in step.branches:
                    tick = self._number(branch, tick) + 2
            else:
                self.ticks[id(step)] = tick
                tick += 2
            self._spans[id(step)] = (start, tick)
        return tick

    # --- summaries of subtrees ---
    def _summary(self, steps: Sequence[Step]) -> _Summary:
        total = _Summary(set(), set())
        for step in steps:
            one = self._step_summary(step)
            total.gen |= one.gen - total.kill
            total.kill |= one.kill
        return total

    def _step_summary(self, step: Step) -> _Summary:
        found = self._summaries.get(id(step))
        if found is None:
            found = self._summaries[id(step)] = self._summarize(step)
        return found

    def _summarize(self, step: Step) -> _Summary:
        if isinstance(step, LoopStep):
            condition, body = self._summary(step.condition), self._summary(step.body)
            later = (body.gen | {step.flag.index}) - condition.kill
            return _Summary(condition.gen | later, condition.kill)
        if isinstance(step, BranchStep):
            parts = [self._summary(branch) for branch in step.branches]
            gen = {step.selector.index}.union(*(p.gen for p in parts))
            return _Summary(gen, set.intersection(*(p.kill for p in parts)))
        one = effect(step, self._table)
        return _Summary({*one.reads, *one.updates}, set(one.kills))

    # --- the backward walk; `live` maps a live buffer to where its open interval ends ---
    def _walk(self, steps: Sequence[Step], live: dict[int, int]) -> None:
        for step in reversed(steps):
            if isinstance(step, LoopStep):
                self._loop(step, live)
            elif isinstance(step, BranchStep):
                self._branch(step, live)
            else:
                self._leaf(step, live)

    def _leaf(self, step: Step, live: dict[int, int]) -> None:
        tick, one = self.ticks[id(step)], effect(step, self._table)
        for buffer in one.kills:
            self._record(buffer, tick + 1, live.pop(buffer, tick + 2))
        until = tick + 1 if one.is_copy else tick + 2
        for buffer in (*one.reads, *one.updates):
            live.setdefault(buffer, until)

    def _loop(self, step: LoopStep, live: dict[int, int]) -> None:
        start, end = self._spans[id(step)]
        tick = self.ticks[id(step)]
        after = set(live)
        head = self._step_summary(step).gen | (after - self._step_summary(step).kill)
        self._close(live, end)
        live.update(dict.fromkeys(head | after, end))
        self._walk(step.body, live)
        for buffer in {step.flag.index} | after:
            live.setdefault(buffer, tick + 2)
        self._walk(step.condition, live)
        for buffer in head:
            live.setdefault(buffer, start + 1)

    def _branch(self, step: BranchStep, live: dict[int, int]) -> None:
        _, end = self._spans[id(step)]
        tick = self.ticks[id(step)]
        after = set(live)
        self._close(live, end)
        live.clear()
        first = tick + 2
        for branch in step.branches:
            stop = self._spans[id(branch[-1])][1] if branch else first
            inner = dict.fromkeys(after, stop + 2)
            self._walk(branch, inner)
            for buffer, until in inner.items():
                self._record(buffer, tick, until)
                live[buffer] = tick
            first = stop + 2
        live[step.selector.index] = tick + 1

    def _close(self, live: dict[int, int], tick: int) -> None:
        """End every open interval at `tick`, seen from behind."""
        for buffer, until in live.items():
            self._record(buffer, tick, until)

    def _record(self, buffer: int, start: int, end: int) -> None:
        if start < end:
            self.segments.setdefault(buffer, []).append((start, end))


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """The same ticks as a sorted list of intervals that neither meet nor overlap."""
    found: list[Segment] = []
    for start, end in sorted(segments):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def overlaps(a: Sequence[Segment], b: Sequence[Segment]) -> Iterable[Segment]:
    """The parts of two live ranges (as `merged` gives them) that coincide."""
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            yield start, end
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
