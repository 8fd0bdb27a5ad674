"""Choices that fit: a form whose kernels turn out to take too much memory of a program gives way to a smaller one, and
one that does not compile to the default.

What becomes of a kernel only its compiler knows, so that it is told after the fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...errors import UnsupportedError
from ...ir.node import Instr
from .choice import Candidates, Choice, Choices, Chosen
from .unit import Unit

# Knobs that memory grows with, in the order in which they give way: blocks on their way cost least.
SHRINKING = ("stages", "depth", "cols", "rows", "looped", "fixed", "columns", "block")


@dataclass(frozen=True, slots=True)
class Fitting:
    """Choices: those of `inner`, but for instructions of which `too_large` or `fails` told. `candidates`, `lower`: a
    backend's."""

    inner: Choices
    candidates: Callable[[Instr], Candidates]
    lower: Callable[[Instr, Choice], Unit]
    _instead: dict[Instr, Chosen] = field(default_factory=dict)
    _without: dict[Instr, str] = field(default_factory=dict)
    _tried: dict[Instr, set[Choice]] = field(default_factory=dict)

    def too_large(self, chosen: Mapping[Instr, Chosen], reason: str) -> None:
        """The kernels of these instructions, in the forms chosen, do not fit. Raises as `choose` of `inner`."""
        for instr, old in chosen.items():
            if old.choice and instr not in self._instead:
                self._instead[instr] = self.inner.refused(instr, old, reason)
                continue
            new = self._smaller(instr, old.choice)
            if new is None:
                self._without[instr] = reason
            else:
                self._instead[instr] = replace(old, choice=new, source="default", reason=f"a smaller form: {reason}")

    def fails(self, chosen: Mapping[Instr, Chosen], reason: str) -> bool:
        """The kernels of these instructions, in the forms chosen, are not compiled. False where a form is the default,
        which stays. Raises as `choose` of `inner`."""
        if not chosen or not all(old.choice for old in chosen.values()):
            return False
        for instr, old in chosen.items():
            again = instr in self._instead  # what `inner` gave instead fails too
            self._instead[instr] = Chosen(reason=reason) if again else self.inner.refused(instr, old, reason)
        return True

    def _smaller(self, instr: Instr, choice: Choice) -> Choice | None:
        """The next form that the lowering takes: a smaller one, or of the smallest another."""
        space = self.candidates(instr)
        whole = Choice({**space[0], **choice})
        tried = self._tried.setdefault(instr, set())
        tried.add(whole)
        for other in (*shrunk(space, whole), *varied(space, whole)):
            if other in tried:
                continue
            tried.add(other)
            try:
                self.lower(instr, other)
            except UnsupportedError:
                continue
            return other
        return None

    def begin(self, instrs: Sequence[Instr]) -> None:
        self.inner.begin(instrs)

    def choose(self, instr: Instr) -> Chosen:
        """UnsupportedError where no form of the instruction fits."""
        if instr in self._without:
            raise UnsupportedError(self._without[instr])
        return self._instead.get(instr) or self.inner.choose(instr)

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        return self.inner.refused(instr, chosen, reason)


def shrunk(space: Candidates, choice: Choice) -> Iterator[Choice]:
    """Choices that take less and less memory: `choice` with one knob after the other at its next smaller value."""
    for knob in SHRINKING:
        for value in sorted((v for v in space.space.get(knob, ()) if v < choice[knob]), reverse=True):
            choice = Choice({**choice, knob: value})
            yield choice


def varied(space: Candidates, choice: Choice) -> Iterator[Choice]:
    """Of the least of each knob that memory grows with: one other knob at another value."""
    least = {knob: min(values) for knob, values in space.space.items() if knob in SHRINKING}
    for knob, values in space.space.items():
        if knob not in SHRINKING:
            yield from (Choice({**choice, **least, knob: value}) for value in values if value != choice[knob])
