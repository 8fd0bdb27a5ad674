"""What a stage makes is in the dump before the next one starts: also where the next one ends the process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.codegen.llvm import elf, object_code
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.ir.text import parse
from tfxla_cluster.options import DumpOptions

# Kernels generated carefully (a loop runs them), quickly (little work), and one that calls a large shared function.
MODULE = """HloModule m
step { p = (s32[], f32[300]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[300] get-tuple-element(p), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[300] tanh(x)
  ROOT t = (s32[], f32[300]) tuple(n, y) }
more { p = (s32[], f32[300]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  most = s32[] constant(3)
  ROOT less = pred[] compare(i, most), direction=LT }
ENTRY e { x = f32[300] parameter(0)
  y = f32[64,64] parameter(1)
  z = f32[] parameter(2)
  b = f32[] sine(z)
  zero = s32[] constant(0)
  s = f32[300] negate(x)
  state = (s32[], f32[300]) tuple(zero, s)
  w = (s32[], f32[300]) while(state), condition=more, body=step
  r = f32[300] get-tuple-element(w), index=1
  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[300], f32[64,64], f32[]) tuple(r, d, b) }
"""
DIES = """
import os, sys
from tests.dump.test_stage_order import MODULE
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.codegen.llvm import object_code
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.ir.text import parse
from tfxla_cluster.options import DumpOptions
setattr(object_code, sys.argv[2], lambda *args: os._exit(9))
compiler.compile_module(parse(MODULE), cpu.this_machine(), dump=Sink(DumpOptions(sys.argv[1])).module("m"))
"""
BEFORE_KERNELS = {
    "before_optimizations.txt",
    "before_optimizations.hlo.pb",
    "cpu_after_optimizations.txt",
    "cpu_after_optimizations.hlo.pb",
    "fusion_decisions.json",
    "kernels.json",
    "kernel_ir.txt",
}


@pytest.mark.parametrize(
    ("dies", "written"),
    [("emit", BEFORE_KERNELS), ("_emit", BEFORE_KERNELS | {"ir-no-opt.ll", "ir-with-opt.ll"})],
    ids=["writing LLVM IR", "LLVM's code generator"],
)
def test_a_code_generator_that_dies(tmp_path: Path, dies: str, written: set[str]) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(tmp_path), dies], cwd=root, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 9, done.stderr.decode()[-1500:]
    found = {p.name.removeprefix("module_0000.m.") for p in tmp_path.iterdir() if not p.name.startswith(".")}
    assert found == written
    assert all(p.stat().st_size for p in tmp_path.glob("module_*"))


def test_what_is_listed_is_what_was_compiled(tmp_path: Path) -> None:
    """Each module of ir-with-opt.ll gives one of the object files that were loaded, and there are no others."""
    backend = cpu.this_machine()
    made = compiler.compile_module(parse(MODULE), backend, dump=Sink(DumpOptions(str(tmp_path))).module("m"))
    text = (tmp_path / "module_0000.m.ir-with-opt.ll").read_text()
    modules = re.split(r"^; ==== module .* at code generation level (\d) ====$", text, flags=re.MULTILINE)[1:]
    listed = [
        object_code.assemble(body, backend.target, int(level))
        for level, body in zip(modules[::2], modules[1::2], strict=True)
    ]
    assert len(listed) == 3
    assert set(modules[::2]) == {"0", "2"}
    assert sections(listed) == sections(made.code.objects)


def sections(objects: Iterable[bytes]) -> list[str]:
    return sorted(repr(elf.read(data).sections) for data in objects)
