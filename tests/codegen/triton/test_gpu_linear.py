"""cholesky and triangular-solve on a GPU in several panels and blocks: every form, failures, what is not to be read."""

from __future__ import annotations

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tfxla_cluster.codegen.kernel.lower.gpu import block_solve, panel_cholesky
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())
CLOSE = {"f32": 1e-4, "f64": 1e-10, "bf16": 6e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PANEL", 4), ("BLOCK", 4)):
        monkeypatch.setattr(panel_cholesky, name, value)
    for name, value in (("ROWS", 4), ("COLUMNS", 4), ("DEPTH", 4)):
        monkeypatch.setattr(block_solve, name, value)


def check(module: Module, args: list[np.ndarray], within: float) -> None:
    (want,) = evaluate(module, args)
    for backend in BACKENDS:
        (got,) = gpu_module.compiled(module, backend).executable.run(args)
        assert_near(got, want, within)


def positive(dims: tuple[int, ...], dtype: str) -> np.ndarray:
    a = np.random.default_rng(dims[-1]).standard_normal(dims)
    return (a @ np.swapaxes(a, -1, -2) / dims[-1] + np.eye(dims[-1])).astype(DTYPES[dtype].numpy)


@pytest.mark.parametrize("n", [4, 5, 8, 14])
@pytest.mark.parametrize(("dtype", "lower"), [("f32", True), ("f32", False), ("f64", True), ("bf16", False)])
def test_cholesky(dtype: str, lower: bool, n: int) -> None:
    """The other triangle is not read."""
    a = positive((2, n, n), dtype)
    other = np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)
    a[:, other[0], other[1]] = np.nan
    kind = f"{dtype}[2,{n},{n}]"
    body = f"x = {kind} parameter(0)\n ROOT r = {kind} cholesky(x), lower={str(lower).lower()}"
    check(text.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n"), [a], CLOSE[dtype])


@pytest.mark.parametrize("place", [0, 5, 13])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_a_pivot_that_is_not_positive(place: int, value: float) -> None:
    """All of that factor is NaN, of the other matrix none."""
    a = positive((2, 14, 14), "f32")
    a[1, place, place] = value
    body = "x = f32[2,14,14] parameter(0)\n ROOT r = f32[2,14,14] cholesky(x), lower=true"
    module = text.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n")
    lower = np.tri(14, dtype=bool)
    for backend in BACKENDS:
        (found,) = gpu_module.compiled(module, backend).executable.run([a])
        assert np.isnan(found[1][lower]).all()
        assert not found[1][~lower].any()
        assert_near(found[0], np.linalg.cholesky(a[0]), 1e-4)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE"])
@pytest.mark.parametrize(("dtype", "n", "unit"), [("f32", 11, False), ("f64", 8, True), ("bf16", 5, False)])
def test_triangular_solve(left: bool, lower: bool, transpose: str, dtype: str, n: int, unit: bool) -> None:
    rng, kind = np.random.default_rng(n), DTYPES[dtype].numpy
    a = (rng.standard_normal((2, n, n)) / n + np.eye(n)).astype(kind)
    other = np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)
    a[:, other[0], other[1]] = np.nan  # is not read
    b = rng.standard_normal((2, n, 6) if left else (2, 6, n)).astype(kind)
    shape = f"{dtype}[{','.join(map(str, b.shape))}]"
    attrs = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    body = f"a = {dtype}[2,{n},{n}] parameter(0)\n b = {shape} parameter(1)\n"
    body += f" ROOT r = {shape} triangular-solve(a, b), {attrs}, transpose_a={transpose}"
    check(text.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n"), [a, b], CLOSE[dtype])


def test_infinite_right_hand_sides_stay_apart() -> None:
    """A column that overflows does so by itself, and rows that were solved before keep their numbers."""
    a = np.eye(11, dtype=np.float32) + np.tri(11, k=-1, dtype=np.float32)
    b = np.ones((11, 3), np.float32)
    b[6, 1] = np.inf
    body = "a = f32[11,11] parameter(0)\n b = f32[11,3] parameter(1)\n ROOT r = f32[11,3] triangular-solve(a, b), "
    body += "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"
    check(text.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n"), [a, b], 1e-5)


def test_sizes_that_are_read_at_run_time() -> None:
    """More and fewer rows and columns than the kernel was made for."""
    n, count = sym("n", 11), sym("c", 6)
    b = Builder("e")
    a, y = (b.parameter(array(DTYPES["f32"], dims)) for dims in ((n, n), (n, count)))
    attrs = {"left_side": True, "lower": True, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"}
    module = Module("m", b.build(b.add_op("triangular-solve", a, y, **attrs)))
    run = gpu_module.compiled(module, BACKENDS[1]).executable.run
    rng = np.random.default_rng(0)
    for rows, columns in ((11, 6), (1, 1), (0, 3), (4, 9), (21, 2)):
        table = (np.tril(rng.standard_normal((rows, rows))) / max(rows, 1) + np.eye(rows)).astype(np.float32)
        right = rng.standard_normal((rows, columns)).astype(np.float32)
        assert_near(run([table, right])[0], np.linalg.solve(table, right).astype(np.float32), 1e-4)
