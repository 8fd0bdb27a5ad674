"""Listings say of each line which HLO instruction it was made for; what is compiled and compared says it nowhere."""

from __future__ import annotations

import re

import pytest

from tests.backends.test_seam import fusions
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, gpu
from tfxla_cluster.backends.backend import Backend
from tfxla_cluster.codegen.kernel import text as kernel_text
from tfxla_cluster.codegen.kernel.makers import with_makers
from tfxla_cluster.codegen.llvm.emitter import emit
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text
from tfxla_cluster.kernel_table import share_kernels
from tfxla_cluster.target import Target

ROWS = """HloModule rows
sum { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }
ENTRY e { x = f32[8,100] parameter(0)
  y = f32[8,100] parameter(1)
  product = f32[8,100] multiply(x, y)
  grown = f32[8,100] exponential(product)
  zero = f32[] constant(0)
  ROOT total = f32[8] reduce(grown, zero), dimensions={1}, to_apply=sum }
"""
MADE = {"product": "multiply", "grown": "exponential", "total": "add"}


def kernel_of(backend: Backend, source: str = ROWS):
    fused = fuse(text.parse(source), backend.machine, lambda record: None)
    (fusion,) = fusions(fused)
    units = {fusion: backend.lower(fusion)}
    (one,) = compiler.sources(fused, units, share_kernels(units))
    return one.kernel


def makers(listed: str, comment: str) -> dict[str, str]:
    """Instruction -> the first line made for it."""
    found: dict[str, str] = {}
    for line in listed.split("\n"):
        if match := re.search(rf"  {comment} %([\w.]+)$", line):
            found.setdefault(match[1], line)
    return found


def test_kernel_ir_says_what_lines_are_for() -> None:
    kernel = kernel_of(cpu.this_machine())
    found = makers(kernel_text.render(kernel), "//")
    assert {name: re.search(r"= (\w+) ", found[name])[1] for name in MADE} == MADE
    assert " = in0[" in "".join(line for line in kernel_text.render(kernel).split("\n") if "param_0" in line)


def test_kernels_are_the_same_whatever_they_are_for() -> None:
    renamed = ROWS.replace("product", "other").replace("grown", "larger")
    first, second = (kernel_of(cpu.this_machine(), source) for source in (ROWS, renamed))
    assert kernel_text.body_lines(first) == kernel_text.body_lines(second)
    target = Target("cpu", "generic", vector_bits=256)
    assert emit(first, target, "f").function == emit(second, target, "f").function
    assert emit(first, target, "f").listed != emit(second, target, "f").listed
    sources = [render(kernel_of(gpu.described(), source)) for source in (ROWS, renamed)]
    assert sources[0] == sources[1]
    assert sources[0].listed != sources[1].listed


@pytest.mark.parametrize("bits", [256, 512])
def test_llvm_says_what_lines_are_for(bits: int) -> None:
    written = emit(kernel_of(cpu.this_machine()), Target("cpu", "generic", vector_bits=bits), "f")
    found = makers(written.listed, ";")
    assert "fmul" in found["product"]
    assert "fadd" in found["total"]
    assert "grown" in found
    assert not makers(written.function, ";")
    assert re.sub(r"  ; %[\w.]+$", "", written.listed, flags=re.MULTILINE) == written.function


def test_triton_says_what_lines_are_for() -> None:
    written = render(kernel_of(gpu.described()))
    found = makers(written.listed, "#")
    assert " * " in found["product"]
    assert "exp(" in found["grown"]
    assert not makers(written.text, "#")


@pytest.mark.parametrize(
    ("line", "comment", "wanted"),
    [
        ("  %v3 = fadd float %v1, %v2", ";", "c"),
        ("  store float %v1, ptr %v2, align 4", ";", "a"),
        ("  br i1 %v1, label %x", ";", ""),
        ("  %v9 = fadd float %v1, %v2", ";", ""),
        ("    tl.store(in0 + v2, v1, mask=v3)", "#", "a"),
    ],
)
def test_a_line_is_for_what_it_defines_or_stores(line: str, comment: str, wanted: str) -> None:
    names = {"%v1": "a", "%v2": "b", "%v3": "c"} if comment == ";" else {"v1": "a", "v2": "b", "v3": "c"}
    assert with_makers(line, names, comment) == (f"{line}  {comment} %{wanted}" if wanted else line)
