"""Runs a launch plan a step at a time in Python: what a plan means, and the launcher of backends that run kernels in
Python. Slow and plain; the interpreter in machine code does the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import data_checks
from ..errors import UnsupportedError
from ..ir.dim import Dim, evaluate
from . import check_reports, foreign, random_state
from .arrays import bind_sizes, empty_outputs, trimmed
from .plan import (
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
    walk,
)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# Runs tasks of the kernel with this symbol: (symbol, inputs, outputs, numbers of its size slots, tasks). Each buffer
# is the memory from its first byte to the end of what it lies in.
RunKernel = Callable[[str, Sequence[Bytes], Sequence[Bytes], Sequence[int], range], None]


class Stepwise:
    """A launcher of `plan` whose kernels `run_kernel` runs; UnsupportedError for a step that cannot run so."""

    def __init__(self, plan: LaunchPlan, run_kernel: RunKernel) -> None:
        self.plan, self._run_kernel = plan, run_kernel
        for step in walk(plan.steps):
            if isinstance(step, TfOpStep):
                raise UnsupportedError(f"a TensorFlow op between kernels ({step.op}) cannot run here yet")
            if isinstance(step, LibraryStep):
                _check_routine(step.routine)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs; UsageError where an array does not fit."""
        inputs = [np.asarray(a, order="C") for a in arrays]
        sizes = bind_sizes(self.plan, inputs)
        outputs = empty_outputs(self.plan, sizes)
        env = dict(zip((s.symbol for s in self.plan.sizes), map(int, sizes)))
        _Execution(self.plan, self._run_kernel, env, inputs, outputs).steps(self.plan.steps)
        return trimmed(self.plan, outputs, env)


def _bytes(array: np.ndarray) -> Bytes:
    return array.reshape(-1).view(np.uint8)


class _Execution:
    """The memory of one execution, and its sizes by name: `env` grows as instructions produce them."""

    def __init__(
        self,
        plan: LaunchPlan,
        run_kernel: RunKernel,
        env: dict[str, int],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        self.run_kernel, self.env = run_kernel, env
        self.bounds = {source.symbol: source.bound for source in plan.sizes}
        self.memory: dict[str, list[Bytes]] = {
            "input": [_bytes(a) for a in inputs],
            "output": [_bytes(a) for a in outputs],
            "temp": [np.full(self.number(plan.arena_bytes), 0x5A, np.uint8)],
            "const": [np.frombuffer(data, np.uint8) for data in plan.constants],
        }

    def number(self, dim: Dim) -> int:
        return evaluate(dim, self.env)

    def at(self, ref: Ref) -> Bytes:
        """The memory from a place on."""
        return self.memory[ref.kind][ref.index][self.number(ref.offset) :]

    def scalar(self, ref: Ref, dtype: type[np.generic]) -> int:
        return int(self.at(ref)[: np.dtype(dtype).itemsize].view(dtype)[0])

    # --- steps ---
    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._RUN[type(step)](self, step)

    def _kernel(self, step: KernelStep) -> None:
        inputs, outputs = ([self.at(ref) for ref in refs] for refs in (step.inputs, step.outputs))
        sizes = [self.number(size) for size in step.sizes]
        self.run_kernel(step.symbol, inputs, outputs, sizes, range(self.number(step.tasks)))

    def _library(self, step: LibraryStep) -> None:
        inputs, outputs = ([self.at(ref) for ref in refs] for refs in (step.inputs, step.outputs))
        sizes = [self.number(size) for size in step.sizes]
        if foreign.is_foreign(step.routine):
            foreign.call(step.routine, inputs, outputs, sizes, self.number(step.tasks))
        else:
            _ROUTINES[step.routine](inputs, outputs, sizes)

    def _copy(self, step: CopyStep) -> None:
        count = self.number(step.bytes)
        self.at(step.target)[:count] = self.at(step.source)[:count]

    def _branch(self, step: BranchStep) -> None:
        if step.is_pred:
            chosen = 0 if self.scalar(step.selector, np.bool_) else 1
        else:
            chosen = self.scalar(step.selector, np.int32)
        self.steps(step.branches[chosen if 0 <= chosen < len(step.branches) else -1])

    def _loop(self, step: LoopStep) -> None:
        if step.trips >= 0:
            for _ in range(step.trips):
                self.steps(step.body)
            return
        self.steps(step.condition)
        while self.scalar(step.flag, np.bool_):
            self.steps(step.body)
            self.steps(step.condition)

    def _size(self, step: SizeStep) -> None:
        """Between 0 and the bound whatever the program computes, for memory is reserved by the bound."""
        bound = evaluate(self.bounds[step.symbol], self.env)
        self.env[step.symbol] = min(max(self.scalar(step.source, np.int32), 0), bound)

    _RUN: ClassVar[dict[type, Callable[[_Execution, Any], None]]] = {
        KernelStep: _kernel,
        LibraryStep: _library,
        CopyStep: _copy,
        BranchStep: _branch,
        LoopStep: _loop,
        SizeStep: _size,
    }


def _check_routine(routine: str) -> None:
    """UnsupportedError where it cannot run here."""
    if foreign.is_foreign(routine):
        foreign.function(routine)
    elif routine not in _ROUTINES:
        raise UnsupportedError(f"the library routine {routine} cannot run here")


def _draw(inputs: Sequence[Bytes], outputs: Sequence[Bytes], sizes: Sequence[int]) -> None:
    outputs[0][:16].view(np.uint64)[...] = random_state.draw(sizes[0])


def _check(inputs: Sequence[Bytes], outputs: Sequence[Bytes], sizes: Sequence[int]) -> None:
    found = check_reports.find(inputs, sizes)
    if found is not None:
        raise found


# Library routines by name, as plans call them: (inputs, outputs, sizes).
_ROUTINES: Mapping[str, Callable[[Sequence[Bytes], Sequence[Bytes], Sequence[int]], None]] = {
    random_state.ROUTINE: _draw,
    data_checks.ROUTINE: _check,
}
