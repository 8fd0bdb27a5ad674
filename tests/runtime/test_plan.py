"""The plan as data: what its steps run, and how many of them are native kernels."""

from __future__ import annotations

from dataclasses import replace

from tfxla_cluster.codegen.kernel.lower import lower
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.guard import Guard, divisible, in_range, residue
from tfxla_cluster.ir.shape import array
from tfxla_cluster.ir.text import parse
from tfxla_cluster.runtime import plan_builder, plan_json
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.plan import (
    CopyStep,
    KernelCount,
    KernelStep,
    Launch,
    LaunchPlan,
    LibraryStep,
    LoopStep,
    Ref,
    TfOpStep,
    count_kernels,
)

from .compile_text import plan_of

CALLED_TWICE = """HloModule m
twice { p = f32[8] parameter(0)
  ROOT s = f32[8] sine(p) }
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] call(x), to_apply=twice
  ROOT b = f32[8] call(a), to_apply=twice }
"""


def test_kernels_are_counted_where_they_run() -> None:
    """Steps that run code, each by where its code comes from; those of loops once, copies never."""
    step = KernelStep("k", (), (Ref("temp"),), (), 1)
    slow = replace(step, origin="evaluator")
    copy = CopyStep(Ref("input"), Ref("output"), 4)
    loop = LoopStep((step,), Ref("temp"), (slow, copy))
    random = LibraryStep("tfxla_random", (), (Ref("temp"),), (1,))
    plan = LaunchPlan("m", (), (), (), (step, loop, random, TfOpStep("Op", (), (), ())), (), 64)
    assert count_kernels(plan) == KernelCount(kernels=5, native=3)
    assert count_kernels(plan_json.loads(plan_json.dumps(plan))) == KernelCount(kernels=5, native=3)


def test_every_launch_of_a_shared_kernel_counts() -> None:
    """Two calls of one computation are two kernels of the plan, made of one piece of machine code."""
    planned, kernels = plan_of(parse(CALLED_TWICE))
    assert len(kernels) == 1
    assert count_kernels(planned.plan) == KernelCount(kernels=2, native=2)


def test_guards_of_shapes_passes_and_kernels_are_one_list() -> None:
    """Sizes that passes and kernels name are looked up in the inputs; each guard is there once, and survives JSON."""
    n, f32 = sym("n", 8, 0, None, 16, 8), DTYPES["f32"]
    b = Builder("m")
    x, y = b.parameter(array(f32, (n, 3))), b.parameter(array(f32, (3, n)))
    module = b.module(b.sine(x), b.cosine(y)).replace(guards=(in_range("n", 1, 64),))
    units = {i: lower(i, host.target()) for i in plan_builder.unit_instructions(module)}
    units = {i: replace(unit, guards=(divisible("n", 8),)) for i, unit in units.items()}
    kernels = [step.kernel for unit in units.values() for step in unit.steps if isinstance(step, UnitKernel)]
    plan = plan_builder.build(module, units, {kernel: Launch(f"k{k}") for k, kernel in enumerate(kernels)}).plan
    assert plan.guards == (
        Guard("rank", 0, 2),
        Guard("rank", 1, 2),
        Guard("equal", (0, 1), 3),
        Guard("equal", (1, 0), 3),
        in_range((0, 0), 1, 64),
        divisible((0, 0), 8),
        residue((0, 0), 16, 8),
        Guard("same", (1, 1), (0, 0)),
    )
    assert plan_json.loads(plan_json.dumps(plan)) == plan
