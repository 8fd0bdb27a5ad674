"""Every case of the table of HLO modules, and random modules, by GPU kernels in Triton's interpreter."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.codegen.triton import gpu_module
from tests.fuzz.draft import Draft
from tests.fuzz.modules import Program, finish
from tests.fuzz.steps import NAMES, STEPS
from tests.fuzz.test_fuzz import check
from tests.hlo_case import Case, assert_close
from tests.hlo_cases import CASES
from tests.hlo_linear import linear
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate

pytestmark = pytest.mark.skipif(not workers.installed(), reason="Triton is not installed")
ALL = [*CASES, *linear()]
# Cases that are refused, by the first word of the reason: an opcode with no kernel, or a type with no form.
REFUSED = {
    "triangular-solve": 36,
    "c64": 23,
    "cholesky": 18,
    "convolution": 9,
    "dot": 8,
    "c128": 8,
    "fft": 4,
    "f8e5m2": 2,
    "f8e4m3fn": 2,
    "f8e4m3b11fnuz": 2,
    "f8e5m2fnuz": 2,
    "f8e4m3fnuz": 2,
    "f8e4m3": 2,
    "f8e3m4": 2,
    "sort": 2,
}
NOT_YET = ("dot", "convolution", "sort")
FUZZ = 40


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    module, args = text.parse(case.text), case.args()
    want = evaluate(module, args)
    for fusion in (True, False):
        try:
            got = gpu_module.run(module, args, fusion)
        except UnsupportedError as error:
            if error.message.split()[0] in REFUSED:
                return
            raise
        assert len(got) == len(want)
        for one, other in zip(got, want):
            assert_close(one, other, case.ulps, case.name)


def test_what_is_refused() -> None:
    """A number that shrinks is progress: write it down. One that grows is a loss."""
    found: Counter[str] = Counter()
    for case in ALL:
        try:
            gpu_module.compiled(text.parse(case.text))
        except UnsupportedError as error:
            found[error.message.split()[0]] += 1
    assert found == REFUSED


def drawn(seed: int) -> Program:
    """A random module of opcodes that have GPU kernels."""
    draft = Draft(random.Random(seed))
    names = [n for n in NAMES if n not in NOT_YET]
    for _ in range(draft.rng.randint(1, 4)):
        draft.parameter(draft.kind(), draft.shape())
    for _ in range(draft.rng.choice((3, 6, 10, 16))):
        STEPS[draft.rng.choice(names)](draft)
    return finish(draft, f"fuzz_{seed}")


@pytest.mark.parametrize("seed", range(FUZZ))
def test_program(seed: int) -> None:
    made = drawn(seed)
    want = evaluate(made.module, made.args)
    try:
        for fusion in (True, False):
            check(gpu_module.run(made.module, made.args, fusion), want, made, f"fusion {fusion}")
    except Exception:
        print(text.render(made.module))
        raise
