"""Products of sizes that vary: kernels choose as those of one size do, give the same bits and touch nothing else."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen import run_kernel
from tests.codegen.contraction.test_dot import TOLERANCE, dot, expected, random
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.choice import Choice, Knobs
from tfxla_cluster.codegen.kernel.contraction import tile
from tfxla_cluster.codegen.kernel.ir import Product
from tfxla_cluster.codegen.kernel.lower.contraction_build import build
from tfxla_cluster.codegen.kernel.lower.contraction_plan import Plan, above, block_size, plan, select
from tfxla_cluster.codegen.kernel.lower.dot import describe
from tfxla_cluster.ir import dim
from tfxla_cluster.ir.dim import Dim
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.target import Target

WIDTHS = [128, 256, *([512] if llvm.get_host_cpu_features().get("avx512vl") else [])]

# Dims of both operands, as functions of a size, and what is contracted.
FORMS = {
    "rows": lambda n: ((n, 70), (70, 65), (1,), (0,)),
    "rows of few columns": lambda n: ((n, 300), (300, 20), (1,), (0,)),
    "columns": lambda n: ((40, 70), (70, n), (1,), (0,)),
    "columns of many rows": lambda n: ((300, 70), (70, n), (1,), (0,)),
    "depth": lambda n: ((n, 40), (n, 90), (0,), (0,)),
    "transposed": lambda n: ((33, n), (n, 33), (0,), (1,)),
    "all": lambda n: ((n, n), (n, n), (1,), (0,)),
    "all, right transposed": lambda n: ((n, n), (n, n), (1,), (1,)),
    "all, left transposed": lambda n: ((n, n), (n, n), (0,), (0,)),
    "batch of them": lambda n: ((3, n, 20), (3, 20, n), (2,), (1,), (0,), (0,)),
    "batch of a size": lambda n: ((n, 5, 20), (n, 20, 9), (2,), (1,), (0,), (0,)),
}


def symbolic(name: str, sample: int, dtype: str = "f32") -> Instr:
    return dot(*FORMS[name](dim.sym("n", sample, 2)), dtype=dtype)


class Compiled:
    """The kernels of an instruction, made once; run with the last task first."""

    def __init__(self, instr: Instr, target: Target) -> None:
        self.unit = lower.lower(instr, target)
        self.loaded = [run_kernel.Loaded(step.kernel, target) for step in self.unit.steps]
        self.result = instr.shape

    def __call__(self, arrays: list[np.ndarray], n: int = 0) -> np.ndarray:
        env = {"n": n}
        dims = [dim.evaluate(d, env) for d in self.result.dims]
        places = {
            "operand": arrays,
            "temp": [np.full(dim.evaluate(t, env), 0x5A, np.uint8) for t in self.unit.temps],
            "result": [np.full(dims, 77, self.result.element_type.numpy)],
        }
        for step, loaded in zip(self.unit.steps, self.loaded):
            inputs, outputs = ([places[r.kind][r.index] for r in refs] for refs in (step.inputs, step.outputs))
            for task in reversed(range(dim.evaluate(step.kernel.tasks, env))):
                loaded(inputs, outputs, env, (task, task + 1))
        return places["result"][0]


def check(name: str, dtype: str, target: Target, sizes: Sequence[int], fixed: Sequence[int]) -> None:
    """Kernels made from two samples against NumPy at `sizes`; at `fixed` against kernels of that size too."""
    made = [Compiled(symbolic(name, sample, dtype), target) for sample in (20, 700)]
    for n in sizes:
        instr = dot(*FORMS[name](n), dtype=dtype)
        arrays = [random(o.shape.dims, dtype, seed) for seed, o in enumerate(instr.operands)]
        got = made[0](arrays, n)
        depth = np.prod([arrays[0].shape[d] for d in instr.attrs["lhs_contracting_dims"]])
        assert_near(got, expected(instr, *arrays), TOLERANCE[dtype] * (2 + np.sqrt(depth)))
        assert made[1](arrays, n).tobytes() == got.tobytes()
        if n in fixed:
            assert Compiled(instr, target)(arrays).tobytes() == got.tobytes()


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", FORMS)
def test_kernels_for_all_sizes(name: str, bits: int) -> None:
    fixed = (65, 521) if bits == WIDTHS[-1] else ()
    check(name, "f32", run_kernel.host_target(bits), (2, 3, 16, 31, 64, 65, 131, 257, 300, 521), fixed)


@pytest.mark.parametrize("dtype", ["f64", "bf16"])
@pytest.mark.parametrize("name", ["rows", "columns", "depth", "all, right transposed"])
def test_other_dtypes(name: str, dtype: str) -> None:
    check(name, dtype, run_kernel.host_target(WIDTHS[-1]), (3, 37, 270), (37,))


def test_hostile_values_in_the_last_columns() -> None:
    """Beside the last whole panel: what lies past them is no number of the operands."""
    n, depth = 37, 300
    a, b = random((5, depth), "f32", 0), random((depth, n), "f32", 1)
    b[1, 36], a[2, 3], b[0, 34] = np.nan, np.inf, -0.0
    instr = dot((5, depth), (depth, dim.sym("n", 64, 2)), (1,), (0,))
    got = Compiled(instr, run_kernel.host_target(WIDTHS[-1]))([a, b], n)
    assert np.isnan(got[:, 36]).all()
    assert not np.isfinite(got[2]).any()
    assert np.isfinite(np.delete(got, 2, axis=0)[:, :36]).all()


# --- choices ---
def chosen(made: Plan, n: int) -> list[int]:
    """What a plan says at a size."""

    def at(value: Dim) -> int:
        return dim.evaluate(value, {"n": n})

    _, rows, cols, _ = map(at, made.extents)
    row_block = block_size(rows, at(made.row_count), 2)
    col_block = block_size(cols, at(made.col_count), made.panel)
    return [at(made.shared), at(made.packs_lhs), row_block, col_block]


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("name", FORMS)
def test_a_plan_for_all_sizes_is_that_of_each(name: str, bits: int, cores: int) -> None:
    target = Target("cpu", "", "", bits, cores, 1 << 20)
    made = [plan(describe(symbolic(name, sample)), target, Knobs()) for sample in (2, 50, 3000)]
    for n in (2, 7, 64, 65, 200, 256, 257, 512, 513, 1000, 4096):
        want = chosen(plan(describe(dot(*FORMS[name](n))), target, Knobs()), n)
        assert [chosen(one, n) for one in made] == [want] * 3, n


@pytest.mark.parametrize("name", FORMS)
def test_sizes_of_launches_stay_short(name: str) -> None:
    """They are written as trees, into plans and stores too."""

    def nodes(value: Dim) -> int:
        return 1 if isinstance(value, int) or value.is_size else 1 + sum(map(nodes, value.operands))

    steps = build(describe(symbolic(name, 64)), Target("cpu", "", "", 512), Knobs()).steps
    kernels = [step.kernel for step in steps]
    assert max(nodes(d) for k in kernels for d in (*k.sizes, k.tasks, k.cost)) < 400


def test_a_knob_is_the_largest_block_at_every_size() -> None:
    target = Target("cpu", "", "", 512)
    made = plan(describe(symbolic("all", 1000)), target, Knobs(Choice({"rows": 48, "cols": 128})))
    for n in (300, 777, 2048):
        shared, _, row_block, col_block = chosen(made, n)
        assert (shared, row_block <= 48, col_block <= 128) == (1, True, True)


def test_conditions_as_numbers() -> None:
    n = dim.sym("n", 9, 5, 20)
    assert [above(n, limit) for limit in (4, 20)] == [1, 0]
    flag = above(n, 9)
    for value in (5, 9, 10, 20):
        assert dim.evaluate(flag, {"n": value}) == (value > 9)
        assert dim.evaluate(select(flag, n * 3, 7), {"n": value}) == (value * 3 if value > 9 else 7)


# --- nothing else is touched ---
def _fenced(array: np.ndarray) -> tuple[mmap.mmap, np.ndarray]:
    """A copy that ends where an unreadable page begins."""
    page, size = mmap.PAGESIZE, array.nbytes
    whole = -(-size // page) * page
    memory = mmap.mmap(-1, whole + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + whole), page, 0) == 0
    copy = np.frombuffer(memory, np.uint8)[whole - size : whole].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return memory, copy


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("major", ["row", "depth"])
def test_a_block_product_touches_its_columns_alone(major: str, packed: bool, dtype: str, bits: int) -> None:
    """Each operand ends at a guard page, which would end the process; columns of the result beside are kept."""
    target = run_kernel.host_target(bits)
    panel, room = tile(DTYPES[dtype], target).panel, 3
    b = KernelBuilder("product")
    left, right, out = b.input(DTYPES[dtype]), b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    rows, cols, depth, c_stride, a_stride, b_stride, resumes = map(b.size, map(_symbol, "rcdxyza"))
    places = [out, b.index(0), c_stride, left, b.index(0), a_stride, right, b.index(0), b_stride]
    accumulate = b.compare(resumes, b.index(0), "NE")
    b.product(Product(*places, rows, cols, depth, accumulate, major, packed, panel))
    loaded = run_kernel.Loaded(b.finish(1), target)
    for m, n, k in ((1, 1, 1), (7, panel - 1, 9), (13, panel + 3, 5), (24, 2 * panel, 3), (5, 2 * panel + 1, 0)):
        a, whole = random((m, k), dtype, 0), np.zeros((k, -(-n // panel) * panel), DTYPES[dtype].numpy)
        whole[:, :n] = random((k, n), dtype, 1)
        panels = np.concatenate([whole[:, at : at + panel].ravel() for at in range(0, n, panel)])
        operands = [_fenced(x)[1] for x in (a if major == "row" else np.ascontiguousarray(a.T), panels)]
        operands[1] = operands[1] if packed else _fenced(np.ascontiguousarray(whole[:, :n]))[1]
        strides = {"x": n + room, "y": k if major == "row" else m, "z": k * panel if packed else n}
        for add in (0, 1):
            before = random((m, n + room), dtype, 2)
            _, result = _fenced(before.ravel()[: m * (n + room) - room])
            loaded(operands, [result], {"r": m, "c": n, "d": k, "a": add, **strides})
            got = np.append(result, before.ravel()[result.size :]).reshape(before.shape)
            assert_near(got[:, :n], before[:, :n] * add + a @ whole[:, :n], 1e-5)
            assert got[:, n:].tobytes() == before[:, n:].tobytes()


def _symbol(name: str) -> Dim:
    return dim.sym(name, 1)
