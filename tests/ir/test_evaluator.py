"""The evaluator against XLA, over the table of all opcodes."""

from __future__ import annotations

import pytest

from tests import oracle
from tests.hlo_cases import CASES, Case, assert_close
from tfxla_cluster.ir import evaluator, text, verifier


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evaluator_agrees_with_xla(case: Case) -> None:
    module = text.parse(case.text, case.name)
    verifier.verify(module)
    args = case.args()
    want = oracle.run(case.text, args)
    got = evaluator.evaluate(module, args)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert_close(g, w, case.ulps, case.name)
