"""Which candidates are worth measuring: all of a small space, else a walk from the model's best, a knob at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..codegen.kernel.choice import Candidates, Choice

# Measures candidates (at once, so that they compile in parallel): seconds by choice, infinity for one that fell out.
Evaluate = Callable[[Sequence[Choice]], Mapping[Choice, float]]
EXHAUSTIVE = 16  # candidates up to which all are measured
SHARE = 10  # of a larger space one in so many is measured at most
MOST = 80  # and never more


def search(candidates: Candidates, evaluate: Evaluate, stop: Callable[[], bool]) -> dict[Choice, float]:
    """Seconds of the candidates that were measured, the first among them and those outside the space always.

    A walk in rounds, of large batches, so that machines with many cores compile many at once. From the first candidate
    (the model's best) it tries every other value of each knob alone; then the values that gained, together: the two
    that gained most, the three, and so on. The fastest so far is where the next round starts, until a round changes
    nothing, `stop` says so or its share of the space is used up. A candidate is measured once.
    """
    space = candidates.space_alone()
    outside = dict(evaluate([candidates[0], *candidates.others]))
    found = {candidates[0]: outside.pop(candidates[0])}
    walked = _all(space[1:], evaluate, stop, found) if len(space) <= EXHAUSTIVE else _walk(space, evaluate, stop, found)
    return walked | outside


def _walk(
    candidates: Candidates, evaluate: Evaluate, stop: Callable[[], bool], found: dict[Choice, float]
) -> dict[Choice, float]:
    limit = max(EXHAUSTIVE, min(len(candidates) // SHARE, MOST))
    best = candidates[0]
    while True:
        for batch in (_alone, _together):
            fresh = [c for c in batch(candidates, best, found) if c not in found][: limit - len(found)]
            if fresh and stop():
                return found
            if fresh:
                found.update(evaluate(fresh))
        fastest = min(found, key=found.__getitem__)
        if fastest == best:
            return found
        best = fastest


def _all(
    candidates: Sequence[Choice], evaluate: Evaluate, stop: Callable[[], bool], found: dict[Choice, float]
) -> dict[Choice, float]:
    if candidates and not stop():
        found.update(evaluate(candidates))
    return found


def _alone(candidates: Candidates, best: Choice, found: Mapping[Choice, float]) -> list[Choice]:
    """Those that differ from `best` in one knob, by its value."""
    lines = [Choice({**best, knob: value}) for knob in best for value in sorted(candidates.space[knob])]
    return [c for c in lines if c != best]


def _together(candidates: Candidates, best: Choice, found: Mapping[Choice, float]) -> list[Choice]:
    """Of the knobs of which another value alone was faster than `best`, the two, three, ... that gained most."""
    gained: dict[str, int] = {}
    for choice in sorted(found, key=found.__getitem__):
        changed = [knob for knob in best if choice[knob] != best[knob]]
        if len(changed) == 1 and found[choice] < found[best]:
            gained.setdefault(changed[0], choice[changed[0]])
    values = list(gained.items())
    return [Choice({**best, **dict(values[:count])}) for count in range(2, len(values) + 1)]
