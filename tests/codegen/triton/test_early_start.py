"""Kernels that may start before the one before them ends wait for that before they touch memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.codegen.triton.product_cases import product
from tests.codegen.triton.test_attention import MASK, Attention
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.ir import text
from tfxla_cluster.options import DEFAULT, DumpOptions
from tfxla_cluster.runtime.plan import KernelStep, walk

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
LARGE = Attention(queries=512, keys=512, depth=64, width=64, dtype="bf16", score=MASK, extra={"mask": "f32[$B,$M]"})
SORT = """HloModule sorted
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { x = f32[3,5000] parameter(0)
  s = f32[3,5000] sort(x), dimensions={1}, to_apply=less
  t = f32[3,5000] exponential(s)
  n = f32[3,5000] negate(x)
  ROOT r = f32[3,5000] add(t, n) }
"""
MODULES = {"attention": LARGE.text, "product": product("bf16", 1024, 1024, 1024), "sort": SORT}
# What reads or writes memory that other kernels see, descriptors of tensors too.
MEMORY = re.compile(r"\b(ld|st|atom|red|cp|prefetch|tensormap|fence)\.(?!param|shared)")
WAIT, NEXT_MAY_COME = "griddepcontrol.wait ;", "griddepcontrol.launch_dependents ;"


def made(source: str, arch: str, path: Path) -> tuple[list[str], list[dict[str, int]]]:
    """The bodies of a module's kernels in PTX, and the parameters of their launches."""
    dump = Sink(DumpOptions(str(path))).module("m")
    plan = compiler.compile_module(text.parse(source), gpu.described(arch), DEFAULT, dump).plan
    (ptx,) = path.glob("*.ptx")
    bodies = re.split(r"^\.visible \.entry|^\s*\.entry", ptx.read_text(), flags=re.M)[1:]
    return bodies, [dict(step.params) for step in walk(plan.steps) if isinstance(step, KernelStep)]


@pytest.mark.parametrize("name", MODULES)
def test_every_program_waits_before_it_touches_memory(name: str, tmp_path: Path) -> None:
    bodies, launches = made(MODULES[name], "sm_90", tmp_path)
    assert all(params["launch_pdl"] == 1 for params in launches)
    assert bodies
    for body in bodies:
        before, wait, after = body.partition(WAIT)
        assert wait
        assert not re.search(r"\bbra\b", before)
        assert not MEMORY.search(before)
        assert MEMORY.search(after)
        assert NEXT_MAY_COME in after


def test_older_gpus_start_kernels_in_turn(tmp_path: Path) -> None:
    bodies, launches = made(SORT, "sm_80", tmp_path)
    assert bodies
    assert not any("griddepcontrol" in body for body in bodies)
    assert not any("launch_pdl" in params for params in launches)
