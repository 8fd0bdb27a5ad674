"""What a launch moves and computes, against kernels that are run with their accesses counted."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.hlo_cases import BY_NAME
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends import interpreter as interpreter_backend
from tfxla_cluster.codegen.kernel import interpreter
from tfxla_cluster.codegen.kernel.checked_memory import CheckedMemory
from tfxla_cluster.codegen.kernel.ir import Buffer, Kernel, TritonCall, Var
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.kernel.work import Work, _spread, work
from tfxla_cluster.dump.cost import flops_of
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import sample
from tfxla_cluster.ir.dtype import F32, S64
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.kernel_table import extents
from tfxla_cluster.runtime import plan_builder


def ignore(decision: Any) -> None:
    """Of a fusion."""


class CountingMemory(CheckedMemory):
    """Counts elements read and written."""

    seen: ClassVar[Counter[tuple[bool, str]]] = Counter()

    def read(self, offsets: Any, task: int) -> Any:
        self.seen[False, self.name] += offsets.size
        return super().read(offsets, task)

    def write(self, offsets: Any, values: Any, task: int) -> None:
        self.seen[True, self.name] += np.size(values) if offsets.size == 1 else offsets.size
        super().write(offsets, values, task)


def kernels_of(module: Module, machine: Any) -> list[tuple[Instr, Kernel, list[int], list[int]]]:
    """Each kernel with the bytes of its buffers; none of an instruction that the machine has none for."""
    found = []
    for instr in plan_builder.unit_instructions(module):
        try:
            unit = machine.lower(instr)
        except UnsupportedError:
            continue
        found += [(instr, s.kernel, *extents(s, instr, unit)) for s in unit.steps if isinstance(s, UnitKernel)]
    return found


def counted(kernel: Kernel, ins: list[int], outs: list[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes of each buffer that a run reads, and that it writes, at most all of it."""
    monkeypatch.setattr(interpreter, "CheckedMemory", CountingMemory)
    monkeypatch.setattr(CountingMemory, "seen", Counter())
    memory = [[np.zeros(n, np.uint8) for n in sizes] for sizes in (ins, outs)]
    interpreter.run(kernel, *memory, list(map(sample, kernel.sizes)), range(sample(kernel.tasks)))
    whole = {"in": ins, "out": outs}
    return sum(
        min(CountingMemory.seen[written, f"{b.role}{b.index}"] * b.dtype.itemsize, whole[b.role][b.index])
        for b in (*kernel.inputs, *kernel.outputs)
        for written in (False, True)
    )


def found(kernel: Kernel, ins: list[int], outs: list[int]) -> Work:
    return work(kernel, list(map(sample, kernel.sizes)), sample(kernel.tasks), ins, outs)


# Where masks hide accesses, bounds come of data, or iterations are too many to look at each.
ESTIMATED = ("pad", "sort-", "triangular-solve-", "scatter-", "select-and-scatter-")


@pytest.mark.parametrize("machine", [interpreter_backend.this_machine(), gpu.described("sm_90")], ids=["cpu", "gpu"])
def test_bytes_are_those_that_a_run_touches(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every kernel of the table of modules."""
    different, total = set(), 0
    for name, case in BY_NAME.items():
        for _, kernel, ins, outs in kernels_of(text.parse(case.text), machine):
            with contextlib.suppress(UnsupportedError):  # opcodes without a meaning
                ran, total = counted(kernel, ins, outs, monkeypatch), total + 1
                if found(kernel, ins, outs).bytes != ran and all(ins):
                    different.add(name)
    assert total > 700
    assert [name for name in different if not name.startswith(ESTIMATED)] == []


@pytest.mark.parametrize(
    "name", [n for n in BY_NAME if n.startswith(("binary", "dot", "reduce-add", "tanh", "exponential"))]
)
def test_operations_are_those_of_the_instruction(name: str) -> None:
    kernels = kernels_of(text.parse(BY_NAME[name].text), interpreter_backend.this_machine())
    counts: Counter[Instr] = Counter()
    for instr, kernel, ins, outs in kernels:
        counts[instr] += found(kernel, ins, outs).operations or 0
    for instr, operations in counts.items():
        if instr.opcode not in ("iota", "convert"):  # a conversion may be none
            assert flops_of(instr) <= operations <= 2 * flops_of(instr), instr.name  # conversions of narrow floats


MANY = """HloModule m
ENTRY e { a = f32[4000,4001] parameter(0)
  s = f32[1000,4001] slice(a), slice={[0:4000:4], [0:4001]}
  ROOT r = f32[1000,4001] tanh(s) }"""


@pytest.mark.parametrize("machine", [interpreter_backend.this_machine(), gpu.described("sm_90")], ids=["cpu", "gpu"])
def test_loops_of_many_iterations(machine: Any) -> None:
    """What a slice leaves out is not read, and the last block of a row is shorter than others."""
    module = fuse(text.parse(MANY), machine.machine, ignore)
    ((_, kernel, ins, outs),) = kernels_of(module, machine)
    counted = found(kernel, ins, outs)
    assert counted.bytes == pytest.approx(2 * 4 * 1000 * 4001, rel=0.03)
    assert counted.operations == pytest.approx(12 * 1000 * 4001, rel=0.03)


def test_a_kernel_that_is_not_read() -> None:
    a, b, c = (Buffer(role, n, F32) for role, n in (("in", 0), ("in", 1), ("out", 0)))
    call = TritonCall("f", "", (("x", a), ("y", c)), (1, 1), (), ())
    kernel = Kernel("k", (a, b), (c,), (), (), 1, Var(S64), (call,))
    assert work(kernel, [], 1, [100, 200], [400]) == Work(500, None)


@pytest.mark.parametrize(("many", "most"), [(0, 4), (3, 4), (4, 4), (5, 4), (1000, 7), (10**9, 64)])
def test_iterations_that_stand_for_all(many: int, most: int) -> None:
    taken = list(_spread(many, most))
    assert len(set(taken)) == len(taken) == min(many, most)
    assert all(
        number * many // most <= t < (number + 1) * many / most
        for number, t in enumerate(taken[: most * (many > most)])
    )
    assert all(0 <= t < many for t in taken)
