"""Launch plan -> the words that the interpreter reads (record_layout.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Union

import numpy as np

from ...errors import InternalError, UnsupportedError
from ...ir.dim import Dim, DimExpr
from ...ir.size_operators import NUMBERS
from .. import foreign
from ..plan import (
    BranchStep,
    CopyStep,
    KernelStep,
    LaunchPlan,
    LibraryStep,
    LoopStep,
    Ref,
    SizeStep,
    Step,
    TfOpStep,
    refs,
    walk,
)
from .record_layout import PLACE_KINDS, STEPS
from .step_times import TimedStep

Runs = Union[KernelStep, LibraryStep]  # steps that run code


@dataclass(frozen=True, slots=True)
class Encoded:
    """`values`: the template of value slots; `expressions`: rows (operation, target, a, b), of which the
    first `initial_expressions` need no produced size. `timed`: what each timing ordinal is. `extra`: the value slots of
    what the launcher asked for besides."""

    program: np.ndarray
    values: np.ndarray
    expressions: np.ndarray
    initial_expressions: int
    arena_value: int
    argument_words: int
    scratch_bytes: int
    timed: tuple[TimedStep, ...]
    extra: tuple[int, ...]


def encode(plan: LaunchPlan, address: Callable[[Runs], int], extra: Sequence[Dim] = ()) -> Encoded:
    """`address` gives the code that a step runs. `extra`: further dims over the inputs' sizes
    that get a value. Sizes are handed to code as `argument_sizes` says."""
    values = _Values(plan, extra)
    writer = _Writer(values, address)
    writer.steps(plan.steps)
    writer.words.append(STEPS["end"])
    kernels = [s for s in walk(plan.steps) if isinstance(s, (KernelStep, LibraryStep))]
    most = max((len(k.inputs) + len(k.outputs) + len(argument_sizes(k)) for k in kernels), default=0)
    return Encoded(
        np.array(writer.words, np.int64),
        np.array(values.template, np.int64),
        values.rows(),
        values.stage_start(1),
        values.slot(plan.arena_bytes),
        max(most, 4),
        max((k.scratch_bytes for k in kernels if isinstance(k, KernelStep)), default=0),
        tuple(writer.timed),
        tuple(map(values.slot, extra)),
    )


def argument_sizes(step: Runs) -> tuple[Dim, ...]:
    """The sizes that a step's code gets: of a foreign call between the addresses of the function and of its data, and
    the number of tasks."""
    if isinstance(step, LibraryStep) and foreign.is_foreign(step.routine):
        return (*foreign.function(step.routine), *step.sizes, step.tasks)
    return step.sizes


class _Values:
    """Value slots: the plan's sizes, then the numbers and expressions it uses, each once.

    An expression has a stage: 0 where input sizes suffice, else the number of the last `SizeStep`
    it needs. Rows are ordered by stage, so that a step evaluates the rows from its own stage on.
    """

    def __init__(self, plan: LaunchPlan, extra: Sequence[Dim]) -> None:
        self.template = [0] * len(plan.sizes)
        self._slots: dict[Dim, int] = {}
        self._symbols = {source.symbol: n for n, source in enumerate(plan.sizes)}
        self.bounds = {source.symbol: source.bound for source in plan.sizes if source.is_produced}
        produced = dict.fromkeys(s.symbol for s in walk(plan.steps) if isinstance(s, SizeStep))
        self._stages = {symbol: n for n, symbol in enumerate(produced, 1)}
        self._rows: list[tuple[int, tuple[int, int, int, int]]] = []
        for dim in (*_dims(plan), *self.bounds.values(), *extra):
            self.slot(dim)
        self._rows.sort(key=lambda row: row[0])

    def slot(self, dim: Dim) -> int:
        """The slot that holds `dim` at run time."""
        if isinstance(dim, DimExpr) and dim.is_size:
            return self._symbols[dim.name]
        if dim not in self._slots:
            self._slots[dim] = self._number(dim) if isinstance(dim, int) else self._expression(dim)
        return self._slots[dim]

    def variable(self) -> int:
        """A slot that steps write."""
        return self._number(0)

    def _number(self, value: int) -> int:
        self.template.append(int(value))
        return len(self.template) - 1

    def _expression(self, dim: DimExpr) -> int:
        a, b = map(self.slot, dim.operands)
        target = self._number(0)
        self._rows.append((self.stage(dim), (NUMBERS[dim.op], target, a, b)))
        return target

    def stage(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return 0
        if dim.is_size:
            return self._stages.get(dim.name, 0)
        return max(map(self.stage, dim.operands))

    def stage_of(self, symbol: str) -> int:
        return self._stages[symbol]

    def stage_start(self, stage: int) -> int:
        """The number of rows of earlier stages."""
        return sum(row[0] < stage for row in self._rows)

    def rows(self) -> np.ndarray:
        return np.array([row for _, row in self._rows], np.int64).reshape(-1, 4)


def _dims(plan: LaunchPlan) -> Iterable[Dim]:
    """Every Dim that the program reads, those that need nothing first."""
    yield plan.arena_bytes
    yield 0
    for step in walk(plan.steps):
        yield from (ref.offset for ref in refs(step))
        if isinstance(step, (KernelStep, LibraryStep)):
            yield from argument_sizes(step)
            yield from (step.tasks, step.cost)
        if isinstance(step, CopyStep):
            yield step.bytes


@dataclass
class _Writer:
    """Appends step words; `timed` names the steps that have a timing ordinal."""

    values: _Values
    address: Callable[[Runs], int]
    words: list[int] = field(default_factory=list)
    timed: list[TimedStep] = field(default_factory=list)

    def steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._WRITERS[type(step)](self, step)

    def _kernel(self, step: KernelStep) -> None:
        self._launch(step.symbol, step, step.scratch_bytes)

    def _library(self, step: LibraryStep) -> None:
        self._launch(step.routine, step, 0)

    def _launch(self, symbol: str, step: Runs, scratch: int) -> None:
        address = self.address(step)
        if not address:
            raise InternalError(f"no machine code for '{symbol}', which {step.instr or 'a step'} calls")
        sizes = argument_sizes(step)
        inline = all(isinstance(size, int) for size in sizes)
        count = -len(sizes) if inline else len(sizes)
        self.words += [STEPS["kernel"], address, len(step.inputs), len(step.outputs), count]
        self.words += [self.values.slot(step.tasks), self.values.slot(step.cost), scratch]
        self.words.append(self._ordinal(step.instr, symbol))
        for ref in (*step.inputs, *step.outputs):
            self.words += self._place(ref)
        self.words += [s if isinstance(s, int) and inline else self.values.slot(s) for s in sizes]

    def _copy(self, step: CopyStep) -> None:
        self.words += [STEPS["copy"], *self._place(step.source), *self._place(step.target)]
        self.words += [self.values.slot(step.bytes), self._ordinal(step.instr, "copy")]

    def _size(self, step: SizeStep) -> None:
        first = self.values.stage_start(self.values.stage_of(step.symbol))
        symbol = self.values.slot(DimExpr("bounded", (step.symbol, 0)))
        self.words += [STEPS["size"], *self._place(step.source), symbol, first, len(self.values.rows())]
        self.words.append(self.values.slot(self.values.bounds[step.symbol]))

    def _branch(self, step: BranchStep) -> None:
        """The table of targets, then each branch with a jump behind the last."""
        self.words += [STEPS["branch"], *self._place(step.selector), int(step.is_pred), len(step.branches)]
        table, ends = len(self.words), []
        self.words += [0] * len(step.branches)
        for number, branch in enumerate(step.branches):
            self.words[table + number] = len(self.words)
            self.steps(branch)
            self.words += [STEPS["jump"], 0]
            ends.append(len(self.words) - 1)
        for end in ends:
            self.words[end] = len(self.words)

    def _loop(self, step: LoopStep) -> None:
        """condition; unless flag go behind; body; jump to the condition. A counted one has its own value to count."""
        if step.trips >= 0:
            self._counted(step)
            return
        start = len(self.words)
        self.steps(step.condition)
        self.words += [STEPS["unless"], *self._place(step.flag), 0]
        exit_word = len(self.words) - 1
        self.steps(step.body)
        self.words += [STEPS["jump"], start]
        self.words[exit_word] = len(self.words)

    def _counted(self, step: LoopStep) -> None:
        slot = self.values.variable()
        self.words += [STEPS["set"], slot, step.trips]
        start = len(self.words)
        self.words += [STEPS["countdown"], slot, 0]
        self.steps(step.body)
        self.words += [STEPS["jump"], start]
        self.words[start + 2] = len(self.words)

    def _tf_op(self, step: TfOpStep) -> None:
        raise UnsupportedError(f"a TensorFlow op between kernels ({step.op}) cannot run here yet")

    def _place(self, ref: Ref) -> list[int]:
        return [PLACE_KINDS[ref.kind] | ref.index << 2, self.values.slot(ref.offset)]

    def _ordinal(self, instr: str, symbol: str) -> int:
        self.timed.append(TimedStep(instr, symbol))
        return len(self.timed) - 1

    _WRITERS: ClassVar[dict[type, Callable[[_Writer, Any], None]]] = {
        KernelStep: _kernel,
        LibraryStep: _library,
        CopyStep: _copy,
        SizeStep: _size,
        BranchStep: _branch,
        LoopStep: _loop,
        TfOpStep: _tf_op,
    }
