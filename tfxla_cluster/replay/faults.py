"""`tfxla-inspect bisect` and `minimize`: where a module goes wrong, and the smallest that does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..ir import verifier
from . import reproduction, rerun, stages
from .locate import Finding, Search, differing
from .minimize import Minimizer
from .module_file import ModuleFile, load
from .surgery import Program
from .trials import Outcome, Trials

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """`module`: a file. `inputs`: as rerun.Wanted's. `timeout_s`: of one run. `flags`: of TFXLA_FLAGS, as words."""

    module: str
    backend: str = "cpu"
    reference: str = "evaluator"
    inputs: Sequence[str] = ()
    seed: int = 0
    rtol: float | None = None
    timeout_s: float = 120.0
    flags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """One of the forms that a module has in a dump, after a pass or before all. `title`: what for people."""

    title: str
    file: str


def bisect(wanted: Wanted, say: Say, progress: Say) -> int:
    """0: nothing fails; 1: something does, and where is said."""
    _, program = _program(wanted, say)
    with Trials(wanted.flags, wanted.timeout_s) as trials:
        return _found(_search(wanted, trials, progress), program, say)


def bisect_forms(wanted: Wanted, forms: Sequence[Form], say: Say, progress: Say) -> int:
    """Of a dump that holds a module between passes: the first form whose meaning, by the evaluator, is not that of the
    first; where there is none, what the backend makes of the last. 0: nothing fails."""
    _, program = _program(wanted, say)
    modules = [(form.title, _whole(form.file).module) for form in forms]
    with Trials(wanted.flags, wanted.timeout_s) as trials:
        search = _search(wanted, trials, progress)
        wrong = differing(modules, program.inputs, search)
        if wrong is not None:
            say(f"{wrong[0]}: {wrong[1].words()}")
            return 1
        say(f"{len(modules)} forms of it mean the same")
        return _found(search, Program(modules[-1][1], program.inputs), say)


def minimise(wanted: Wanted, output: Path, slower: float | None, budget: int, say: Say, progress: Say) -> int:
    """0: minimised and written; 1: the module does not fail."""
    _, program = _program(wanted, say)
    before = program.size
    with Trials(wanted.flags, wanted.timeout_s) as trials:
        search = _search(wanted, trials, progress)
        found = Minimizer(search, slower, budget).run(program)
        if found is None:
            say("it does not fail: there is nothing to minimise")
            return 1
        finding = search.find(found.program, found.outcome) if slower is None else None
        say(f"{before} instructions became {found.program.size} in {found.trials} trials")
        title = _title(wanted, found.outcome, finding)
        files = reproduction.write(output, found.program, title, _reproducing(wanted, found.program))
    say(title)
    say("\n".join(f"wrote {file}" for file in files))
    return 0


def _program(wanted: Wanted, say: Say) -> tuple[ModuleFile, Program]:
    file = load(wanted.module, wanted.seed)
    verifier.verify(file.module)
    for place in file.elided:
        say(f"{place}: the literal was elided; it has random values")
    values, what = rerun.inputs_of(file, wanted.inputs, wanted.seed)
    say(f"{file.module.name}: {Program(file.module, ()).size} instructions; inputs: {what}")
    return file, Program(file.module, tuple(values))


def _whole(path: str) -> ModuleFile:
    """A form whose literals are all there: elided ones would differ from those of the other forms."""
    file = load(path)
    if file.elided:
        problem = f"{file.elided[0]}: the literal was elided, so that this form cannot be held against others"
        raise UsageError(problem, "Dump with --xla_dump_large_constants, or --xla_dump_hlo_as_proto")
    return file


def _search(wanted: Wanted, trials: Trials, progress: Say) -> Search:
    return Search(trials, progress, wanted.backend, wanted.reference, wanted.rtol)


def _found(search: Search, program: Program, say: Say) -> int:
    outcome = search.whole(program)
    if not outcome.failed:
        say(f"{search.backend}: right, within the tolerances")
        return 0
    say(f"{search.backend}: {outcome.words()}")
    finding = search.find(program, outcome)
    say("\n".join((finding.words(), *(f"  {line}" for line in finding.lines))))
    return 1


def _title(wanted: Wanted, outcome: Outcome, finding: Finding | None) -> str:
    flags = f" with {shlex.join(wanted.flags)}" if wanted.flags else ""
    lines = [f"On {wanted.backend}{flags}, against {wanted.reference}: {outcome.words()}."]
    if finding is not None:
        lines += [f"It is {finding.words()}", *finding.lines]
    return "\n".join(lines)


def _reproducing(wanted: Wanted, program: Program) -> list[str]:
    words = ["--backend", wanted.backend, "--reference", wanted.reference]
    if stages.is_optimised(program.module):
        words += ["--until", stages.OPTIMISED]
    if wanted.rtol is not None:
        words += ["--rtol", str(wanted.rtol)]
    return [*words, *wanted.flags]
