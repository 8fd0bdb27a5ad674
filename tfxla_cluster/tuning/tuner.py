"""The tuner of one instruction: compile candidates, check them, time them, and let the winner stand again against the
default before it counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from .. import compiler, trace
from ..backends.backend import Backend, Launcher
from ..codegen.kernel import key as kernel_key
from ..codegen.kernel.choice import Choice, Given
from ..codegen.kernel.unit import UnitKernel
from ..dump.cost import bytes_of, flops_of
from ..errors import TfxlaError, UnsupportedError
from ..ir.evaluator import evaluate
from ..ir.node import Computation, Instr, Module
from ..options import CompileOptions
from . import check, fingerprint, reference
from .persisted.results import Entry, Key, Measured
from .search import search
from .trial import Trial, trial

POISONS = (0xFF, 0x5A)  # of the default, whose outputs must not depend on it: NaN or -1, and large numbers
POISON = 0x5A  # of a candidate: no right result is made of it
SMALL_WORK = 20_000_000  # scalar operations and bytes up to which the evaluator is the reference
ROUNDS, DUEL_ROUNDS = 5, 15  # interleaved: first of all candidates, then of the winner and the default
SAMPLE_SECONDS = 1e-3  # of one sample, so that the clock and the call cost nothing
GAIN = 0.98  # of the default's time that a winner needs at most: less than noise gains nothing
BATCH = 2  # candidates for each worker that compiles, after which time may be up
TRIAL_BYTES = 1 << 30  # of the arrays of all executables under trial at a time
Watch = Callable[[int, int], None]  # told how many candidates are measured, and of how many


@dataclass(slots=True)
class Budget:
    """Seconds that tuning may take; 0: any."""

    seconds: float = 0.0
    used: float = 0.0

    def spent(self, more: float = 0.0) -> bool:
        """Whether what was used, and `more`, is all of it."""
        return bool(self.seconds) and self.used + more >= self.seconds


@dataclass(frozen=True, slots=True)
class Tuner:
    """Tunes instructions for `backend`. `workers`: candidates compiled at once."""

    backend: Backend[Launcher]
    options: CompileOptions
    workers: int = 2
    budget: Budget = field(default_factory=Budget)
    make_trial: Callable[[Launcher, Sequence[np.ndarray]], Trial] = trial

    def tune(
        self, instr: Instr, key: Key, made_by: str, known: Entry | None = None, watch: Watch | None = None
    ) -> Entry:
        """The result for `instr`; times in `known` are not measured again. Raises TfxlaError or MemoryError where the
        default itself cannot be compiled, run or trusted."""
        started = time.monotonic()
        try:
            measured = {} if known is None else {m.choice: m for m in known.measured}
            work = _Work(self, instr, key, measured, watch, lambda: self.budget.spent(time.monotonic() - started))
            return self._tuned(work, key, made_by)
        finally:
            self.budget.used += time.monotonic() - started

    def _tuned(self, work: _Work, key: Key, made_by: str) -> Entry:
        try:
            found = search(work.candidates, work.evaluate, work.stop)
            best = min(found, key=found.__getitem__)
            chosen, seconds = work.duel(best)
        finally:
            work.close()
        return Entry(key, chosen, seconds, tuple(work.measured.values()), made_by)


class _Work:
    """The candidates of one instruction and what is known of them."""

    def __init__(
        self,
        tuner: Tuner,
        instr: Instr,
        key: Key,
        measured: Mapping[Choice, Measured],
        watch: Watch | None,
        stop: Callable[[], bool],
    ) -> None:
        self._tuner, self._watch, self.stop = tuner, watch, stop
        self.candidates = tuner.backend.candidates(instr)
        self.measured = {c: m for c, m in measured.items() if c in self.candidates}
        self._module, self._instr = alone(instr)
        self._near = check.Tolerance(check.rounds_factors(instr, tuner.backend.target))
        self._inputs = check.inputs(self._module.entry.params, key.hlo)
        self._forms: dict[tuple[object, ...], Choice] = {}
        self._default, self._want = self._reference()

    def _reference(self) -> tuple[Trial, list[np.ndarray]]:
        """The default under trial, and what is right."""
        first = self._tuner.make_trial(self._compiled(self.candidates[0]), self._inputs)
        try:
            got = [first.outputs(poison) for poison in POISONS]
            said = first.overrun() or check.difference(got[0], got[1])
            if not said:
                said = self._off_reference(got[0])
            if said:
                raise TfxlaError(f"the default form of {self._instr.name} cannot be trusted: {said}")
        except BaseException:
            first.close()
            raise
        return first, got[0]

    def _off_reference(self, got: Sequence[np.ndarray]) -> str:
        """In words how far the default is from what others compute, '' where it is near; of small work that is the
        evaluator, of large work other kernels in f64, where there are any."""
        if flops_of(self._instr) + bytes_of(self._instr) <= SMALL_WORK:
            return check.difference(got, _flat(evaluate(self._module, self._inputs)), self._near)
        how = replace(self._tuner.options, timed_executions=0, least_graph=0)
        want, reason = reference.values(self._instr, self._inputs, self._tuner.backend, how)
        if want is None:
            trace.record("autotune", event="reference", instr=self._instr.name, reason=reason)
            return ""
        return check.difference(got, want, reference.tolerance(self._instr, self._near.tf32))

    def _compiled(self, choice: Choice) -> Launcher:
        how = replace(
            self._tuner.options, passes=False, fusion=False, timed_executions=0, least_graph=0, compile_threads=1
        )
        given = Given(self._instr.name, choice)
        with trace.muted():
            return compiler.compile_module(self._module, self._tuner.backend, how, choices=given).executable

    def evaluate(self, candidates: Sequence[Choice]) -> dict[Choice, float]:
        """Seconds of each; those known from before as they were, none of those to which time does not go: they are
        measured in batches, the first of which always is."""
        fresh = [c for c in candidates if c not in self.measured]
        for number, some in enumerate(_chunks(fresh, BATCH * self._tuner.workers)):
            if number and self.stop():
                break
            self._evaluate(some)
            if self._watch is not None:
                self._watch(len(self.measured), len(self.candidates))
        seconds = {c: self.measured[c].seconds for c in candidates if c in self.measured}
        return {c: math.inf if s is None else s for c, s in seconds.items()}

    def _evaluate(self, fresh: Sequence[Choice]) -> None:
        """All compiled at once, then measured, since a machine that compiles takes longer."""
        with ThreadPoolExecutor(self._tuner.workers) as pool:
            compiled = dict(zip(fresh, pool.map(self._try_to_compile, self._distinct(fresh))))
        each = max(bytes_of(self._instr), 1)
        for some in _chunks(list(compiled.items()), max(TRIAL_BYTES // each, 1)):
            self._measure(some)

    def _measure(self, compiled: Sequence[tuple[Choice, Launcher | Measured]]) -> None:
        trials: dict[Choice, Trial] = {}
        try:
            for choice, made in compiled:
                if isinstance(made, Measured):
                    self.measured[choice] = made
                else:
                    self._examine(choice, made, trials)
            self._time(trials)
        finally:
            for one in trials.values():
                if one is not self._default:
                    one.close()

    def _distinct(self, choices: Sequence[Choice]) -> list[tuple[Choice, Measured | None]]:
        """Each choice, with why it is not compiled: refused, or the same code as an earlier one."""
        return [(choice, self._refused(choice)) for choice in choices]

    def _refused(self, choice: Choice) -> Measured | None:
        try:
            unit = self._tuner.backend.lower(self._instr, choice)
        except UnsupportedError as error:
            return Measured(choice, None, "DISQUALIFIED", error.message)
        form = tuple((kernel_key.key(s.kernel), s.kernel.tasks) if isinstance(s, UnitKernel) else s for s in unit.steps)
        first = self._forms.setdefault(form, choice)
        return None if first == choice else Measured(choice, None, "DISQUALIFIED", f"the same code as {first!r}")

    def _try_to_compile(self, what: tuple[Choice, Measured | None]) -> Launcher | Measured:
        choice, refused = what
        if refused is not None:
            return refused
        try:
            return self._compiled(choice)
        except (TfxlaError, MemoryError) as error:
            return Measured(choice, None, "DISQUALIFIED", str(error))

    def _examine(self, choice: Choice, made: Launcher, trials: dict[Choice, Trial]) -> None:
        """Under trial; into `trials` where it is right."""
        if choice == self.candidates[0]:
            trials[choice] = self._default
            return
        try:
            one = self._tuner.make_trial(made, self._inputs)
        except (TfxlaError, MemoryError) as error:
            self.measured[choice] = Measured(choice, None, "DISQUALIFIED", str(error))
            return
        failure = self._failure(one)
        if failure:
            self.measured[choice] = Measured(choice, None, *failure)
            one.close()
        else:
            trials[choice] = one

    def _failure(self, one: Trial) -> tuple[str, str] | None:
        try:
            got = one.outputs(POISON)
        except (TfxlaError, MemoryError) as error:
            return "DISQUALIFIED", str(error)
        written = one.overrun()
        if written:
            return "REDZONE_MODIFIED", written
        wrong = check.difference(got, self._want, self._near)
        return ("WRONG_RESULT", wrong) if wrong else None

    def _time(self, trials: Mapping[Choice, Trial]) -> None:
        """Beside the default, and in units of it: batches are minutes or processes apart, in which clocks change."""
        if not trials:
            return
        default = self.candidates[0]
        seconds = interleaved({default: self._default, **trials}, ROUNDS)
        before = self.measured[default].seconds if default in self.measured else None
        scale = 1.0 if before is None else before / seconds[default]
        for choice in trials:
            self.measured[choice] = Measured(choice, seconds[choice] * scale)

    def duel(self, best: Choice) -> tuple[Choice, float]:
        """The winner and the default once more, side by side: the default where that gains too little."""
        default = self.candidates[0]
        trials = {default: self._default}
        if best != default:
            trials[best] = self._tuner.make_trial(self._compiled(best), self._inputs)
        try:
            seconds = interleaved(trials, DUEL_ROUNDS)
        finally:
            if best != default:
                trials[best].close()
        chosen = best if seconds[best] < GAIN * seconds[default] else default
        return chosen, seconds[chosen]

    def close(self) -> None:
        self._default.close()


T = TypeVar("T")


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def interleaved(trials: Mapping[Choice, Trial], rounds: int) -> dict[Choice, float]:
    """The best sample of each: every round takes one of each, so that what disturbs, disturbs all."""
    counts = {c: max(1, math.ceil(SAMPLE_SECONDS / max(one.seconds(1), 1e-9))) for c, one in trials.items()}
    best = dict.fromkeys(trials, math.inf)
    for _ in range(rounds):
        for choice, one in trials.items():
            best[choice] = min(best[choice], one.seconds(min(counts[choice], 1000)))
    return best


def alone(instr: Instr) -> tuple[Module, Instr]:
    """A module of `instr` alone, and the instruction in it: its operands are parameters, scalar constants stay."""
    comp = fingerprint.alone(instr)
    if not instr.shape.is_tuple:
        return Module(instr.name, comp), comp.root
    inner = comp.root
    parts = tuple(
        Instr(f"{instr.name}.part{n}", "get-tuple-element", shape, (inner,), {"index": n})
        for n, shape in enumerate(instr.shape.elements)
    )
    root = Instr(f"{instr.name}.parts", "tuple", instr.shape, parts)
    return Module(instr.name, Computation(comp.name, (*comp.instrs, *parts, root), root)), inner


def _flat(value: object) -> list[np.ndarray]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flat(item)]
    return [np.asarray(value)]
