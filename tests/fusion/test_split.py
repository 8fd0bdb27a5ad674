"""Fusions that cannot be one kernel come apart, and the module still runs and computes the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.close import assert_near
from tests.codegen.lower import programs
from tests.fusion import run_module
from tests.fusion.test_planner import MACHINE, ROWS, arguments, as_entry, module_of
from tests.fuzz.modules import program
from tests.fuzz.test_fuzz import run as run_fuzzed
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.dump.sink import NOWHERE, ModuleDump
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.fusion.split import split
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr, Module

SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def fusions(module: Module) -> list[Instr]:
    return [i for comp in module.computations() for i in comp.instrs if i.opcode == "fusion"]


def check_splits(module: Module, args: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Everything split again and again: valid and right at each step, and in the end no fusion is left."""
    largest = [len(i.attrs["calls"].instrs) for i in fusions(module)]
    for _ in range(len(module.entry.instrs) + sum(largest)):
        found = fusions(module)
        if not found:
            return
        module = split(module, found)
        verifier.verify(module)
        oracle.parse(text.render(module))
        for got, expected in zip(run_module.run(module, args), want, strict=True):
            assert_near(np.asarray(got).reshape(expected.shape), expected, 1e-5)
    raise AssertionError(f"still fused:\n{text.render(module)}")


@pytest.mark.parametrize("name", ROWS)
def test_down_to_instructions(name: str) -> None:
    source = module_of(ROWS[name][0])
    module = fuse(text.parse(source), MACHINE, lambda r: None)
    args = arguments(module)
    check_splits(module, args, oracle.run(source, args))


@given(st.randoms(use_true_random=False), st.booleans())
@SETTINGS
def test_random_programs(rng: random.Random, rows: bool) -> None:
    source, args = programs.row_program(rng) if rows else programs.loop_program(rng)
    parsed = text.parse(as_entry(source))
    check_splits(fuse(parsed, MACHINE, lambda r: None), args, evaluate(parsed, args))


def compiled(source: str, args: list[np.ndarray], dump: ModuleDump = NOWHERE) -> list[np.ndarray]:
    return compiler.compile_module(text.parse(source), cpu.this_machine(), dump=dump).executable.run(args)


def test_a_reduce_of_one_number() -> None:
    """Nothing is read at the index of the row, so nothing said where its loops must end."""
    made = program(701272)
    for got, want in zip(run_fuzzed(made, True), evaluate(made.module, made.args), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_result_beside_a_contraction_that_does_not_need_it() -> None:
    """As second derivatives leave it: an addend of the product is an output of its own."""
    source = module_of("""
      x = f32[64,32] parameter(0)
      w = f32[32,48] parameter(1)
      p = f32[64,48] parameter(2)
      e = f32[64,48] exponential(p)
      d = f32[64,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      s = f32[64,48] add(d, e)
      ROOT r = (f32[64,48], f32[64,48]) tuple(e, s)""")
    args = arguments(text.parse(source))
    for got, want in zip(compiled(source, args), oracle.run(source, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6)


FOREIGN = """HloModule m

most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}

fused {
  p = f32[9] parameter(0)
  low = f32[] constant(-inf)
  y = f32[9] negate(p)
  w = f32[8] reduce-window(y, low), window={size=2}, to_apply=most
  ROOT z = f32[8] add(w, w)
}

ENTRY e {
  x = f32[9] parameter(0)
  ROOT f = f32[8] fusion(x), kind=kLoop, calls=fused
}
"""


def test_a_fusion_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What XLA fuses and this package does not: each part is a kernel, and the decision is recorded."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(compiler.trace, "wants", lambda kind: kind == "fusion")
    monkeypatch.setattr(compiler.trace, "record", lambda kind, **fields: said.append({"kind": kind, **fields}))
    x = np.array([1, -2, np.nan, 3, -0.0, 0, np.inf, -np.inf, 5], np.float32)
    for got, want in zip(compiled(FOREIGN, [x]), evaluate(text.parse(FOREIGN), [x]), strict=True):
        np.testing.assert_array_equal(got, want)
    splits = [r for r in said if r["kind"] == "fusion" and r["rule"] == "split"]
    assert splits
    assert all(r["a"] and r["reason"] and not r["ok"] for r in splits)


def test_an_opcode_without_a_kernel_refuses_by_its_name() -> None:
    source = FOREIGN.replace("y = f32[9] negate(p)", 'y = f32[9] custom-call(p), custom_call_target="Unheard"')
    with pytest.raises(UnsupportedError, match="Unheard"):
        compiled(source, [])
