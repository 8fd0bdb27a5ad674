"""reduce-window, select-and-scatter, scatter and sort against XLA, from HLO text."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tests.codegen import run_unit
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module, WindowDim
from tfxla_cluster.ir.shape import array
from tfxla_cluster.ir.text import parse, render

SCALARS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
mul { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] multiply(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
"""


def check(shapes: str, root: str, arrays: list[np.ndarray], tolerance: float = 1e-6, extra: str = "") -> None:
    """`shapes`: HLO types of p0, p1, ...; `root`: the text of the instruction over them."""
    params = "\n".join(f"p{i} = {s} parameter({i})" for i, s in enumerate(shapes.split("; ")))
    text = f"HloModule m\n{SCALARS}{extra}\nENTRY e {{\n{params}\nROOT r = {root}\n}}"
    expected = oracle.run(text, arrays)
    instr = parse(text).entry.root
    found = run_unit.run(instr, [arrays[o.attrs["parameter_number"]] for o in instr.operands])
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert_near(ours, theirs, tolerance)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


WINDOWS = [
    ("f32[2,8,8,5]", "f32[2,4,4,5]", "size=1x2x2x1 stride=1x2x2x1", "max"),
    ("f32[2,9,7,16]", "f32[2,5,4,16]", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", "max"),
    ("f32[2,9,7,3]", "f32[2,7,5,3]", "size=1x3x3x1", "add"),
    ("f32[5,40]", "f32[5,18]", "size=1x5 stride=1x2 pad=0_0x0_0", "add"),
    ("f32[33]", "f32[17]", "size=3 stride=2 pad=1_1", "mul"),
    ("f32[3,6,7]", "f32[3,11,7]", "size=1x2x1 pad=0_0x1_0x0_0 lhs_dilate=1x2x1", "add"),
    ("f32[3,20,4]", "f32[3,12,4]", "size=1x3x1 rhs_dilate=1x4x1", "add"),
    ("f32[4,1,1,8]", "f32[4,1,1,8]", "size=1x1x1x1", "add"),
    ("f32[1,64,2]", "f32[1,1,2]", "size=1x64x1", "add"),
]


@pytest.mark.parametrize(("source", "result", "window", "op"), WINDOWS)
def test_reduce_window(source, result, window, op):
    dims = [int(d) for d in source[4:-1].split(",")]
    start = np.array(-np.inf if op == "max" else 1.0 if op == "mul" else 0.0, np.float32)
    check(
        f"{source}; f32[]",
        f"{result} reduce-window(p0, p1), window={{{window}}}, to_apply={op}",
        [normal(*dims), start],
        1e-5,
    )


FROM_THREE = {  # a combiner of one or two operands, as rows of opcodes: from initial values of 3
    "sum": ("add",),
    "most": ("maximum",),
    "product": ("multiply",),
    "both": ("add", "minimum"),
}


def _drawn_window(rng: random.Random, dims: list[int]) -> list[WindowDim]:
    """Padding that is negative or longer than the window, holes, windows that nothing fits."""
    if rng.random() < 0.3 and dims[0]:
        ends = (dims[0] - 1, 0)
        return [WindowDim(dims[0], 1, *rng.choice((ends, ends[::-1]))), *(WindowDim(1) for _ in dims[1:])]
    return [
        WindowDim(
            rng.randint(1, 4),
            rng.randint(1, 3),
            *(rng.randint(-2, 5) for _ in range(2)),
            rng.randint(1, 3),
            rng.randint(1, 2),
        )
        for _ in dims
    ]


@pytest.mark.parametrize("dtype", ["s32", "f32"])
@pytest.mark.parametrize("name", FROM_THREE)
def test_initial_value_counts_once_a_window(name: str, dtype: str) -> None:
    """Drawn windows from an initial value that is not neutral: XLA, the evaluator, compiled code."""
    rng, opcodes = random.Random(name + dtype), FROM_THREE[name]
    for seed in range(12):
        dims = [rng.choice((0, 1, 2, 5, 7, 12)) for _ in range(rng.randint(1, 2))]
        b, body = Builder("m"), Builder("f")
        arrays, inits = (
            [b.parameter(array(DTYPES[dtype], dims)) for _ in opcodes],
            [b.parameter(f"{dtype}[]") for _ in opcodes],
        )
        sides = [[body.parameter(f"{dtype}[]") for _ in opcodes] for _ in range(2)]
        comp = body.build(*(body.add_op(o, *pair) for o, pair in zip(opcodes, zip(*sides))))
        root = b.reduce_window(arrays, inits, _drawn_window(rng, dims), comp)
        module = Module("m", b.build(root))
        values = [
            np.random.default_rng(seed + n).integers(-3, 4, dims).astype(DTYPES[dtype].numpy)
            for n in range(len(opcodes))
        ]
        args = [*values, *(np.asarray(3, v.dtype) for v in values)]
        want = oracle.run(render(module), args)
        for found in (evaluate(module, args), run_unit.run(root, args)):
            for ours, theirs in zip(found, want, strict=True):
                np.testing.assert_array_equal(ours, theirs, err_msg=render(module))


def test_a_window_of_padding_alone_selects_nothing() -> None:
    text = (
        f"HloModule m\n{SCALARS}\nENTRY e {{ x = f32[3] parameter(0)\n s = f32[4] parameter(1)\n"
        "i = f32[] parameter(2)\n"
        "ROOT r = f32[3] select-and-scatter(x, s, i), window={size=2 stride=2 pad=2_3}, select=ge, scatter=add }"
    )
    module, args = parse(text), [normal(3), np.array([10, 20, 40, 80], np.float32), np.float32(0.5)]
    want = np.array([0.5, 0.5, 40.5], np.float32)
    want[int(np.argmax(args[0][:2]))] += 20
    for found in (evaluate(module, args), run_unit.run(module.entry.root, args)):
        np.testing.assert_array_equal(found[0], want)


SCANS = [
    (shape, axis, reverse)
    for shape, axis in [((4, 33), 1), ((33, 4), 0), ((3, 17, 5), 1), ((7,), 0)]
    for reverse in (False, True)
]


@pytest.mark.parametrize(("shape", "axis", "reverse"), SCANS)
def test_cumulative_sum(shape, axis, reverse):
    size = "x".join(str(d if i == axis else 1) for i, d in enumerate(shape))
    ends = [(0, shape[axis] - 1) if reverse else (shape[axis] - 1, 0)]
    pad = "x".join("{}_{}".format(*(ends[0] if i == axis else (0, 0))) for i in range(len(shape)))
    kind = f"f32[{','.join(map(str, shape))}]"
    check(
        f"{kind}; f32[]",
        f"{kind} reduce-window(p0, p1), window={{size={size} pad={pad}}}, to_apply=add",
        [normal(*shape), np.float32(0)],
        1e-5,
    )


SELECTS = [
    ("f32[2,8,8,5]", "f32[2,4,4,5]", "size=1x2x2x1 stride=1x2x2x1"),
    ("f32[2,9,7,16]", "f32[2,4,3,16]", "size=1x3x3x1 stride=1x2x2x1"),  # overlapping windows
    ("f32[2,9,7,3]", "f32[2,5,4,3]", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
    ("f32[10,6]", "f32[5,3]", "size=2x2 stride=2x2"),
    ("f32[2,1,1,4]", "f32[2,1,1,4]", "size=1x1x1x1"),
]


@pytest.mark.parametrize(("operand", "source", "window"), SELECTS)
def test_select_and_scatter(operand, source, window):
    full, small = ([int(d) for d in s[4:-1].split(",")] for s in (operand, source))
    ties = np.round(normal(*full) * 2) / 2  # equal values: the first in the window wins
    check(
        f"{operand}; {source}; f32[]",
        f"{operand} select-and-scatter(p0, p1, p2), window={{{window}}}, select=ge, scatter=add",
        [ties, normal(*small, seed=1), np.float32(0)],
    )


def test_scatter_add_rows_with_repeats_and_out_of_range():
    rows = np.array([[3], [0], [3], [9], [-1], [2]], np.int32)
    check(
        "f32[7,70]; s32[6,1]; f32[6,70]",
        "f32[7,70] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        [normal(7, 70), rows, normal(6, 70, seed=2)],
        1e-5,
    )


def test_scatter_points_and_index_dim_beyond_rank():
    check(
        "f32[6]; s32[4]; f32[4]",
        "f32[6] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mul",
        [normal(6), np.array([5, 0, 5, 2], np.int32), normal(4, seed=3)],
    )


def test_scatter_windows_inside_larger_dims():
    check(
        "f32[9,8]; s32[3,2]; f32[3,2,5]",
        "f32[9,8] scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add",
        [normal(9, 8), np.array([[0, 0], [7, 3], [8, 1]], np.int32), normal(3, 2, 5, seed=4)],
    )


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((5,), 0), ((100,), 0), ((7, 33), 1), ((33, 7), 0), ((3, 50, 2), 1), ((70001,), 0), ((0,), 0)],
)
def test_sort(shape, axis):
    kind = f"f32[{','.join(map(str, shape))}]"
    check(kind, f"{kind} sort(p0), dimensions={{{axis}}}, is_stable=true, to_apply=lt", [normal(*shape)])


def test_sort_pairs_is_stable():
    less = """
pair { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT }
"""
    values = np.round(normal(3, 200))
    numbers = np.broadcast_to(np.arange(200, dtype=np.int32), (3, 200)).copy()
    check(
        "f32[3,200]; s32[3,200]",
        "(f32[3,200], s32[3,200]) sort(p0, p1), dimensions={1}, is_stable=true, to_apply=pair",
        [values, numbers],
        extra=less,
    )


@pytest.mark.parametrize(("kind", "state"), [("u32[5]", 3), ("u32[4,33]", 3), ("u64[7]", 3), ("u32[9000]", 3)])
def test_philox(kind, state):
    words = np.array([0x0123456789ABCDEF, 2**64 - 2, 5][:state], np.uint64)
    text = (
        f"HloModule m\nENTRY e {{\np0 = u64[{state}] parameter(0)\n"
        f"ROOT r = (u64[{state}], {kind}) rng-bit-generator(p0), algorithm=rng_philox\n}}"
    )
    expected = oracle.run(text, [words])
    for ours, theirs in zip(run_unit.run(parse(text).entry.root, [words]), expected):
        np.testing.assert_array_equal(ours, theirs)


TOTAL = """
total {{ a = {0}[] parameter(0) b = {0}[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT r = pred[] compare({1}), direction={2}{3} }}
"""


def hostile(kind: str, *shape: int) -> np.ndarray:
    """Values with ties, both zeros, infinities and NaN of both signs; of integers the ends of the range."""
    rng = np.random.default_rng(5)
    if kind.startswith("f"):
        x = np.round(rng.standard_normal(shape) * 50).astype(f"f{int(kind[1:]) // 8}")
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], x.dtype)
    else:
        dtype = np.dtype({"s": "i", "u": "u"}[kind[0]] + str(int(kind[1:]) // 8))
        x = rng.integers(-100 if kind[0] == "s" else 0, 100, shape).astype(dtype)
        special = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    x.reshape(-1)[rng.integers(0, x.size, 8 * len(special))] = np.tile(special, 8)
    return x


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "s32", "u32", "s64", "u8", "s8", "u16"])
@pytest.mark.parametrize(("args", "direction"), [("a, b", "LT"), ("a, b", "GT"), ("b, a", "LT")])
@pytest.mark.parametrize(("shape", "axis"), [((600,), 0), ((40001,), 0), ((3, 700, 2), 1)])
def test_sort_by_bytes_of_the_key(kind, args, direction, shape, axis):
    total = TOTAL.format(kind, args, direction, ", type=TOTALORDER" if kind[0] == "f" else "")
    values = hostile(kind, *shape)
    numbers = np.arange(values.size, dtype=np.int32).reshape(shape)
    dims = ",".join(map(str, shape))
    check(
        f"{kind}[{dims}]; s32[{dims}]",
        f"({kind}[{dims}], s32[{dims}]) sort(p0, p1), dimensions={{{axis}}}, is_stable=true, to_apply=total",
        [values, numbers],
        0,
        extra=total,
    )


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "s32", "u32", "s64", "u8"])
@pytest.mark.parametrize(
    ("shape", "k", "largest"),
    [((5, 300), 8, "true"), ((5, 300), 8, "false"), ((17,), 17, "true"), ((2, 3, 40), 1, "true"), ((4, 9), 0, "false")],
)
def test_topk(kind, shape, k, largest):
    values = hostile("f32" if kind == "bf16" else kind, *shape)
    if kind == "bf16":
        values = values.astype(ml_dtypes.bfloat16)
    dims, short = ",".join(map(str, shape)), ",".join(map(str, (*shape[:-1], k)))
    text = (
        f"HloModule m\nENTRY e {{ p = {kind}[{dims}] parameter(0)\n"
        f"ROOT r = ({kind}[{short}], s32[{short}]) topk(p), k={k}, largest={largest} }}"
    )
    module = parse(text)
    expected = evaluate(module, [values])
    for ours, theirs in zip(run_unit.run(module.entry.root, [values]), expected):
        assert ours.tobytes() == theirs.tobytes()
