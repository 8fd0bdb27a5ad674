"""Kernels in versions for some sizes each: which there are, that exactly one runs, and what it computes."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.hlo_case import assert_close
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.kernel.lower.gpu import versions
from tfxla_cluster.codegen.kernel.unit import Unit, UnitKernel
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import Dim, evaluate, sym
from tfxla_cluster.ir.dtype import BF16, F32, DType
from tfxla_cluster.ir.evaluator import evaluate as evaluated
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime.plan import KernelStep

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
N = sym("n", 1000, 2, 2**15)
Body = Callable[[Builder, Dim], Instr]


def _floats(b: Builder, *dims: Dim, dtype: DType = F32) -> Instr:
    return b.parameter(array(dtype, dims))


def _biased(b: Builder, n: Dim) -> Instr:
    x, bias = _floats(b, 3, n), _floats(b, n)
    return b.add(x, b.broadcast(bias, (3, n), [1]))


def _line(b: Builder, n: Dim) -> Instr:
    x = _floats(b, n)
    return b.multiply(x, x)


def _softmax(b: Builder, n: Dim) -> Instr:
    x = _floats(b, 3, n)
    top = b.reduce([x], [b.constant(np.float32(-np.inf))], [1], scalar_computation("maximum", "f32"))
    power = b.exponential(b.subtract(x, b.broadcast(top, x.shape.dims, [0])))
    total = b.reduce([power], [b.constant(np.float32(0))], [1], scalar_computation("add", "f32"))
    return b.divide(power, b.broadcast(total, x.shape.dims, [0]))


def _pairs(b: Builder, n: Dim) -> Instr:
    """Rows of 2 * n - 1 elements."""
    x = b.concatenate([_floats(b, 3, n), b.slice(_floats(b, 3, n), [(0, 3), (1, n)])], 1)
    return b.reduce([x], [b.constant(np.float32(0))], [1], scalar_computation("add", "f32"))


def _columns(b: Builder, n: Dim) -> Instr:
    return b.reduce([_floats(b, n, 5)], [b.constant(np.float32(0))], [0], scalar_computation("add", "f32"))


def _transposed(b: Builder, n: Dim) -> Instr:
    return b.transpose(_floats(b, 40, n), [1, 0])


def _shifted(b: Builder, n: Dim) -> Instr:
    """Rows of 2 * n - 1, which no access of several elements begins at."""
    return b.concatenate([_floats(b, 3, n), b.slice(_floats(b, 3, n), [(0, 3), (1, n)])], 1)


def _product(b: Builder, n: Dim) -> Instr:
    x, y = _floats(b, 8, n, dtype=BF16), _floats(b, n, 24, dtype=BF16)
    return b.dot(x, y, [1], [0])


BODIES: dict[str, Body] = {
    fn.__name__.strip("_"): fn for fn in (_biased, _line, _softmax, _pairs, _columns, _transposed, _shifted, _product)
}
SIZES = (2, 3, 4, 12, 61, 256, 511, 512, 513, 520, 1000, 1024, 1025, 2048, 2049, 4001, 4400)


def module(body: Body, n: Dim) -> Module:
    b = Builder("main")
    return Module("sized", b.build(body(b, n)))


@pytest.mark.parametrize("name", BODIES)
def test_values_of_all_versions(name: str) -> None:
    """In Triton's interpreter, and in that of kernel IR, which checks every access; one version runs at each size."""
    generic = module(BODIES[name], N)
    plan = gpu_module.compiled(generic, gpu_module.Checked()).executable.plan
    counts = {steps_that_run(plan.steps, size) for size in SIZES}
    if name != "columns":
        assert len(plan.steps) > max(counts), "there is one version"
    for backend in (gpu_module.Interpreted(), gpu_module.Checked()):
        run = gpu_module.compiled(generic, backend).executable.run
        for size in SIZES if isinstance(backend, gpu_module.Checked) else SIZES[::4]:
            own = module(BODIES[name], size)
            rng = np.random.default_rng(size)
            args = [rng.standard_normal(p.shape.sample_dims) for p in own.entry.params]
            args = [a.astype(p.shape.element_type.numpy) for a, p in zip(args, own.entry.params)]
            for got, want in zip(run(args), evaluated(own, args), strict=True):
                assert_close(got, np.asarray(want), 1 << 12, f"{name} at {size}")


def steps_that_run(steps: tuple[object, ...], size: int) -> int:
    return sum(isinstance(s, KernelStep) and evaluate(s.tasks, {"n": size}) > 0 for s in steps)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("every", [(1, 0), (2, 0), (4, 0), (3, 1)], ids=str)
def test_each_size_is_of_one_version(name: str, every: tuple[int, int]) -> None:
    size = sym("n", 999 + (every[1] - 999) % every[0], 2, 2**15, *every)
    root = module(BODIES[name], size).entry.root
    found = versions.versions_of(root)
    for n in filter(size.admits, (*range(2, 140), *range(500, 530), *range(2040, 2060), 2**14, 2**14 + 1, 2**15)):
        active = [version for version in found if evaluate(version.active, {"n": n})]
        assert len(active) == (1 if found else 0), n
        for version in active:
            assert all(n == s if isinstance(s, int) else s.admits(n) for s in version.sizes.values()), (n, version)


def kernels(body: Body, size: Dim) -> list[UnitKernel]:
    unit = gpu.described().lower(module(body, size).entry.root)
    return [step for step in unit.steps if isinstance(step, UnitKernel)]


def test_what_is_known_of_sizes_reaches_triton() -> None:
    """Multiples of 4 floats are whole accesses; rows of n * 64 always are."""
    known = [dict(render(step.kernel).multiples) for step in kernels(_line, N)]
    assert {4, 0} <= {max(of.values(), default=0) for of in known}
    many = kernels(lambda b, n: b.multiply(*[_floats(b, n, 64)] * 2), N)
    assert {m for step in many for _, m in render(step.kernel).multiples} == {16}


@pytest.mark.parametrize("name", ["biased", "line", "softmax", "transposed"])
def test_at_the_largest_size_seen_kernels_are_those_for_it_alone(name: str) -> None:
    """But for what is said of how many blocks there are."""
    body, said = BODIES[name], re.compile(r" multiple of \d+")
    own = [said.sub("", key(step.kernel)) for step in kernels(body, 1000)]
    active = [step.kernel for step in kernels(body, N) if evaluate(step.kernel.tasks, {"n": 1000})]
    assert [said.sub("", key(kernel)) for kernel in active] == own
    assert all(render(kernel).multiples for kernel in active)


def test_rows_of_no_whole_accesses_are_stored_as_they_lie() -> None:
    """In blocks of elements whatever rows these are of, where a block has two rows at most."""
    known = [render(step.kernel).text for step in kernels(_shifted, sym("n", 3000, 2, 2**15))]
    assert any("tl.uint32" in text for text in known)


def test_no_versions_where_sizes_make_no_difference() -> None:
    assert not versions.versions_of(module(_softmax, 1000).entry.root)
    b = Builder("main")
    rows = b.add(*[_floats(b, N, 4096)] * 2)
    found = kernels(lambda c, n: c.add(*[_floats(c, n, 4096)] * 2), N)
    assert len({render(step.kernel).text for step in found}) == 1
    assert all("n" in version.sizes for version in versions.versions_of(rows))


def test_a_version_without_a_kernel_leaves_its_sizes_to_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lowering refuses for some sizes, the version for all does."""
    from tfxla_cluster.errors import UnsupportedError

    root = module(_line, N).entry.root
    whole = gpu.described().lower(root)

    def lowering(instr: Instr) -> Unit:
        if instr is not root:
            raise UnsupportedError("not for these")
        return whole

    assert versions.lower(root, lowering) is whole
