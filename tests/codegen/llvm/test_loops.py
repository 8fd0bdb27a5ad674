"""Reductions, carried values, branches and loops inside loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.codegen.run_kernel import Loaded, interpreted, run
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.ir import Buffer, Kernel, Var
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import BF16, DTYPES, F32, PRED, S32, S64, DType

N, M = sym("n", 10), sym("m", 4)
EXTENTS = (0, 1, 2, 7, 8, 9, 31, 32, 33, 40, 65, 1000)


def reduction(
    dtype: DType, opcode: str, init: object, identity: object, kind: str = "vector", heavy: bool = False
) -> Kernel:
    b = KernelBuilder(f"reduce_{opcode}")
    x, out = b.input(dtype), b.output(dtype)

    def value(i: Var) -> Sequence[Var]:
        loaded = b.load(x, i)
        return [b.op("log", b.op("exponential", loaded)) if heavy else loaded]

    (total,) = b.reduce(
        b.index(0), b.size(N), [b.const(init, dtype)], [identity], value, lambda a, v: [b.op(opcode, a, v)], kind
    )
    b.store(out, b.index(0), total)
    return b.finish(1)


@pytest.mark.parametrize("dtype", ["f32", "f64", "s8", "u16", "s32", "s64", "f16", "bf16", "c64", "c128"])
@pytest.mark.parametrize("known", [True, False])
def test_sum(dtype: str, known: bool) -> None:
    """Whole numbers: every order of additions is exact. With and without a known identity."""
    loaded = Loaded(reduction(DTYPES[dtype], "add", 3, 0 if known else None))
    rng = np.random.default_rng(0)
    for extent in EXTENTS:
        x = rng.integers(-2, 3, extent)
        if dtype[0] == "u":
            x = np.abs(x)
        x = (x + (1j * rng.integers(-3, 3, extent) if dtype[0] == "c" else 0)).astype(DTYPES[dtype].numpy)
        out = np.zeros(1, DTYPES[dtype].numpy)
        loaded([x], [out], {"n": extent})
        wide = np.complex128 if dtype[0] == "c" else np.int64
        assert out[0] == x.astype(wide).sum() + 3


@pytest.mark.parametrize("kind", ["vector", "serial"])
def test_heavy_and_serial_sums(kind: str) -> None:
    loaded = Loaded(reduction(F32, "add", 0.5, 0.0, kind, heavy=True))
    for extent in EXTENTS:
        x = np.random.default_rng(extent).standard_normal(extent).astype(np.float32)
        out = np.zeros(1, np.float32)
        loaded([x], [out], {"n": extent})
        assert abs(out[0] - (x.astype(np.float64).sum() + 0.5)) <= 1e-6 * (np.abs(x).sum() + 0.5)


def test_order_depends_on_the_extent_alone() -> None:
    """The bits of a sum do not depend on where it lies in memory."""
    loaded = Loaded(reduction(F32, "add", 0.0, 0.0))
    x = np.random.default_rng(0).standard_normal(2000).astype(np.float32)
    results = []
    for shift in range(9):
        buffer = np.zeros(2100, np.float32)
        buffer[shift : shift + 1001] = x[:1001]
        out = np.zeros(1, np.float32)
        loaded([buffer[shift:]], [out], {"n": 1001})
        results.append(out[0])
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("opcode", "function", "identity"),
    [("maximum", np.max, -np.inf), ("minimum", np.min, np.inf), ("multiply", np.prod, 1.0)],
)
def test_other_monoids(opcode: str, function: np.ufunc, identity: float) -> None:
    loaded = Loaded(reduction(F32, opcode, identity, identity))
    for extent in EXTENTS[1:]:
        x = np.random.default_rng(extent).choice([0.5, 1, 2, -1], extent).astype(np.float32)
        for spoil in (None, 0, extent - 1):
            y = x.copy()
            if spoil is not None and opcode != "multiply":
                y[spoil] = np.nan
            out = np.zeros(1, np.float32)
            loaded([y], [out], {"n": extent})
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(out[0], function(y))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("index", [S32, S64])
def test_argmax(known: bool, index: DType) -> None:
    """A pair of accumulators; of equal values the first index wins."""
    b = KernelBuilder("argmax")
    x, best, where = b.input(F32), b.output(F32), b.output(index)
    last = 2**31 - 1

    def combine(a: Var, ai: Var, v: Var, vi: Var) -> Sequence[Var]:
        equal = b.op("and", b.compare(v, a, "EQ"), b.compare(vi, ai, "LT"))
        better = b.op("or", b.compare(v, a, "GT"), equal)
        return [b.op("select", better, v, a, dtype=F32), b.op("select", better, vi, ai, dtype=index)]

    value, position = b.reduce(
        b.index(0),
        b.size(N),
        [b.const(-np.inf, F32), b.const(last, index)],
        [-np.inf, last] if known else [None, None],
        lambda i: [b.load(x, i), i if index is S64 else b.op("convert", i, dtype=S32)],
        combine,
    )
    b.store(best, b.index(0), value)
    b.store(where, b.index(0), position)
    loaded = Loaded(b.finish(1))
    for extent in EXTENTS[1:]:
        values = np.random.default_rng(extent).integers(0, 9, extent).astype(np.float32)
        out, at = np.zeros(1, np.float32), np.zeros(1, index.numpy)
        loaded([values], [out, at], {"n": extent})
        assert out[0] == values.max()
        assert at[0] == values.argmax()


def test_any_of_pred() -> None:
    b = KernelBuilder("any")
    x, out = b.input(PRED), b.output(PRED)
    (found,) = b.reduce(
        b.index(0),
        b.size(N),
        [b.const(False, PRED)],
        [False],
        lambda i: [b.load(x, i)],
        lambda a, v: [b.op("or", a, v)],
    )
    b.store(out, b.index(0), found)
    loaded = Loaded(b.finish(1))
    for extent in EXTENTS:
        for position in {None, 0, extent // 2, extent - 1}:
            x_values, result = np.zeros(extent, bool), np.zeros(1, bool)
            if extent and position is not None:
                x_values[position] = True
            loaded([x_values], [result], {"n": extent})
            assert result[0] == x_values.any()


def test_reduce_inside_lanes() -> None:
    """Column sums: lanes run over columns, each folds its rows in order."""
    b = KernelBuilder("columns")
    x, out = b.input(F32), b.output(F32)
    rows, cols = b.size(M), b.size(N)
    with b.loop(b.index(0), cols, "vector") as j:
        (total,) = b.reduce(
            b.index(0),
            rows,
            [b.const(0.0, F32)],
            [0.0],
            lambda i: [b.load(x, b.add(b.mul(i, cols), j))],
            lambda a, v: [b.op("add", a, v)],
        )
        b.store(out, j, total)
    loaded = Loaded(b.finish(1))
    for m, n in ((0, 5), (3, 1), (4, 29), (17, 64)):
        values, result = np.arange(m * n, dtype=np.float32).reshape(m, n), np.ones(n, np.float32)
        loaded([values], [result], {"m": m, "n": n})
        np.testing.assert_array_equal(result, values.sum(0))


def test_cumulative_sum_carries_in_order() -> None:
    b = KernelBuilder("cumsum")
    x, out = b.input(BF16), b.output(BF16)

    def step(i: Var, total: Var) -> Sequence[Var]:
        total = b.op("add", total, b.load(x, i))
        b.store(out, i, total)
        return [total]

    b.fold(b.index(0), b.size(N), [b.const(0.0, BF16)], step)
    x_values = np.arange(1, 40).astype(BF16.numpy)
    expected, total = [], BF16.numpy.type(0)
    for v in x_values:
        total = BF16.numpy.type(np.float32(total) + np.float32(v))
        expected.append(total)
    (result,) = run(b.finish(1), [x_values], [((39,), BF16.numpy)], {"n": 39})
    np.testing.assert_array_equal(result, np.array(expected))


def test_fold_inside_lanes_carries_vectors() -> None:
    """x^k by repeated products; the count is the same in all lanes, the values are not."""
    b = KernelBuilder("powers")
    x, out = b.input(F32), b.output(F32)
    with b.loop(b.index(0), b.size(N), "vector") as i:
        value = b.load(x, i)
        (result, _) = b.fold(
            b.index(0),
            b.size(M),
            [b.const(1.0, F32), b.index(0)],
            lambda k, p, c: [b.op("multiply", p, value), b.add(c, b.index(1))],
        )
        b.store(out, i, result)
    values = np.linspace(-2, 2, 21).astype(np.float32)
    (got,) = run(b.finish(1), [values], [((21,), np.float32)], {"n": 21, "m": 3})
    np.testing.assert_allclose(got, values**3, rtol=1e-6)


def test_while_that_differs_between_lanes() -> None:
    """Collatz steps: such a loop runs an iteration at a time."""
    b = KernelBuilder("collatz")
    x, out = b.input(S64), b.output(S32)
    one = b.const(1, S64)
    with b.loop(b.index(0), b.size(N), "vector") as i:

        def body(v: Var, steps: Var) -> Sequence[Var]:
            odd = b.compare(b.op("and", v, one), one, "EQ")
            up = b.op("add", b.op("multiply", v, b.const(3, S64)), one)
            half = b.op("shift-right-logical", v, one)
            return [b.op("select", odd, up, half, dtype=S64), b.op("add", steps, b.const(1, S32))]

        _, steps = b.while_loop([b.load(x, i), b.const(0, S32)], lambda v, s: b.compare(v, one, "GT"), body)
        b.store(out, i, steps)
    (got,) = run(b.finish(1), [np.array([1, 2, 3, 6, 7, 27])], [((6,), np.int32)], {"n": 6})
    assert got.tolist() == [0, 1, 7, 8, 16, 111]


def test_branches() -> None:
    b = KernelBuilder("branches")
    x, out = b.input(F32), b.output(F32)
    n = b.size(N)
    with b.loop(b.index(0), n, "vector") as i:
        value = b.load(x, i)
        (chosen,) = b.cond(
            b.compare(n, b.index(10), "GT"), lambda: [b.op("exponential", value)], lambda: [b.op("negate", value)]
        )
        b.store(out, i, chosen)
    b.cond(b.compare(n, b.index(5), "EQ"), lambda: _store(b, out, b.const(7.0, F32)), lambda: [])
    loaded = Loaded(b.finish(1))
    for extent in (5, 9, 11, 16):
        values, got = np.linspace(-1, 1, extent).astype(np.float32), np.zeros(extent, np.float32)
        loaded([values], [got], {"n": extent})
        expected = np.exp(values) if extent > 10 else -values
        expected[0] = 7 if extent == 5 else expected[0]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def _store(b: KernelBuilder, buffer: Buffer, value: Var) -> list[Var]:
    b.store(buffer, b.index(0), value)
    return []


def test_loop_with_bounds_of_its_own() -> None:
    """A vector loop over a part, and one whose stop lies before its start."""
    b = KernelBuilder("part")
    out = b.output(S64)
    n = b.size(N)
    with b.loop(b.index(4), b.op("subtract", n, b.index(3)), "vector") as i:
        b.store(out, i, i)
    loaded = Loaded(b.finish(1))
    for extent in (0, 3, 6, 7, 8, 30):
        got = np.full(40, -1)
        loaded([], [got], {"n": extent})
        assert got[4 : max(4, extent - 3)].tolist() == list(range(4, extent - 3))
        assert (got[:4] == -1).all()
        assert (got[max(4, extent - 3) :] == -1).all()


@pytest.mark.parametrize("opcode", ["divide", "remainder"])
def test_index_division(opcode: str) -> None:
    """Indices divide by sizes, a size of 0 counts as 1, and lanes divide as exactly as scalars."""
    b = KernelBuilder("division")
    out = b.output(S64)
    start, n = b.size(M), b.size(N)
    with b.loop(b.index(0), b.index(100), "vector") as i:
        b.store(out, i, b.op(opcode, b.add(start, i), n, index=True))
    kernel = b.finish(1)
    loaded = Loaded(kernel)
    for first, divisor in ((0, 1), (0, 3), (2**31, 7), (2**51, 3), (2**40, 2**33), (2**51 - 50, 2**51), (0, 0)):
        got, other = np.zeros(100, np.int64), np.zeros(100, np.int64)
        sizes = {"m": first, "n": divisor}
        loaded([], [got], sizes)
        interpreted(kernel, [], [other], sizes)
        want = {"divide": np.floor_divide, "remainder": np.mod}[opcode](first + np.arange(100), max(divisor, 1))
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(other, got)
