"""The kernel-IR interpreter: every kernel of the case table and of random modules, and what it must notice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen import run_kernel, run_unit
from tests.fuzz.modules import program
from tests.hlo_case import Case, assert_close
from tests.hlo_cases import CASES
from tests.hlo_linear import expanded, linear
from tfxla_cluster.backends.cpu import Cpu
from tfxla_cluster.codegen.kernel import interpreter
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.ir import Product
from tfxla_cluster.errors import InternalError
from tfxla_cluster.fusion import planner
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import DTYPES, F32, PRED, S32, S64, DType
from tfxla_cluster.ir.evaluator import MEANINGS, Evaluator
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.passes import pipeline, pipelines
from tfxla_cluster.runtime.plan_builder import unit_instructions


class UnitChecker(Evaluator):
    """Evaluates a module; every instruction that has kernels runs them too, and must agree."""

    def __init__(self, module: Module, ulps: int) -> None:
        super().__init__(MEANINGS)
        # Constants are the plan's; `rng` draws other numbers than the evaluator.
        self.units = {i for i in unit_instructions(module) if i.opcode not in ("constant", "rng")}
        self.ulps, self.checked = ulps, 0

    def step(self, instr: Instr, operands: list[Any]) -> Any:
        want = super().step(instr, operands)
        if instr in self.units:
            arrays = [np.asarray(a) for o in operands for a in flat(o)]
            with np.errstate(all="warn"):
                got = run_unit.run(instr, arrays, self.env, run_kernel.interpreted)
            for one, other in zip(got, flat(want), strict=True):
                assert_close(one, other, self.ulps, instr.name)
            self.checked += 1
        return want


def flat(value: Any) -> list[Any]:
    return [a for v in value for a in flat(v)] if isinstance(value, tuple) else [value]


def check(module: Module, args: list[np.ndarray], ulps: int) -> None:
    """The module's kernels, fused and not, agree with the evaluator."""
    target = run_kernel.host_target()
    optimised = pipeline.run(module, "optimize", pipelines.optimize(target))
    for each in (optimised, planner.fuse(optimised, Cpu(target).machine, lambda decision: None)):
        checker = UnitChecker(each, ulps)
        checker.run(each.entry, args)
        assert checker.checked or not checker.units


@pytest.mark.parametrize("case", [*CASES, *linear(), *expanded()], ids=lambda case: case.name)
def test_kernels_of_cases(case: Case) -> None:
    module = text.parse(case.text)
    check(module, case.args(), case.ulps)


@pytest.mark.parametrize("number", range(6))
def test_kernels_of_random_modules(number: int) -> None:
    made = program(number)
    check(made.module, made.args, max(made.ulps))


# --- what it must notice ---
def interpret(b: KernelBuilder, inputs: list[Any], outputs: list[Any], tasks: int = 1) -> None:
    interpreter.run(b.finish(tasks), [np.asarray(x) for x in inputs], outputs, [], range(tasks))


@pytest.mark.parametrize("offset", [-1, 3, 2**40])
@pytest.mark.parametrize("kind", ["in", "out", "scratch"])
def test_access_outside_a_buffer(kind: str, offset: int) -> None:
    b = KernelBuilder("astray")
    buffers = {"in": b.input(F32), "out": b.output(F32), "scratch": b.scratch_buffer(F32, 3)}
    b.store(buffers["out"], b.index(0), b.load(buffers[kind], b.index(offset)))
    with pytest.raises(InternalError, match=rf"kernel astray, task 0, '%\d: f32 = {kind}0\[%\d\]': offset {offset} "):
        interpret(b, [np.zeros(3, np.float32)], [np.zeros(3, np.float32)])


def test_store_outside_a_buffer() -> None:
    b = KernelBuilder("astray")
    x, out = b.input(S32), b.output(S32)
    with b.loop(b.index(0), b.index(4), "vector") as i:
        b.store(out, i, b.load(x, i))
    with pytest.raises(InternalError, match=r"kernel astray, task 0, 'out0\[%\d\] = %\d': offset 3 is outside out0"):
        interpret(b, [np.arange(4, dtype=np.int32)], [np.zeros(3, np.int32)])


@pytest.mark.parametrize("lanes", ["serial", "vector"])
def test_masked_access_touches_nothing(lanes: str) -> None:
    b = KernelBuilder("masked")
    x, out = b.input(S32), b.output(S32)
    with b.loop(b.index(-2), b.index(6), lanes) as i:
        there = b.op("and", b.compare(i, b.index(0), "GE"), b.compare(i, b.index(3), "LT"))
        inside = b.op("and", there, b.compare(i, b.index(2), "LT"))
        b.store(out, i, b.load(x, i, inside, b.const(7, S32)), there)
    got = np.zeros(3, np.int32)
    interpret(b, [np.array([4, 5], np.int32)], [got])
    np.testing.assert_array_equal(got, [4, 5, 7])


def test_lanes_that_collide() -> None:
    b = KernelBuilder("collide")
    x, out = b.input(F32), b.output(F32)
    with b.loop(b.index(0), b.index(4), "vector") as i:
        b.store(out, b.op("minimum", i, b.index(2)), b.load(x, i))
    with pytest.raises(InternalError, match="two lanes store to one element of out0"):
        interpret(b, [np.zeros(4, np.float32)], [np.zeros(4, np.float32)])


def test_tasks_and_lanes_that_update_an_element() -> None:
    b = KernelBuilder("update")
    out = b.output(S64)
    with b.tile(b.index(0), b.index(4), 4) as i:
        b.update(out, b.op("minimum", i, b.index(1)), b.task, "add", b.compare(i, b.index(3), "LT"))
    got = np.zeros(2, np.int64)
    interpret(b, [], [got], tasks=4)
    np.testing.assert_array_equal(got, [6, 12])


@pytest.mark.parametrize("updates_first", [False, True])
@pytest.mark.parametrize("stores", [False, True])
def test_an_element_that_is_updated_and_accessed(updates_first: bool, stores: bool) -> None:
    b = KernelBuilder("mixed")
    out, other = b.output(S64), b.output(S64)

    def access() -> None:
        if stores:
            b.store(out, b.task, b.task)
        else:
            b.store(other, b.task, b.load(out, b.task))

    if not updates_first:
        access()
    b.update(out, b.task, b.task, "maximum")
    if updates_first:
        access()
    with pytest.raises(InternalError, match="element 0 of out0"):
        interpret(b, [], [np.zeros(2, np.int64), np.zeros(2, np.int64)], tasks=2)


@pytest.mark.parametrize("reads_first", [False, True])
def test_tasks_that_share_an_element(reads_first: bool) -> None:
    """Task t writes element t and reads element t + 1, or t - 1: the result depends on the order."""
    b = KernelBuilder("race")
    out = b.output(S64)
    near = b.op("minimum", b.op("add", b.task, b.index(1)), b.index(2))
    other = near if reads_first else b.op("maximum", b.op("subtract", b.task, b.index(1)), b.index(0))
    b.store(out, b.task, b.load(out, other))
    what = "read" if reads_first else "written"
    with pytest.raises(InternalError, match=f"task 1 accesses element . of out0, {what} by another task"):
        interpret(b, [], [np.arange(3)], 3)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_scratch_is_poisoned_for_each_task(dtype: DType) -> None:
    """What one task leaves there the next does not find."""
    b = KernelBuilder("stale")
    out, scratch = b.output(dtype), b.scratch_buffer(dtype, 2)
    b.store(out, b.task, b.load(scratch, b.index(1)))
    b.store(scratch, b.index(1), b.const(0, dtype))
    got = np.zeros(2, dtype.numpy)
    interpret(b, [], [got], 2)
    assert got[0].tobytes() == got[1].tobytes() != np.zeros(1, dtype.numpy).tobytes()


def product(accumulate: bool, major: str, packed: bool, room: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """What becomes of a product of 3 x 5 elements, in panels of 4 columns, and what must; depth 2."""
    rows, cols, depth, panel = 3, 5, 2, 4
    rng = np.random.default_rng(0)
    a, b_all = rng.integers(-3, 4, (rows, depth)), rng.integers(-3, 4, (depth, room))
    old = rng.integers(-3, 4, (rows, room)).astype(np.float32)
    b = KernelBuilder("product")
    left, right, out = b.input(F32), b.input(F32), b.output(F32)
    strides = [b.index(room), b.index(depth if major == "row" else rows), b.index(depth * panel if packed else room)]
    places = [v for buffer, stride in zip((out, left, right), strides) for v in (buffer, b.index(0), stride)]
    extents = [b.index(rows), b.index(cols), b.index(depth)]
    b.product(Product(*places, *extents, b.const(accumulate, PRED), major, packed, panel))
    panels = np.concatenate([b_all[:, at : at + panel].ravel() for at in range(0, room, panel)])
    inputs = [(a if major == "row" else a.T).astype(np.float32), (panels if packed else b_all).astype(np.float32)]
    want, got = old.copy(), old.copy()
    want[:, :cols] = (old[:, :cols] if accumulate else 0) + (a @ b_all)[:, :cols]
    interpret(b, [np.ascontiguousarray(x) for x in inputs], [got])
    return got, want


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("major", ["row", "depth"])
@pytest.mark.parametrize("packed", [False, True])
def test_product(accumulate: bool, major: str, packed: bool) -> None:
    """5 of 8 columns are written."""
    got, want = product(accumulate, major, packed)
    np.testing.assert_array_equal(got, want)


def test_packed_product_needs_room_for_whole_panels() -> None:
    with pytest.raises(InternalError, match=r"task 0, 'product out0.*is outside"):
        product(False, "row", True, room=7)
