"""Planted faults are found: which pass, which kernel, which instruction."""

from __future__ import annotations

import numpy as np
import pytest

from tests.replay import planted
from tests.replay.modules import chain
from tfxla_cluster.codegen.llvm.math import FLOAT_FUNCTIONS
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import MEANINGS
from tfxla_cluster.ir.node import Module
from tfxla_cluster.passes import pipelines
from tfxla_cluster.replay import arrays, locate, trials
from tfxla_cluster.replay.surgery import Program

SUBTRACT, DIVIDE = "subtract(a{p}, y)", "divide(x, a{p})"


def program(module: Module) -> Program:
    return Program(module, tuple(arrays.inputs(module, (), 0)))


@pytest.fixture
def plant(here: None, monkeypatch: pytest.MonkeyPatch) -> object:
    """Plants a fault in this process."""
    monkeypatch.setattr(pipelines, "optimize", pipelines.optimize)
    monkeypatch.setitem(FLOAT_FUNCTIONS, "subtract", FLOAT_FUNCTIONS["subtract"])
    return planted.plant


def found(module: Module, reference: str = "evaluator", **more: object) -> tuple[locate.Finding | None, list[str]]:
    said: list[str] = []
    one = program(module)
    with trials.Trials(**more) as running:
        search = locate.Search(running, said.append, reference=reference)
        outcome = search.whole(one)
        return (search.find(one, outcome) if outcome.failed else None), said


def test_a_right_module_has_no_fault(here: None) -> None:
    assert found(chain(12, SUBTRACT, 5))[0] is None


def test_a_wrong_pass(plant: object) -> None:
    plant("pass")
    finding, said = found(chain(12, DIVIDE, 5))
    assert finding is not None
    assert (finding.kind, finding.name) == (locate.PASS, "sort-simplifier")
    assert "wrong numbers in output 0, 1" in finding.words()
    assert len(said) < 9  # halves, not one after the other


@pytest.mark.parametrize("fault", ["kernel", "message"])
def test_a_wrong_kernel(fault: str, plant: object) -> None:
    plant(fault)
    finding, _ = found(chain(30, SUBTRACT, 13))
    assert finding is not None
    assert finding.kind == locate.KERNEL
    assert any("subtract(" in line for line in finding.lines), finding.lines
    assert "of its instructions this one by itself fails:" in finding.lines


LOOP = """HloModule loop
body {
  s = (s32[], f32[7], f32[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[7] get-tuple-element(s), index=1
  y = f32[7] get-tuple-element(s), index=2
  d = f32[7] subtract(x, y), metadata={op_type="Sub" op_name="model/sub" source_file="train.py" source_line=12}
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[7], f32[7]) tuple(n, d, y)
}
cond {
  s = (s32[], f32[7], f32[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(i, k), direction=LT
}
ENTRY e {
  x = f32[7] parameter(0)
  y = f32[7] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[7], f32[7]) tuple(zero, x, y)
  w = (s32[], f32[7], f32[7]) while(s), condition=cond, body=body
  ROOT r = f32[7] get-tuple-element(w), index=1
}
"""


def test_inside_a_loop_with_the_users_line(plant: object) -> None:
    plant("kernel")
    finding, _ = found(text.parse(LOOP))
    assert finding is not None
    assert finding.kind == locate.KERNEL
    assert "subtract(" in "".join(finding.lines)
    assert "from model/sub, train.py:12" in finding.lines


def test_a_crash_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "crash")
    finding, _ = found(chain(3, SUBTRACT, 1), program=planted.PROGRAM)
    assert finding is not None
    assert (finding.kind, finding.outcome.detail) == (locate.KERNEL, "SIGSEGV")
    assert "subtract(" in "".join(finding.lines)


def test_forms_of_one_module(here: None) -> None:
    forms = [(f"{n}", chain(8, "subtract(x, y)" if n < 5 else "subtract(y, x)", 3)) for n in range(9)]
    inputs = program(forms[0][1]).inputs
    with trials.Trials() as running:
        search = locate.Search(running, lambda line: None)
        first = locate.differing(forms, inputs, search)
        assert first is not None
        assert first[0] == "5"
        assert first[1].worst > 1e-3
        assert locate.differing(forms[:5], inputs, search) is None


@pytest.mark.usefixtures("here")
def test_a_meaning_that_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEANINGS, "cosine", lambda ev, instr, args: np.sin(args[0]))
    module = chain(8, "cosine(a{p})", 3)
    with trials.Trials() as running:
        search = locate.Search(running, lambda line: None, "evaluator", "xla")
        one = program(module)
        finding = search.find(one, search.whole(one))
    assert finding.kind == locate.MEANING
    assert "cosine(" in finding.lines[0]
