"""Modules by the GPU's launcher in machine code: on a double of the driver, whose kernels Triton's interpreter runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.backends.test_seam import DRAWS
from tests.codegen.triton import gpu_module, interpreter
from tests.codegen.triton.test_gpu_cases import ALL, drawn
from tests.fuzz.test_fuzz import check
from tests.hlo_case import Case, assert_close
from tests.runtime.gpu_double import Library, double
from tests.runtime.gpu_double_parts import Kernel, image
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.code import Code, Listing, Source
from tfxla_cluster.codegen.kernel.planes import split_complex
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.codegen.triton.triton_source import Artefacts, TritonSource
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import DEFAULT, CompileOptions
from tfxla_cluster.runtime import random_state
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.plan import LaunchPlan

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
CONTROL = ("while(", "conditional(", "rng-get-and-update-state(", "set-dimension-size", "constant({")
SAMPLE = [case for n, case in enumerate(ALL) if n % 4 == 0 or any(word in case.text for word in CONTROL)]
FUZZ = range(200, 215)
LOOP = """HloModule loop
step { p = (s32[], f32[70], f32[70]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[70] get-tuple-element(p), index=1
  y = f32[70] get-tuple-element(p), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  z = f32[70] multiply(x, y)
  w = f32[70] subtract(z, x)
  ROOT t = (s32[], f32[70], f32[70]) tuple(n, y, w) }
more { p = (s32[], f32[70], f32[70]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  most = s32[] constant(5)
  ROOT less = pred[] compare(i, most), direction=LT }
twice { p = f32[70] parameter(0)
  ROOT s = f32[70] add(p, p) }
square { p = f32[70] parameter(0)
  ROOT s = f32[70] multiply(p, p) }
ENTRY e { i = s32[] parameter(0)
  x = f32[70] parameter(1)
  which = s32[] parameter(2)
  y = f32[70] negate(x)
  state = (s32[], f32[70], f32[70]) tuple(i, x, y)
  looped = (s32[], f32[70], f32[70]) while(state), condition=more, body=step
  a = f32[70] get-tuple-element(looped), index=1
  b = f32[70] get-tuple-element(looped), index=2
  c = f32[70] conditional(which, a, b), branch_computations={twice, square}
  ROOT r = (f32[70], f32[70]) tuple(c, b) }
"""


@dataclass(frozen=True)
class Doubled(gpu_module.Interpreted):
    """The GPU's backend with Triton's interpreter for a compiler, and a double for the driver."""

    machine_double: tuple[Driver, Library] = field(default_factory=double)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        made = {}
        for number, source in enumerate(sources):
            kernel = split_complex(source.kernel)
            rendered = render(kernel)
            name = hashlib.sha256(repr(rendered).encode()).hexdigest()
            buffers = (*kernel.inputs, *kernel.outputs)
            dtypes = tuple(b.dtype.numpy for b in buffers)
            self.machine_double[1].kernels[name] = Kernel(dtypes, rendered.sizes, _Program(rendered))
            artefacts = Artefacts({}, image(name), name, rendered.warps, 0)
            made[source.symbol] = artefacts.cubin, gpu.launch_params(rendered, artefacts, number)
        return Code(tuple(c for c, _ in made.values()), params={s: params for s, (_, params) in made.items()})

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Executable:  # type: ignore[override]
        return Executable(plan, code, driver=self.machine_double[0])


@dataclass(frozen=True)
class _Program:
    source: TritonSource

    def __call__(self, arrays: Sequence[np.ndarray], sizes: Sequence[int], tasks: int) -> None:
        found = interpreter.run(self.source, [], arrays, sizes, tasks)
        changed = [place.view(np.uint8) != array.view(np.uint8) for place, array in zip(arrays, found)]
        for place, array, where in zip(arrays, found, changed):  # places may overlap beyond what is written
            place.view(np.uint8)[where] = array.view(np.uint8)[where]


@pytest.fixture(scope="module")
def backend() -> Iterator[Doubled]:
    made = Doubled()
    yield made
    assert not made.machine_double[1].errors, made.machine_double[1].errors[0]


def compiled(module: Module, backend: Doubled) -> Executable:
    executable: object = compiler.compile_module(module, backend, DEFAULT).executable
    assert isinstance(executable, Executable)
    return executable


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_case(case: Case, backend: Doubled) -> None:
    module, args = text.parse(case.text), case.args()
    executable = compiled(module, backend)
    for _ in range(2):
        for got, want in zip(executable.run(args), evaluate(module, args), strict=True):
            assert_close(got, want, case.ulps, case.name)


@pytest.mark.parametrize("seed", FUZZ)
def test_program(seed: int, backend: Doubled) -> None:
    made = drawn(seed)
    check(compiled(made.module, backend).run(made.args), evaluate(made.module, made.args), made, "launcher")


@pytest.mark.parametrize(("first", "which"), [(0, 0), (4, 1), (9, -1), (-2, 3)])
def test_loops_and_branches(first: int, which: int, backend: Doubled) -> None:
    module = text.parse(LOOP)
    args = [np.int32(first), np.random.default_rng(7).normal(size=70).astype(np.float32), np.int32(which)]
    for got, want in zip(compiled(module, backend).run(args), evaluate(module, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_draws_of_seeded_numbers(backend: Doubled) -> None:
    executable = compiled(text.parse(DRAWS), backend)
    random_state.seed(11)
    first, second = executable.run([])[0], executable.run([])[0]
    random_state.seed(11)
    np.testing.assert_array_equal(executable.run([])[0], first)
    assert (first != second).any()
