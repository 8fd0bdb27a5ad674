"""Every case of the table of HLO modules through the whole compiler, fused and not, against the evaluator."""

from __future__ import annotations

import pytest

from tests.hlo_case import Case, assert_close
from tests.hlo_cases import CASES
from tests.hlo_linear import expanded, linear
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.cpu.executable import Executable


def compiled(module: Module, fusion: bool) -> Executable:
    return compiler.compile_module(module, cpu.this_machine(), CompileOptions(fusion=fusion)).executable


@pytest.mark.parametrize("case", [*CASES, *linear(), *expanded()], ids=lambda case: case.name)
def test_case(case: Case) -> None:
    module, args = text.parse(case.text), case.args()
    want = evaluate(module, args)
    for fusion in (True, False):
        got = compiled(module, fusion).run(args)
        assert len(got) == len(want)
        if "rng" not in [i.opcode for i in module.entry.instrs]:  # tests/runtime/test_random_state.py
            for one, other in zip(got, want):
                assert_close(one, other, case.ulps, case.name)
