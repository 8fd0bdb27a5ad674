"""`dot` kernels against NumPy in wide precision: dimension numbers, dtypes, odd sizes, hostile values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen import run_kernel, run_unit
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.codegen.kernel.choice import Knobs
from tfxla_cluster.codegen.kernel.lower.contraction_build import build
from tfxla_cluster.codegen.kernel.lower.dot import describe
from tfxla_cluster.codegen.llvm.object_code import compile_kernel
from tfxla_cluster.ir import dim, shape
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.target import Target


def dot(lhs, rhs, lhs_depth, rhs_depth, lhs_batch=(), rhs_batch=(), dtype="f32", out=None) -> Instr:
    operands = [
        Instr(f"p{n}", "parameter", shape.array(DTYPES[dtype], dims), attrs={"parameter_number": n})
        for n, dims in enumerate((lhs, rhs))
    ]
    free = [
        tuple(d for i, d in enumerate(dims) if i not in used)
        for dims, used in ((lhs, lhs_batch + lhs_depth), (rhs, rhs_batch + rhs_depth))
    ]
    dims = (*(lhs[d] for d in lhs_batch), *free[0], *free[1])
    attrs = {
        "lhs_contracting_dims": lhs_depth,
        "rhs_contracting_dims": rhs_depth,
        "lhs_batch_dims": lhs_batch,
        "rhs_batch_dims": rhs_batch,
    }
    return Instr("dot", "dot", shape.array(DTYPES[out or dtype], dims), tuple(operands), attrs)


def expected(instr: Instr, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """einsum in f64 (c128 for complex); integers wrap as their dtype does."""
    at = instr.attrs
    left, right = list("abcdefg"[: a.ndim]), list("mnopqrs"[: b.ndim])
    for key in ("contracting", "batch"):
        for x, y in zip(at[f"lhs_{key}_dims"], at[f"rhs_{key}_dims"]):
            right[y] = left[x]
    out = [left[d] for d in at["lhs_batch_dims"]]
    for side, letters in (("lhs", left), ("rhs", right)):
        used = at[f"{side}_batch_dims"] + at[f"{side}_contracting_dims"]
        out += [c for i, c in enumerate(letters) if i not in used]
    wide = {"c": np.complex128, "i": np.int64, "u": np.int64}.get(a.dtype.kind, np.float64)
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", a.astype(wide), b.astype(wide))


def random(dims, dtype: str, seed: int) -> np.ndarray:
    rng, kind = np.random.default_rng(seed), DTYPES[dtype].kind
    if kind in ("int", "uint"):
        return rng.integers(-9 if kind == "int" else 0, 9, dims).astype(DTYPES[dtype].numpy)
    x = rng.standard_normal(dims)
    return (x + 1j * rng.standard_normal(dims) if kind == "complex" else x).astype(DTYPES[dtype].numpy)


TOLERANCE = {"f32": 2e-6, "c64": 2e-6, "f64": 1e-14, "c128": 1e-14, "bf16": 8e-3, "f16": 1e-3}


def check(instr: Instr, seed: int = 0) -> None:
    dtype = instr.operands[0].shape.dtype.name
    a, b = (random(o.shape.dims, dtype, seed + n) for n, o in enumerate(instr.operands))
    (result,) = run_unit.run(instr, [a, b])
    want = expected(instr, a, b)
    depth = np.prod([a.shape[d] for d in instr.attrs["lhs_contracting_dims"]])
    tolerance = TOLERANCE.get(dtype, 0) * (2 + np.sqrt(depth))
    assert_near(result, want, tolerance)


SIZES = [
    (1, 1, 1),
    (1, 3, 5),
    (2, 16, 7),
    (3, 17, 33),
    (5, 300, 2),
    (7, 32, 65),
    (17, 1, 33),
    (33, 48, 300),
    (65, 65, 65),
    (97, 272, 257),
    (130, 5, 1),
    (200, 33, 7),
    (2, 2, 0),
    (0, 3, 2),
    (3, 0, 2),
    (193, 64, 520),
]


@pytest.mark.parametrize("lhs_transposed", [False, True])
@pytest.mark.parametrize("rhs_transposed", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_matrices(size, lhs_transposed, rhs_transposed) -> None:
    m, n, k = size
    lhs, rhs = ((k, m) if lhs_transposed else (m, k)), ((n, k) if rhs_transposed else (k, n))
    check(dot(lhs, rhs, (0 if lhs_transposed else 1,), (1 if rhs_transposed else 0,)))


GENERAL = [
    ((), (), (), ()),
    ((7,), (7,), (0,), (0,)),
    ((5, 7), (7,), (1,), (0,)),
    ((7,), (7, 5), (0,), (0,)),
    ((5, 300), (20, 300), (1,), (1,)),
    ((3, 4, 5), (3, 5, 6), (2,), (1,), (0,), (0,)),
    ((2, 3, 40, 50), (2, 3, 60, 50), (3,), (3,), (0, 1), (0, 1)),
    ((4, 3, 5), (3, 6, 5), (2,), (2,), (1,), (0,)),
    ((4, 3, 5), (3, 6, 4), (0, 1), (2, 0)),
    ((4, 5, 6, 7), (7, 9, 5, 3), (1, 3), (2, 0)),
    ((120, 5, 6), (5, 6, 32), (1, 2), (0, 1)),
    ((3, 200, 20), (4, 20, 50, 6), (2,), (1,)),
    ((30, 7, 3), (3, 7, 9), (1,), (1,), (2,), (0,)),
]


@pytest.mark.parametrize("case", GENERAL, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
def test_dimension_numbers(case, dtype) -> None:
    check(dot(*case, dtype=dtype))


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "s8", "u32", "s64", "c64", "c128"])
@pytest.mark.parametrize(
    "case",
    [
        ((33, 65), (65, 17), (1,), (0,)),
        ((65, 33), (17, 65), (0,), (1,)),
        ((9, 70), (70,), (1,), (0,)),
        ((9, 7), (5, 7), (1,), (1,)),
    ],
    ids=str,
)
def test_dtypes(case, dtype) -> None:
    if dtype == "s8":
        check(dot(*case, dtype="s8", out="s32"))
    else:
        check(dot(*case, dtype=dtype))


def test_narrow_operands_to_wide_result() -> None:
    check(dot((40, 300), (300, 24), (1,), (0,), dtype="bf16", out="f32"))


@pytest.mark.parametrize("size", [(5, 7, 9), (100, 40, 30)])
def test_hostile_values_stay_in_their_row_and_column(size) -> None:
    m, n, k = size
    a, b = random((m, k), "f32", 0), random((k, n), "f32", 1)
    a[2, 3], b[1, 4] = np.inf, np.nan
    (result,) = run_unit.run(dot((m, k), (k, n), (1,), (0,)), [a, b])
    assert np.isnan(result[:, 4]).all()
    assert not np.isfinite(result[2]).any()
    rest = np.delete(np.delete(result, 4, axis=1), 2, axis=0)
    assert np.isfinite(rest).all()


@pytest.mark.parametrize("size", [(300, 70, 600), (32, 128, 70), (100, 33, 9)])
def test_bits_do_not_depend_on_how_tasks_are_shared_out(size) -> None:
    m, n, k = size
    instr = dot((m, k), (k, n), (1,), (0,))
    a, b = random((m, k), "f32", 0), random((k, n), "f32", 1)
    (whole,) = run_unit.run(instr, [a, b])
    unit = lower.lower(instr, run_kernel.host_target())
    temps = [np.zeros(dim.evaluate(t, {}), np.uint8) for t in unit.temps]
    split = np.zeros((m, n), np.float32)
    for step in unit.steps:
        places = {"operand": [a, b], "temp": temps, "result": [split]}
        inputs, outputs = ([places[r.kind][r.index] for r in refs] for refs in (step.inputs, step.outputs))
        kernel = run_kernel.Loaded(step.kernel)
        for task in reversed(range(dim.evaluate(step.kernel.tasks, {}))):
            kernel(inputs, outputs, tasks=(task, task + 1))
    assert split.tobytes() == whole.tobytes()


def test_one_kernel_serves_many_sizes() -> None:
    n = dim.sym("n", 64)
    instr = dot((n, 40), (40, 33), (1,), (0,))
    for rows in (1, 7, 64, 301):
        a, b = random((rows, 40), "f32", 0), random((40, 33), "f32", 1)
        (result,) = run_unit.run(instr, [a, b], {"n": rows})
        assert_near(result, a @ b, 1e-6)


def test_avx512_code_keeps_its_accumulators_in_registers() -> None:
    target = Target("cpu", "znver4", "", 512)
    unit = build(describe(dot((256, 256), (256, 256), (1,), (0,))), target, Knobs())
    code = compile_kernel(unit.steps[-1].kernel, target, "kernel", assembly=True).assembly
    assert "zmm" in code
    tile = code[code.index(".t12:") :]
    loop = tile[: tile.index("retq")]
    assert loop.count("vfmadd") == 24
    assert "(%rsp), %zmm" not in loop
