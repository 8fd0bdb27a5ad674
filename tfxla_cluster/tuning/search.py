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
    """Seconds of the candidates that were measured, the first among them always.

    A walk: from the first candidate (the model's best) it tries every other value of each knob, takes the fastest, and
    goes round the knobs until a round changes nothing, `stop` says so or its share of the space is used up. A candidate
    is measured once.
    """
    found = dict(evaluate(candidates[:1]))
    if len(candidates) <= EXHAUSTIVE:
        return _all(candidates[1:], evaluate, stop, found)
    best = candidates[0]
    limit = max(EXHAUSTIVE, min(len(candidates) // SHARE, MOST))
    improved = True
    while improved:
        improved = False
        for knob in best:
            line = [c for c in _line(candidates, best, knob) if c not in found][: limit - len(found)]
            if stop():
                return found
            if line:
                found.update(evaluate(line))
                fastest = min(found, key=found.__getitem__)
                improved, best = improved or fastest != best, fastest
    return found


def _all(
    candidates: Sequence[Choice], evaluate: Evaluate, stop: Callable[[], bool], found: dict[Choice, float]
) -> dict[Choice, float]:
    if candidates and not stop():
        found.update(evaluate(candidates))
    return found


def _line(candidates: Candidates, best: Choice, knob: str) -> list[Choice]:
    """The candidates that differ from `best` in this knob alone, by its value."""
    return [c for c in (Choice({**best, knob: v}) for v in sorted(candidates.space[knob])) if c != best]
