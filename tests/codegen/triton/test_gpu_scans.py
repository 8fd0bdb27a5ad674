"""Cumulative ops on a GPU: lines in one block, in several, and in three kernels, along any axis, both ways."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tfxla_cluster.codegen.kernel.lower.gpu import scan, scan_columns
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())
NEUTRAL = {"sum": (0.0,), "most": (-np.inf,), "any": (False,), "affine": (1, 0)}
# So that small arrays take every way.
SMALL = {
    scan: {"BLOCK": 8, "MIDDLE": 8, "COLUMNS": 4},
    scan_columns: {"LEAST": 6, "COLUMNS": 4, "TOGETHER": 3, "PROGRAM_COUNTS": (12,)},
}
# name -> (operand types, combiner of left and right values); the last is not commutative.
COMBINERS = {
    "sum": (("f32",), "a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)"),
    "most": (("bf16",), "a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n ROOT r = bf16[] maximum(a, b)"),
    "any": (("pred",), "a = pred[] parameter(0)\n b = pred[] parameter(1)\n ROOT r = pred[] or(a, b)"),
    "affine": (
        ("s32", "s32"),
        "a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n"
        " p = s32[] multiply(a, c)\n q = s32[] multiply(b, c)\n s = s32[] add(q, d)\n"
        " ROOT r = (s32[], s32[]) tuple(p, s)",
    ),
}


def cumulative(name: str, dims: tuple[int, ...], axis: int, ahead: bool) -> str:
    """The module of a cumulative op; `ahead`: from the end."""
    dtypes, combiner = COMBINERS[name]
    last = dims[axis] - 1
    sizes = "x".join(str(d) if n == axis else "1" for n, d in enumerate(dims))
    pads = "x".join((f"0_{last}" if ahead else f"{last}_0") if n == axis else "0_0" for n in range(len(dims)))
    shape = ",".join(map(str, dims))
    arrays = "".join(f" x{n} = {d}[{shape}] parameter({n})\n" for n, d in enumerate(dtypes))
    starts = "".join(f" i{n} = {d}[] parameter({len(dtypes) + n})\n" for n, d in enumerate(dtypes))
    shapes = [f"{d}[{shape}]" for d in dtypes]
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    operands = ", ".join([*(f"x{n}" for n in range(len(dtypes))), *(f"i{n}" for n in range(len(dtypes)))])
    return (
        f"HloModule m\n\nf {{\n {combiner}\n}}\nENTRY main {{\n{arrays}{starts} ROOT r = {result}"
        f" reduce-window({operands}), window={{size={sizes} pad={pads}}}, to_apply=f\n}}\n"
    )


def drawn(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    if dtype.kind in "ib":
        return rng.integers(-3, 4, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if values.size > 8 and dtype.itemsize == 2:
        values.flat[values.size // 2] = np.nan
    return values.astype(dtype)


@pytest.mark.parametrize(
    ("dims", "axis"),
    [((45,), 0), ((3, 29), 1), ((2, 37, 5), 1), ((6, 7), 0), ((2, 37, 9), 1), ((0, 4), 1), ((0, 4, 8), 1)],
)
@pytest.mark.parametrize("programs", [1, 10**6], ids=["one kernel", "three"])
@pytest.mark.parametrize("name", COMBINERS)
def test_against_the_evaluator(
    monkeypatch: pytest.MonkeyPatch, name: str, programs: int, dims: tuple[int, ...], axis: int
) -> None:
    for module, numbers in SMALL.items():
        for number, value in numbers.items():
            monkeypatch.setattr(module, number, value)
    for module in (scan, scan_columns):
        monkeypatch.setattr(module, "PROGRAMS", programs)
    for backend, ahead in product(BACKENDS, (False, True)):
        module = text.parse(cumulative(name, dims, axis, ahead))
        dtypes = [DTYPES[d].numpy for d in COMBINERS[name][0]]
        args = [*(drawn(d, dims) for d in dtypes), *(np.asarray(v).astype(d) for v, d in zip(NEUTRAL[name], dtypes))]
        made = gpu_module.compiled(module, backend)
        for got, want in zip(made.executable.run(args), evaluate(module, args), strict=True):
            assert_near(got, want, 1e-5)


def test_a_long_line_is_three_kernels() -> None:
    """Where lines are few; many are a program each."""

    def kernels(dims: tuple[int, ...]) -> int:
        module = text.parse(cumulative("sum", dims, len(dims) - 1, False))
        return len(gpu_module.compiled(module, BACKENDS[0]).plan.steps)

    assert kernels((10**6,)) == 3
    assert kernels((4096, 10**4)) == 1
    assert kernels((4096, 100)) == 1
