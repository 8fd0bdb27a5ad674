"""The GPU backend: what it generates with no GPU, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.test_seam import fusions, opcodes_in
from tfxla_cluster import compiler, cross_compile
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends.gpu_support import triton_form
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import sample
from tfxla_cluster.kernel_table import share_kernels
from tfxla_cluster.options import DEFAULT, DumpOptions
from tfxla_cluster.runtime.plan import KernelStep, walk

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
# A row of 700 numbers minus its maximum, whose exponentials are summed: one kernel, the row in registers.
ROWS = """HloModule rows
larger { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b) }
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[64,700] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[64] reduce(x, low), dimensions={1}, to_apply=larger
  tops = f32[64,700] broadcast(top), dimensions={0}
  less = f32[64,700] subtract(x, tops)
  power = f32[64,700] exponential(less)
  total = f32[64] reduce(power, zero), dimensions={1}, to_apply=plus
  totals = f32[64,700] broadcast(total), dimensions={0}
  ROOT r = f32[64,700] divide(power, totals) }
"""


COLUMNS = """HloModule columns
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[200,$N] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[$N] reduce(x, zero), dimensions={0}, to_apply=plus }
"""


def test_softmax_is_one_kernel_that_reads_its_rows_once() -> None:
    made = compiler.compile_module(text.parse(ROWS), gpu.described())
    (step,) = [s for s in walk(made.plan.steps) if isinstance(s, KernelStep)]
    # A row of 1024 lanes a program, which is a warp.
    assert (sample(step.tasks), dict(step.params)["num_warps"], step.scratch_bytes) == (64, 1, 0)
    assert made.code.objects[0][:4] == b"\x7fELF"
    with pytest.raises(UnsupportedError, match="not the machine"):
        made.executable.run([])


@pytest.mark.parametrize(("columns", "programs", "warps"), [(256, 32, 16), (1000, 125, 16), (8192, 512, 4)])
def test_sums_of_few_columns_are_spread_out(columns: int, programs: int, warps: int) -> None:
    """In blocks of eight columns, of many warps each; with enough columns blocks are wider."""
    made = compiler.compile_module(text.parse(COLUMNS.replace("$N", str(columns))), gpu.described())
    (step,) = [s for s in walk(made.plan.steps) if isinstance(s, KernelStep)]
    assert (sample(step.tasks), dict(step.params)["num_warps"]) == (programs, warps)


def test_each_language_is_listed_before_the_plan() -> None:
    listed: dict[str, str] = {}
    backend = gpu.described("sm_80")
    fused = fuse(text.parse(ROWS), backend.machine, lambda record: None)
    (fusion,) = fusions(fused)
    units = {fusion: backend.lower(fusion)}
    sources = compiler.sources(fused, units, share_kernels(units))
    backend.compile(sources, DEFAULT, lambda language, parts: listed.update({language: parts[0][1]}))
    assert list(listed) == ["triton.py", "ttir", "ttgir", "ptx"]
    assert listed["triton.py"].count("tl.load(") == 1
    assert ".target sm_80" in listed["ptx"]


# A chain of which one instruction has no Triton form.
NARROW = """HloModule mixed
ENTRY e { x = f32[7,5] parameter(0)
  a = f32[7,5] add(x, x)
  b = f32[7,5] multiply(a, x)
  c = f8e5m2[7,5] convert(b)
  d = f8e5m2[7,5] reduce-precision(c), exponent_bits=5, mantissa_bits=1
  r = f32[7,5] convert(d)
  m = f32[7,5] maximum(r, a)
  ROOT n = f32[7,5] subtract(m, x) }
"""


def test_refused_before_grouping() -> None:
    module = text.parse(NARROW)
    asked = [i for i in module.entry.instrs if i.opcode != "parameter"]
    refused = {i.name: triton_form(i).rule for i in asked if not triton_form(i)}
    assert refused == {"d": "triton-form"}
    fused = fuse(module, gpu.described().machine, lambda record: None)
    assert "reduce-precision" not in opcodes_in(fusions(fused))


def test_a_dump_for_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    """Of a module with an instruction that has no kernel: the other kernels, and why there is no plan."""
    dump = Sink(DumpOptions(str(tmp_path))).module("mixed")
    cross_compile.write(text.parse(NARROW), gpu.described(), DEFAULT, dump)
    suffixes = {p.name.removeprefix("module_0000.mixed.") for p in tmp_path.iterdir()}
    assert suffixes >= {"kernels.json", "kernel_ir.txt", "triton.py", "ttir", "ttgir", "ptx", "fusion_decisions.json"}
    assert "sm_9.0_gpu_after_optimizations.txt" in suffixes
    assert "launch_plan.json" not in suffixes
    kernels = json.loads((tmp_path / "module_0000.mixed.kernels.json").read_text())
    assert {f"{k['symbol']}.cubin" for k in kernels} == {s for s in suffixes if s.endswith(".cubin")}
    decisions = json.loads((tmp_path / "module_0000.mixed.fusion_decisions.json").read_text())
    assert {"d"} == {d["a"] for d in decisions if d["rule"] == "no-kernel"}
