"""How much memory a module takes step by step, and who holds it at the peak."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .parsers.lives import Lives, Value

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Held:
    """The values that lie in one place and take `bytes`, at one time or one after the other. `spans`: (first step, last
    step), by number, of each time that something is there; `stays`: those of each value, by name."""

    kind: str
    index: int
    offset: int
    bytes: int
    spans: tuple[Span, ...]
    stays: tuple[tuple[str, tuple[Span, ...]], ...]

    def is_there(self, step: int) -> bool:
        return _covers(self.spans, step)

    def names(self, step: int) -> list[str]:
        """Of the values that are there then: several where one is written over another."""
        return list(dict.fromkeys(name for name, spans in self.stays if _covers(spans, step)))

    def around(self, step: int) -> Span:
        """The time that `step` lies in."""
        return next(span for span in self.spans if _covers([span], step))


@dataclass(frozen=True, slots=True)
class Timeline:
    """`temporary`: bytes of temporaries that hold something, by step; `peak`: the first step where that is most (0 of
    none). `held`: all of it, the largest first; sums of the kinds that stay from start to end."""

    lives: Lives
    held: Sequence[Held]
    temporary: Sequence[int]
    peak: int
    inputs: int
    outputs: int
    shared: int
    constants: int

    @property
    def most(self) -> int:
        """Bytes of temporaries at the peak."""
        return max(self.temporary, default=0)

    @property
    def whole(self) -> int:
        """Bytes that an execution has: what it is given, what it gives, constants, the arena."""
        return self.inputs + self.outputs - self.shared + self.constants + self.lives.arena

    def at(self, step: int, kind: str = "temp") -> list[Held]:
        """What is held then, the largest first."""
        return [h for h in self.held if h.kind == kind and h.is_there(step)]


def _covers(spans: Iterable[Span], step: int) -> bool:
    return any(first <= step <= last for first, last in spans)


def timeline(lives: Lives) -> Timeline:
    ticks = [tick for tick, _ in lives.steps]
    places: dict[tuple[str, int, int, int], list[Value]] = {}
    for value in lives.values:
        places.setdefault((value.kind, value.index, value.offset, value.bytes), []).append(value)
    held = sorted((_held(values, ticks) for values in places.values()), key=lambda h: -h.bytes)
    change = [0] * (len(ticks) + 1)
    for one in held:
        for first, last in one.spans if one.kind == "temp" else ():
            change[first] += one.bytes
            change[last + 1] -= one.bytes
    temporary = list(accumulate(change[:-1]))
    sums = {kind: sum(h.bytes for h in held if h.kind == kind) for kind in ("input", "output", "const")}
    shared = sum(h.bytes for h in held if h.kind == "output" and h.index in lives.shared)
    peak = temporary.index(max(temporary)) if temporary else 0
    return Timeline(lives, held, temporary, peak, sums["input"], sums["output"], shared, sums["const"])


def _held(values: Sequence[Value], ticks: Sequence[int]) -> Held:
    stays = tuple((value.name, tuple(_spans(value, ticks))) for value in sorted(values, key=lambda v: v.live[:1]))
    joined: list[Span] = []
    for start, end in sorted(span for _, spans in stays for span in spans):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    first = values[0]
    return Held(first.kind, first.index, first.offset, first.bytes, tuple(joined), stays)


def _spans(value: Value, ticks: Sequence[int]) -> Iterator[Span]:
    """The steps, by number, while whose results are written it is there."""
    for start, end in value.live:
        first, last = bisect_left(ticks, start - 1), bisect_left(ticks, end - 1) - 1
        if first <= last:
            yield first, last
