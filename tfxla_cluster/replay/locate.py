"""Where a module goes wrong: in which pass, in fusion, or in which kernel; each trial in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..backends import registry
from ..errors import TfxlaError
from ..ir import proto, text
from ..ir.node import Computation, Instr, Module
from ..passes import pipelines
from . import stages, surgery
from .surgery import Program
from .trials import OK, WRONG, Outcome, Trials, same

Say = Callable[[str], None]
PASS, FUSION, KERNEL, PLAN, MEANING = "pass", "fusion", "kernel", "plan", "meaning"
# Opcodes that no kernel computes.
_NO_WORK = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency"))
_CONTROL = frozenset(("while", "conditional", "call"))
_AT_ONCE = 128  # instructions of one trial


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: one of the above. `name`: of the pass, or of the instruction whose kernel it is. `outcome`: what happens
    there. `lines`: more, for people."""

    kind: str
    name: str
    outcome: Outcome
    lines: tuple[str, ...] = ()

    def words(self) -> str:
        """One line."""
        titles = {
            PASS: f"pass {self.name}",
            FUSION: "fusion, before any kernel is made",
            KERNEL: f"the kernel of %{self.name}",
            PLAN: "the launch plan: each kernel by itself is right",
            MEANING: f"%{self.name}, before any pass: its meaning here is another one than the reference's",
        }
        return f"{titles[self.kind]}: {self.outcome.words()}"


@dataclass(frozen=True, slots=True)
class Search:
    """`backend` is searched for the fault, `reference` says what is right."""

    trials: Trials
    say: Say
    backend: str = "cpu"
    reference: str = "evaluator"
    rtol: float | None = None

    def whole(self, program: Program) -> Outcome:
        """What the whole pipeline makes of it."""
        late = stages.is_optimised(program.module)
        return self.run(program, self.backend, *(("--until", stages.OPTIMISED) if late else ()))

    def run(self, program: Program, backend: str, *words: str) -> Outcome:
        compared = ("--reference", self.reference) if self.reference else ()
        loose = ("--rtol", str(self.rtol)) if self.rtol is not None else ()
        return self.trials.run(program.module, program.inputs, "--backend", backend, *compared, *loose, *words)

    def find(self, program: Program, failure: Outcome) -> Finding:
        """Where `failure`, which is that of `whole`, comes from."""
        late = stages.is_optimised(program.module)
        known = [stages.OPTIMISED] if late else self._stages()
        outcomes: dict[int, Outcome] = {}

        def is_bad(number: int) -> bool:
            outcome = self.run(program, "evaluator", "--until", known[number])
            outcomes[number] = outcome
            self.say(f"after {known[number]}: {outcome.words()}")
            return same(outcome, failure)

        last = len(known) - 1
        if is_bad(last):
            first = _first(is_bad, last)
            if first == 0:
                return self._meaning(program, outcomes[first])
            kind = FUSION if known[first] == stages.FUSION else PASS
            return Finding(kind, known[first].partition(":")[0], outcomes[first])
        return self._kernel(self._staged(program, known[last]), failure)

    def _stages(self) -> list[str]:
        compiles = self.backend if self.backend in registry.BACKENDS else "cpu"
        return stages.names(pipelines.optimize(registry.named(compiles).target))

    def _staged(self, program: Program, stage: str) -> Program:
        """The module as it is after a stage, made in the other process."""
        path = self.trials.directory / "staged.hlo.pb"
        self.run(program, "evaluator", "--until", stage, "--emit", str(path))
        return Program(proto.read(path.read_bytes()), program.inputs)

    def _meaning(self, program: Program, outcome: Outcome) -> Finding:
        """The evaluator itself differs from the reference."""
        found = _Parts(self, program, outcome, "evaluator").culprit()
        return Finding(MEANING, found.name if found else program.module.name, outcome, _lines(found))

    def _kernel(self, program: Program, failure: Outcome) -> Finding:
        self.say("passes and fusion are right: each kernel by itself")
        try:
            parts = _Parts(self, program, failure, self.backend)
            found = parts.culprit()
        except TfxlaError as error:  # of the evaluator, for an instruction whose meaning it does not have
            return Finding(KERNEL, "?", failure, (f"no instruction could be tried by itself: {error}",))
        if found is None:
            return Finding(PLAN, program.module.name, failure)
        inside = parts.inside(found) if found.opcode == "fusion" else ()
        return Finding(KERNEL, found.name, failure, (*_lines(found), *inside))


def _first(is_bad: Callable[[int], bool], high: int) -> int:
    """The lowest number that is bad, where all below are good and `high` is bad."""
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        if is_bad(middle):
            high = middle
        else:
            low = middle
    return high


class _Parts:
    """The instructions of a module, each tried by itself on the values that it has inside."""

    def __init__(self, search: Search, program: Program, failure: Outcome, backend: str) -> None:
        self.search, self.failure, self.backend = search, failure, backend
        self.program = program
        self.values = surgery.values(program.module, program.module.entry, program.inputs, program.inputs)

    def culprit(self) -> Instr | None:
        """The first instruction that fails by itself; inside loops, branches and calls too."""
        return self._of(self.program.module.entry, self.values)

    def _of(self, comp: Computation, values: surgery.Values) -> Instr | None:
        work = [i for i in comp.instrs if i.opcode not in _NO_WORK]
        for start in range(0, len(work), _AT_ONCE):
            found = self._failing(work[start : start + _AT_ONCE], values)
            if found is not None:
                return self._deeper(found, values)
        return None

    def _deeper(self, instr: Instr, values: surgery.Values) -> Instr:
        for comp in instr.called if instr.opcode in _CONTROL else ():
            if comp in values.called:
                module, inputs = self.program.module, self.program.inputs
                found = self._of(comp, surgery.values(module, comp, values.called[comp], inputs))
                if found is not None:
                    return found
        return instr

    def _failing(self, instrs: Sequence[Instr], values: surgery.Values) -> Instr | None:
        """The first of `instrs` that fails; all are tried in one module, halves of it where it does not run."""
        program, owners = surgery.apart("parts", instrs, values.of)
        outcome = self.search.run(program, self.backend, "--until", stages.NONE, "--no-fusion")
        self.search.say(f"{len(instrs)} by themselves: {outcome.words()}")
        if outcome.kind == OK or not same(outcome, self.failure):
            return None
        if outcome.kind == WRONG:
            compared = outcome.report["compared"]
            return next(owner for owner, c in zip(owners, compared) if c["mismatches"])
        if len(instrs) == 1:
            return instrs[0]
        middle = len(instrs) // 2
        return self._failing(instrs[:middle], values) or self._failing(instrs[middle:], values)

    def inside(self, fusion: Instr) -> tuple[str, ...]:
        """Which instruction of a fusion fails by itself, in words."""
        comp = fusion.attrs["calls"]
        args = self.values.called.get(comp)
        if args is None:
            return ()
        values = surgery.values(self.program.module, comp, args, self.program.inputs)
        found = self._of(comp, values)
        if found is None:
            return ("each of its instructions by itself is right",)
        return ("of its instructions this one by itself fails:", *_lines(found))


def _lines(instr: Instr | None) -> tuple[str, ...]:
    """The instruction, and where it comes from."""
    if instr is None:
        return ()
    where = instr.metadata
    place = f"{where.source_file}:{where.source_line}" if where.source_file else ""
    origin = ", ".join(filter(None, (where.op_name or ", ".join(sorted(instr.sources)[:3]), place)))
    shown = text.render_instruction(instr, elide_literals=True, metadata=False)
    return (shown, *((f"from {origin}",) if origin else ()))


def differing(
    modules: Sequence[tuple[str, Module]], inputs: Sequence[Any], search: Search
) -> tuple[str, Outcome] | None:
    """The first of several forms of one module, each with a title, whose outputs the evaluator says to be other ones
    than the first form's; None where there is none."""
    base = modules[0][1]
    outcomes: dict[int, Outcome] = {}

    def is_bad(number: int) -> bool:
        outcomes[number] = search.trials.run_against(modules[number][1], base, inputs)
        search.say(f"{modules[number][0]}: {outcomes[number].words()}")
        return outcomes[number].failed

    if len(modules) < 2 or not is_bad(len(modules) - 1):
        return None
    first = _first(is_bad, len(modules) - 1)
    return modules[first][0], outcomes[first]
