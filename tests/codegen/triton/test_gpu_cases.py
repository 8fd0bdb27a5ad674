"""Every case of the table of HLO modules, and random modules, by GPU kernels: in Triton's interpreter, and in that
of kernel IR, which checks every access."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.fuzz.draft import Draft
from tests.fuzz.modules import Program, finish
from tests.fuzz.steps import NAMES, STEPS
from tests.fuzz.test_fuzz import check
from tests.hlo_case import Case, assert_close
from tests.hlo_cases import CASES
from tests.hlo_linear import linear
from tfxla_cluster import compiler
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.fusion import planner
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.options import DEFAULT
from tfxla_cluster.runtime import plan_builder

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
ALL = [*CASES, *linear()]
FUZZ = 40
DATA = Path(__file__).parents[2] / "data"
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    module, args = text.parse(case.text), case.args()
    want = evaluate(module, args)
    for backend, fusion in product(BACKENDS, (True, False)):
        made = gpu_module.compiled(module, backend, fusion)
        for one, other in zip(made.executable.run(args), want, strict=True):
            assert_close(one, other, case.ulps, case.name)


def drawn(seed: int) -> Program:
    """A random module of opcodes that have GPU kernels."""
    draft = Draft(random.Random(seed))
    for _ in range(draft.rng.randint(1, 4)):
        draft.parameter(draft.kind(), draft.shape())
    for _ in range(draft.rng.choice((3, 6, 10, 16))):
        STEPS[draft.rng.choice(NAMES)](draft)
    return finish(draft, f"fuzz_{seed}")


@pytest.mark.parametrize("seed", range(FUZZ))
def test_program(seed: int) -> None:
    made = drawn(seed)
    want = evaluate(made.module, made.args)
    try:
        for backend, fusion in product(BACKENDS, (True, False)):
            run = gpu_module.compiled(made.module, backend, fusion).executable.run
            check(run(made.args), want, made, f"{backend}, fusion {fusion}")
    except Exception:
        print(text.render(made.module))
        raise


ROWS, COLUMNS = sym("rows", 5), sym("columns", 1000)


def _softmax(b: Builder, x: Instr) -> Instr:
    top = b.reduce([x], [b.constant(np.float32(-np.inf))], [1], scalar_computation("maximum", "f32"))
    power = b.exponential(b.subtract(x, b.broadcast(top, x.shape.dims, [0])))
    total = b.reduce([power], [b.constant(np.float32(0))], [1], scalar_computation("add", "f32"))
    return b.divide(power, b.broadcast(total, x.shape.dims, [0]))


def _column_sum(b: Builder, x: Instr) -> Instr:
    return b.reduce([x], [b.constant(np.float32(0))], [0], scalar_computation("add", "f32"))


def _whole_sum(b: Builder, x: Instr) -> Instr:
    return b.reduce([x], [b.constant(np.float32(0))], [0, 1], scalar_computation("add", "f32"))


def _transposed(b: Builder, x: Instr) -> Instr:
    return b.transpose(b.multiply(x, x), [1, 0])


@pytest.mark.parametrize("make", [_softmax, _column_sum, _whole_sum, _transposed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: type(b).__name__)
def test_one_kernel_for_all_sizes(make: Callable[[Builder, Instr], Instr], backend: gpu_module.Interpreted) -> None:
    """Sizes that are read at run time: other numbers of programs, partly filled blocks, none at all."""
    b = Builder("main")
    root = make(b, b.parameter(array(DTYPES["f32"], (ROWS, COLUMNS))))
    run = gpu_module.compiled(Module("sized", b.build(root)), backend).executable.run
    for dims in ((5, 1000), (1, 1), (3, 4100), (200, 7), (0, 4), (4, 0)):
        x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
        fixed = Builder("main")
        want = evaluate(Module("m", fixed.build(make(fixed, fixed.parameter(array(DTYPES["f32"], dims))))), [x])
        np.testing.assert_allclose(run([x])[0], want[0], rtol=1e-5, atol=1e-4)


def test_what_training_steps_lack() -> None:
    """Instructions and fusions of the recorded modules with no GPU kernel: elementwise work and reductions all have."""
    backend = gpu_module.Interpreted()
    refused: Counter[str] = Counter()
    kernels = 0
    for path in sorted(DATA.glob("*.hlo.pb")):
        optimised = compiler.optimise(proto.read(path.read_bytes()), backend.target, DEFAULT)
        for instr in plan_builder.unit_instructions(planner.fuse(optimised, backend.machine, lambda record: None)):
            try:
                kernels += len(backend.lower(instr).steps)
            except UnsupportedError as error:
                refused[error.message.split()[0]] += 1
    expected: dict[str, int] = {}
    assert refused == expected
    assert kernels > 150  # how many is the lowerings' choice
