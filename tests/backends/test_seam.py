"""Two more backends behind the seam: the interpreter of kernel IR, and a double of Triton that refuses constructs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.backends.triton_double import double
from tests.fuzz.modules import program
from tests.fuzz.test_fuzz import check
from tests.hlo_case import Case, assert_close
from tests.hlo_cases import CASES
from tests.hlo_linear import linear
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, interpreter, registry
from tfxla_cluster.codegen.kernel import contraction
from tfxla_cluster.errors import UnsupportedError, UsageError
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime import plan_json, random_state
from tfxla_cluster.runtime.plan import (
    BranchStep,
    KernelStep,
    LibraryStep,
    LoopStep,
    Step,
    TfOpStep,
    count_kernels,
    walk,
)
from tfxla_cluster.runtime.stepwise import Stepwise

SAMPLE = [c for c in [*CASES, *linear()][::4] if " rng(" not in c.text]

# A chain of which the middle is complex, a dot, a loop and a branch.
MIXED = """HloModule mixed
step { p = (s32[], f32[7,5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[7,5] get-tuple-element(p), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[7,5] negate(x)
  z = f32[7,5] abs(y)
  ROOT t = (s32[], f32[7,5]) tuple(n, z) }
more { p = (s32[], f32[7,5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  most = s32[] constant(3)
  ROOT less = pred[] compare(i, most), direction=LT }
twice { p = f32[7,5] parameter(0)
  ROOT s = f32[7,5] add(p, p) }
square { p = f32[7,5] parameter(0)
  ROOT s = f32[7,5] multiply(p, p) }
ENTRY e { x = f32[7,5] parameter(0)
  w = f32[5,5] parameter(1)
  which = s32[] parameter(2)
  a = f32[7,5] add(x, x)
  b = f32[7,5] multiply(a, x)
  c = c64[7,5] complex(a, b)
  d = c64[7,5] multiply(c, c)
  r = f32[7,5] real(d)
  m = f32[7,5] maximum(r, a)
  n = f32[7,5] subtract(m, x)
  dot = f32[7,5] dot(n, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = s32[] constant(0)
  state = (s32[], f32[7,5]) tuple(zero, dot)
  looped = (s32[], f32[7,5]) while(state), condition=more, body=step
  l = f32[7,5] get-tuple-element(looped), index=1
  ROOT chosen = f32[7,5] conditional(which, l, l), branch_computations={twice, square} }
"""


PRODUCT = """HloModule product
ENTRY e { x = f32[301,301] parameter(0)
  y = f32[301,301] parameter(1)
  ROOT d = f32[301,301] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""
DRAWS = """HloModule draws
ENTRY e { low = s32[] constant(-1000)
  high = s32[] constant(1000)
  ROOT x = s32[9] rng(low, high), distribution=rng_uniform }
"""


def mixed_args(which: int) -> list[np.ndarray]:
    rng = np.random.default_rng(which + 1)
    x, w = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=(5, 5)).astype(np.float32)
    return [x, w, np.int32(which)]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_interpreted_case(case: Case) -> None:
    module, args = text.parse(case.text), case.args()
    made = compiler.compile_module(module, interpreter.this_machine())
    assert count_kernels(made.plan).native == sum(isinstance(s, LibraryStep) for s in walk(made.plan.steps))
    for got, want in zip(made.executable.run(args), evaluate(module, args), strict=True):
        assert_close(got, want, case.ulps, case.name)


def unmarked(step: Step) -> Step:
    """The step as the CPU's plan has it: apart from where its code comes from."""
    if isinstance(step, KernelStep):
        return replace(step, origin="generator", params=())
    if isinstance(step, LoopStep):
        return replace(step, condition=tuple(map(unmarked, step.condition)), body=tuple(map(unmarked, step.body)))
    if isinstance(step, BranchStep):
        return replace(step, branches=tuple(tuple(map(unmarked, b)) for b in step.branches))
    return step


@pytest.mark.parametrize("which", [-1, 0, 1, 5])
def test_one_plan_two_backends(which: int) -> None:
    """Machine code and interpreter run the same plan to the same bits of exact work."""
    module, args = text.parse(MIXED), mixed_args(which)
    native = compiler.compile_module(module, cpu.this_machine())
    plain = compiler.compile_module(module, interpreter.this_machine())
    assert tuple(map(unmarked, plain.plan.steps)) == native.plan.steps
    assert count_kernels(native.plan).native == count_kernels(native.plan).kernels > 0
    (want,) = evaluate(module, args)
    for made in (native, plain):
        (got,) = made.executable.run(args)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_random_numbers_without_machine_code() -> None:
    """A seed gives the same draws on both backends, and the second run other ones."""
    module = text.parse(DRAWS)
    draws = []
    for backend in (interpreter.this_machine(), cpu.this_machine()):
        run = compiler.compile_module(module, backend).executable.run
        random_state.seed(7)
        draws.append([run([])[0].tolist() for _ in range(2)])
    assert draws[0] == draws[1]
    assert draws[0][0] != draws[0][1]


def test_a_wrong_argument_is_told_by_the_plan() -> None:
    made = compiler.compile_module(text.parse(MIXED), interpreter.this_machine())
    with pytest.raises(UsageError, match="input 1 of mixed"):
        made.executable.run([mixed_args(0)[0], np.zeros((5, 4), np.float32), np.int32(0)])


def test_steps_that_cannot_run_are_refused_at_loading() -> None:
    made = compiler.compile_module(text.parse(MIXED), interpreter.this_machine())
    plan = replace(made.plan, steps=(*made.plan.steps, TfOpStep("CollectiveReduceV2", (), (), ())))
    with pytest.raises(UnsupportedError, match="CollectiveReduceV2"):
        Stepwise(plan, lambda *args: None)


def test_no_backend_of_that_name() -> None:
    with pytest.raises(UsageError, match="'tpu'"):
        registry.named("tpu")


def test_a_device_type_without_a_backend_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="type TPU"):
        registry.for_device("TPU")


def test_blocks_of_a_product_fit_the_cache_and_change_no_sum() -> None:
    """The blocks follow the size of L2; results are the same to the last bit."""
    here = cpu.this_machine().target
    sizes = [contraction.blocks(F32, replace(here, l2_bytes=size)) for size in (1 << 14, 1 << 18, 1 << 19, 1 << 24)]
    assert [found.rows for found in sizes] == [24, 96, 144, 144]
    assert len({found.depth for found in sizes}) == 1
    module = text.parse(PRODUCT)
    args = [np.random.default_rng(n).normal(size=(301, 301)).astype(np.float32) for n in range(2)]
    small, large = (
        compiler.compile_module(module, cpu.Cpu(replace(here, l2_bytes=size))).executable.run(args)[0]
        for size in (1 << 14, 1 << 24)
    )
    np.testing.assert_array_equal(small, large)


# --- constructs that fall out before fusion groups them ---
def fused_with_decisions(module: Module) -> tuple[Module, list[dict[str, Any]]]:
    decisions: list[dict[str, Any]] = []
    return fuse(module, double().machine, decisions.append), decisions


def fusions(module: Module) -> list[Instr]:
    return [i for comp in module.computations() for i in comp.instrs if i.opcode == "fusion"]


def opcodes_in(instrs: list[Instr]) -> set[str]:
    return {i.opcode for fusion in instrs for i in fusion.attrs["calls"].instrs}


def test_the_cpu_takes_the_whole_chain() -> None:
    taken = opcodes_in(fusions(fuse(text.parse(MIXED), cpu.this_machine().machine, lambda record: None)))
    assert taken >= {"complex", "real", "maximum", "add"}


def test_refused_before_grouping() -> None:
    module, decisions = fused_with_decisions(text.parse(MIXED))
    refused = {d["a"]: d for d in decisions if d["rule"] == "no-triton-form"}
    assert set(refused) == {"c", "d", "r", "dot"}
    assert all(not d["ok"] and d["b"] == "" and d["a"] in d["reason"] for d in refused.values())
    assert not opcodes_in(fusions(module)) & {"complex", "real", "dot"}
    assert opcodes_in(fusions(module)) >= {"add", "multiply", "maximum", "subtract"}
    kept = [d for d in decisions if d["ok"]]
    assert not {d[side] for d in kept for side in "ab"} & set(refused)


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_grouped_has_a_form_and_the_whole_is_right(which: int) -> None:
    module, args = text.parse(MIXED), mixed_args(which)
    made = compiler.compile_module(module, double())
    assert fusions(made.module)
    for fusion in fusions(made.module):
        assert all("@triton.jit" in source for source in double().texts(fusion))
    (got,), (want,) = made.executable.run(args), evaluate(module, args)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_launches_carry_what_their_launcher_needs() -> None:
    """Data of the plan: it goes to JSON and back."""
    plan = compiler.compile_module(text.parse(MIXED), double()).plan
    launches = [s for s in walk(plan.steps) if isinstance(s, KernelStep)]
    assert {s.params for s in launches} == {(("num_warps", 4),)}
    assert plan_json.loads(plan_json.dumps(plan)) == plan


@pytest.mark.parametrize("seed", range(6))
def test_drawn_programs_on_a_backend_that_refuses(seed: int) -> None:
    made = program(seed)
    compiled = compiler.compile_module(made.module, double(), CompileOptions())
    for fusion in fusions(compiled.module):
        assert double().texts(fusion)
    check(compiled.executable.run(made.args), evaluate(made.module, made.args), made, "interpreted")
