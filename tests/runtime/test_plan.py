"""The plan as data: what its steps run, and how many of them are native kernels."""

from __future__ import annotations

from dataclasses import replace

from tfxla_cluster.ir.text import parse
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.plan import (
    CopyStep,
    KernelCount,
    KernelStep,
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
