"""What lowering makes of one scheduled instruction: kernels over its operands, results and temporaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from ...ir.dim import Dim
from ...ir.guard import Guard
from .code import Params
from .ir import Kernel


@dataclass(frozen=True, slots=True)
class UnitRef:
    """kind 'operand', 'result' or 'temp'; `index` counts the instruction's flattened operand arrays,
    its flattened result arrays, or the unit's temporaries."""

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class UnitKernel:
    """One kernel; `inputs[i]` is what its i-th 'in' buffer reads, `outputs[i]` what its i-th 'out' is."""

    kernel: Kernel
    inputs: tuple[UnitRef, ...]
    outputs: tuple[UnitRef, ...]


@dataclass(frozen=True, slots=True)
class UnitLibrary:
    """One call of a library's `routine`, by the numbers `params` and `sizes`, in `tasks` of the `cost` that a kernel's
    have; it writes all of `outputs`, but for those that an earlier step of the unit wrote. `data`: bytes that it gets
    as an input behind the others."""

    routine: str
    inputs: tuple[UnitRef, ...]
    outputs: tuple[UnitRef, ...]
    params: Params = ()
    sizes: tuple[Dim, ...] = ()
    tasks: Dim = 1
    cost: Dim = 1
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class UnitCopy:
    """Copy a whole buffer of `bytes` bytes."""

    source: UnitRef
    target: UnitRef
    bytes: Dim


@dataclass(frozen=True, slots=True)
class Unit:
    """`steps` run in order. `temps`: bytes of each temporary. `inplace`: pairs (result, operand): when
    the steps begin the result's buffer holds that operand's data (the buffer assigner shares the
    buffer where the operand dies here, and copies otherwise). `guards`: sizes, by name, that the kernels hold for."""

    steps: tuple[Union[UnitKernel, UnitLibrary, UnitCopy], ...]
    temps: tuple[Dim, ...] = ()
    inplace: tuple[tuple[int, int], ...] = ()
    guards: tuple[Guard, ...] = ()
