"""A failing module made small: fewer results, instructions, elements, while it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import TfxlaError
from ..ir import verifier
from ..ir.node import Computation, Instr
from ..ir.rewrite import inline, rebuild, with_unique_names
from . import arrays, resize, surgery
from .locate import Search
from .surgery import Program
from .trials import OK, SLOW, WRONG, Outcome, same

_PLACED = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "after-all"))
_LEAST_ERROR, _MOST_TOLERANCE = 1e-3, 0.1


@dataclass(frozen=True, slots=True)
class Minimized:
    """The smallest program found, what becomes of it, and how many trials that took."""

    program: Program
    outcome: Outcome
    trials: int


class Minimizer:
    """`slower`: a run that takes so many times the reference's time is a failure too. `budget`: trials at most."""

    def __init__(self, search: Search, slower: float | None = None, budget: int = 1000) -> None:
        self.search, self.slower, self.budget = search, slower, budget
        self.failure = Outcome(OK)
        self.outcome = self.failure

    def tried(self, program: Program) -> Outcome:
        """What becomes of it, too slow being a failure."""
        outcome = self.search.whole(program)
        if self.slower is not None and outcome.kind == OK:
            report = outcome.report
            if report["run_ms"] > self.slower * report["reference_ms"]:
                return Outcome(SLOW, f"more than {self.slower:g} times the reference's time", report)
        return outcome

    def run(self, program: Program) -> Minimized | None:
        """None where it does not fail."""
        self.failure = self.outcome = self.tried(program)
        if not self.failure.failed:
            return None
        self._strict()
        for step in (self._plain, self._shrunk, self._sized, self._shrunk, self._valued):
            program = step(program)
        return Minimized(program, self.outcome, self.search.trials.count)

    def _strict(self) -> None:
        """Of a large error no small one is left over, as sums have that cancel."""
        if self.failure.kind == WRONG and self.failure.worst > _LEAST_ERROR:
            self.search = replace(self.search, rtol=min(self.failure.worst / 10, _MOST_TOLERANCE))

    def _fails(self, program: Program) -> bool:
        """In the same way; never once the budget is spent."""
        if self.search.trials.count >= self.budget:
            return False
        try:
            verifier.verify(program.module)
        except TfxlaError:
            return False
        outcome = self.tried(program)
        if not same(outcome, self.failure):
            return False
        self.outcome = outcome
        elements = sum(int(a.size) for a in program.inputs)
        self.search.say(f"{self.search.trials.count} trials: {program.size} instructions, {elements} elements")
        return True

    def _plain(self, program: Program) -> Program:
        bare = Program(surgery.plain(program.module), program.inputs)
        return bare if self._fails(bare) else program

    def _shrunk(self, program: Program) -> Program:
        """Until nothing more can be taken away."""
        steps = (self._fewer_results, self._ends_early, self._given, self._simpler)
        while True:
            size = program.size
            for step in steps:
                program = step(program)
            if program.size >= size:
                return program

    def _fewer_results(self, program: Program) -> Program:
        """One result, else as few as fail."""
        results, known = _results(program), self._known(program)
        for result in results if len(results) > 1 else ():
            one = surgery.cut(program.module.name, [result], known, ())
            if self._fails(one):
                return one
        kept = list(results)
        for result in results:
            rest = [r for r in kept if r is not result]
            if rest and len(results) > 2 and self._fails(surgery.cut(program.module.name, rest, known, ())):
                kept = rest
        return surgery.cut(program.module.name, kept, known, ()) if len(kept) < len(results) else program

    def _ends_early(self, program: Program) -> Program:
        """Up to the first instruction whose value is wrong, or that makes it fail."""
        entry, known = program.module.entry, self._known(program)
        work = [i for i in entry.instrs if i.opcode not in _PLACED]
        users = entry.users()
        place = {instr: n for n, instr in enumerate(entry.instrs)}

        def until(count: int) -> Program:
            end = place[work[count - 1]]
            live = [i for i in work[:count] if i is work[count - 1] or any(place[u] > end for u in users[i])]
            return surgery.cut(program.module.name, live, known, ())

        low, high = 0, len(work)
        while high - low > 1:
            middle = (low + high) // 2
            if self._fails(until(middle)):
                high = middle
            else:
                low = middle
        if high == len(work):
            return program
        last = surgery.cut(program.module.name, [work[high - 1]], known, ())
        return last if self._fails(last) else until(high)

    def _given(self, program: Program) -> Program:
        """Instructions, many at once and then fewer, become parameters with the value that they have."""
        work = [i for i in program.module.entry.instrs if i.opcode not in _PLACED]
        results, known = _results(program), self._known(program)
        given: set[Instr] = set()
        best, chunk = program, max(len(work) // 2, 1)
        while work:
            for start in range(0, len(work), chunk):
                wanted = given | set(work[start : start + chunk])
                if wanted == given or wanted >= set(results):
                    continue
                made = surgery.cut(program.module.name, results, known, wanted)
                if made.size < best.size and self._fails(made):
                    given, best = wanted, made
            if chunk == 1:
                return best
            chunk //= 2
        return best

    def _simpler(self, program: Program) -> Program:
        """Calls, loops and branches become what they do once, an instruction one of its operands."""
        done = False
        while not done:
            done = True
            for instr in reversed(program.module.entry.instrs):
                made = next((p for p in _alternatives(program, instr) if self._fails(p)), None)
                if made is not None:
                    program, done = made, False
                    break
        return program

    def _sized(self, program: Program) -> Program:
        while True:
            made = next((p for p in resize.smaller(program) if self._fails(p)), None)
            if made is None:
                return program
            program = made

    def _valued(self, program: Program) -> Program:
        """Inputs of plain numbers where these do."""
        for number, value in enumerate(program.inputs):
            for simple in _simple(value):
                inputs = (*program.inputs[:number], simple, *program.inputs[number + 1 :])
                made = Program(program.module, inputs)
                if self._fails(made):
                    program = made
                    break
        return program

    def _known(self, program: Program) -> Mapping[Instr, Any]:
        """The value of each instruction of the entry, drawn ones where the evaluator has none and none is compared."""
        entry = program.module.entry
        try:
            return surgery.values(program.module, entry, program.inputs, program.inputs).of
        except TfxlaError:
            rng = np.random.default_rng(0)
            params = dict(zip(entry.params, program.inputs))
            return {i: params[i] if i in params else _drawn(i.shape, rng) for i in entry.instrs}


def _drawn(shape: Any, rng: np.random.Generator) -> Any:
    if shape.is_tuple:
        return tuple(_drawn(element, rng) for element in shape.elements)
    return arrays.drawn(shape, rng) if shape.is_array else ()


def _results(program: Program) -> list[Instr]:
    root = program.module.entry.root
    return list(root.operands) if root.opcode == "tuple" else [root]


def _alternatives(program: Program, instr: Instr) -> Iterator[Program]:
    """The program with something simpler in place of `instr`, where that is smaller."""
    for make in _SIMPLER:
        for new in make(instr):
            comp = rebuild(program.module.entry, {instr: new}, drop_dead=True)
            module = with_unique_names(program.module.replace(entry=comp, aliases=()))
            known = dict(zip(comp.params, program.inputs))
            made = surgery.cut(module.name, _results(Program(module, ())), known, ())
            if made.size < program.size:
                yield made


def _inlined(instr: Instr) -> Iterator[Instr]:
    comps: dict[str, Sequence[Computation]] = {
        "call": instr.called,
        "fusion": instr.called,
        "while": [instr.attrs["body"]] if instr.opcode == "while" else (),
        "conditional": instr.called,
    }
    for number, comp in enumerate(comps.get(instr.opcode, ())):
        operands = [instr.operands[1 + number]] if instr.opcode == "conditional" else instr.operands
        yield inline(comp, operands)


def _element(instr: Instr) -> Iterator[Instr]:
    if instr.opcode == "get-tuple-element" and instr.operands[0].opcode == "tuple":
        yield instr.operands[0].operands[instr.attrs["index"]]


def _operand(instr: Instr) -> Iterator[Instr]:
    for operand in dict.fromkeys(instr.operands):
        if operand.shape.same_as(instr.shape):
            yield operand


_SIMPLER: tuple[Callable[[Instr], Iterator[Instr]], ...] = (_element, _inlined, _operand)


def _simple(value: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Ones, zeros, numbers counted up, the value rounded: what differs from it."""
    counted = (np.arange(value.size).reshape(value.shape) % 7).astype(value.dtype)
    candidates = [np.ones_like(value), np.zeros_like(value), counted]
    if value.dtype.kind == "f":
        candidates.append(np.round(value, 1))
    for one in candidates:
        if one.tobytes() == value.tobytes():
            return  # it is simple already
        yield one
