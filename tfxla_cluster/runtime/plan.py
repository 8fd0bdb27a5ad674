"""The launch plan: what an executable does, as plain data that goes to JSON and back.

A plan names buffers, never pointers; sizes are Dims over the module's sizes. `runtime.cpu.executable`
lays it out for the interpreter; `dump` writes it; the store keeps it beside the machine code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Union

from .. import data_checks
from ..ir.dim import Dim
from ..ir.guard import Guard
from ..ir.shape import Shape

# Where the code that a step runs comes from -> whether it is native: machine code from our code generators or a
# named library call, never an evaluator of kernels or modules, never a stock op.
ORIGINS: Mapping[str, bool] = {"generator": True, "library": True, "evaluator": False, "tensorflow": False}


@dataclass(frozen=True, slots=True)
class Ref:
    """A place: kind 'input', 'output', 'temp' (bytes `offset` into the arena) or 'const'.

    `index` counts inputs, outputs or constants (0 for temp). `offset` is in bytes.
    """

    kind: str
    index: int = 0
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched: `symbol` of its code, `origin` of that (one of ORIGINS), and what else the backend's
    launcher has to know, name -> number."""

    symbol: str
    origin: str = "generator"
    params: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Run `tasks` tasks of the code `symbol` by the ABI (context, inputs, outputs, sizes).

    `origin`: one of ORIGINS, 'generator' or 'evaluator'. `params`: what the backend's launcher has to know besides
    the grid, which is `tasks`: name -> number (warps, bytes of shared memory).
    """

    symbol: str
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]
    sizes: tuple[Dim, ...]
    tasks: Dim
    cost: Dim = 1
    scratch_bytes: int = 0
    instr: str = ""
    origin: str = "generator"
    params: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LibraryStep:
    """Call a named library routine with the same operands as a kernel, in `tasks` of `cost` as one. `params`: what else
    it is told, name -> number."""

    origin: ClassVar[str] = "library"
    routine: str
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]
    sizes: tuple[Dim, ...]
    instr: str = ""
    params: tuple[tuple[str, int], ...] = ()
    tasks: Dim = 1
    cost: Dim = 1


@dataclass(frozen=True, slots=True)
class TfOpStep:
    """Run a TensorFlow op (a collective) between kernels."""

    origin: ClassVar[str] = "tensorflow"
    op: str
    attrs: tuple[tuple[str, object], ...]
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]
    instr: str = ""


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copy `bytes` bytes; source and target do not overlap or are the same place."""

    source: Ref
    target: Ref
    bytes: Dim
    instr: str = ""


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Run branch `selector` (an s32, or a pred: true is branch 0); out of range runs the last."""

    selector: Ref
    is_pred: bool
    branches: tuple[tuple[Step, ...], ...]
    instr: str = ""


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Run `condition`, then while the pred at `flag` is true, `body` and `condition` again. `trips`: how often the body
    runs where that is known (-1 where not): nothing reads `flag`, and `condition` is empty."""

    condition: tuple[Step, ...]
    flag: Ref
    body: tuple[Step, ...]
    instr: str = ""
    trips: int = -1


@dataclass(frozen=True, slots=True)
class SizeStep:
    """Read the s32 at `source`: the value of the size `symbol` from here on."""

    symbol: str
    source: Ref
    instr: str = ""


Step = Union[KernelStep, LibraryStep, TfOpStep, CopyStep, BranchStep, LoopStep, SizeStep]


@dataclass(frozen=True, slots=True)
class SizeSource:
    """Where a size symbol's value comes from: dim `axis` of input `input`, or (both -1) a `SizeStep`:
    a size known only after an instruction ran, at most `bound`, which follows the inputs' sizes."""

    symbol: str
    input: int = -1
    axis: int = -1
    bound: Dim = 0

    @property
    def is_produced(self) -> bool:
        return self.input < 0


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """`inputs` and `outputs` are array shapes (their dims may be Dims over `sizes`).

    `sizes`: the order of the sizes array; a dim of an input that is one symbol names its source, the
    first input dim that holds it. A dim that is an expression is not checked.
    `aliases`: (output, input) pairs that may share a buffer. `constants`: bytes of each constant.
    `arena_bytes`: size of the temporary arena of one execution. `guards`: what it holds for, about the inputs.
    """

    name: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    sizes: tuple[SizeSource, ...]
    steps: tuple[Step, ...]
    constants: tuple[bytes, ...]
    arena_bytes: Dim
    aliases: tuple[tuple[int, int], ...] = ()
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an array of an instruction lies, for the dump. `segments`: when, as half-open ranges of `liveness`'s
    ticks."""

    name: str
    bytes: Dim
    place: Ref
    segments: tuple[tuple[int, int], ...]


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, those of loops and branches after their own, in the order they are written."""
    for step in steps:
        yield step
        if isinstance(step, LoopStep):
            yield from walk(step.condition)
            yield from walk(step.body)
        elif isinstance(step, BranchStep):
            for branch in step.branches:
                yield from walk(branch)


@dataclass(frozen=True, slots=True)
class KernelCount:
    """Steps of a plan that run code (those in loops and branches once), and how many of them run native code."""

    kernels: int
    native: int


def count_kernels(plan: LaunchPlan) -> KernelCount:
    """What `stats`, the demo and the report call kernels and native kernels; checks of data are none."""
    origins = [
        step.origin
        for step in walk(plan.steps)
        if isinstance(step, (KernelStep, TfOpStep))
        or (isinstance(step, LibraryStep) and step.routine != data_checks.ROUTINE)
    ]
    return KernelCount(len(origins), sum(ORIGINS[origin] for origin in origins))


def refs(step: Step) -> tuple[Ref, ...]:
    """The places a step names itself (not those of nested steps)."""
    if isinstance(step, (KernelStep, LibraryStep, TfOpStep)):
        return (*step.inputs, *step.outputs)
    if isinstance(step, CopyStep):
        return (step.source, step.target)
    if isinstance(step, BranchStep):
        return (step.selector,)
    return (step.flag,) if isinstance(step, LoopStep) else (step.source,)
