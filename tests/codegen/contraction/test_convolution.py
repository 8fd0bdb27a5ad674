"""`convolution` kernels against XLA: labels, strides, padding, dilation, reversal, groups, gradients."""

from __future__ import annotations

import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tests.codegen import run_unit
from tfxla_cluster.codegen.kernel.lower.contraction_operand import Axis, merged
from tfxla_cluster.ir import dim, text


def module(lhs, rhs, window, labels, out, dtype="f32", groups="") -> str:
    return f"""HloModule conv

ENTRY main {{
  p0 = {dtype}[{",".join(map(str, lhs))}] parameter(0)
  p1 = {dtype}[{",".join(map(str, rhs))}] parameter(1)
  ROOT conv = {out} convolution(p0, p1), window={{{window}}}, dim_labels={labels}{groups}
}}
"""


def out_shape(lhs, rhs, window, labels, dtype, groups) -> str:
    """The result's shape by XLA's rule, so that cases need not spell it."""
    fields = dict(part.split("=") for part in window.split())
    sizes = [int(x) for x in fields["size"].split("x")] if window else []
    left, rest = labels.split("_")
    right, result = rest.split("->")
    dims = {"b": lhs[left.index("b")], "f": rhs[right.index("o")]}
    if "batch_group_count" in groups:
        dims["b"] //= int(groups.split("batch_group_count=")[1].split(",")[0])

    def field(name: str, default: str, d: int) -> str:
        return fields[name].split("x")[d] if name in fields else default

    for d, size in enumerate(sizes):
        low, high = (int(x) for x in field("pad", "0_0", d).split("_"))
        base, dilation = int(field("lhs_dilate", "1", d)), int(field("rhs_dilate", "1", d))
        n = lhs[left.index(str(d))]
        padded = ((n - 1) * base + 1 if n else 0) + low + high
        reach = (size - 1) * dilation + 1
        dims[str(d)] = max(0, (padded - reach) // int(field("stride", "1", d)) + 1) if padded >= reach else 0
    return f"{dtype}[{','.join(str(dims[c]) for c in result)}]"


TOLERANCE = {"f32": 3e-6, "c64": 3e-6, "f64": 1e-14, "bf16": 1e-2, "f16": 2e-3}


def check(lhs, rhs, window, labels, dtype="f32", groups="") -> None:
    hlo = module(lhs, rhs, window, labels, out_shape(lhs, rhs, window, labels, dtype, groups), dtype, groups)
    root = text.parse(hlo).entry.root
    rng = np.random.default_rng(0)
    kind = root.shape.dtype.kind
    arrays = []
    for operand in root.operands:
        dims = operand.shape.dims
        x = rng.integers(-4, 5, dims) if kind == "int" else rng.standard_normal(dims)
        if kind == "complex":
            x = x + 1j * rng.standard_normal(dims)
        arrays.append(x.astype(operand.shape.dtype.numpy))
    (got,) = run_unit.run(root, arrays)
    (want,) = oracle.run(hlo, arrays)
    depth = arrays[1].size / max(1, rhs[labels.split("_")[1].index("o")])
    tolerance = TOLERANCE.get(dtype, 0) * (2 + depth**0.5)
    assert_near(got, want, tolerance)


FORWARD = [
    ((2, 8, 8, 1), (3, 3, 1, 32), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((2, 9, 7, 5), (3, 3, 5, 17), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((2, 9, 7, 16), (3, 3, 16, 32), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((3, 11, 13, 3), (7, 7, 3, 16), "size=7x7 stride=2x2 pad=3_3x3_3", "b01f_01io->b01f"),
    ((2, 10, 10, 8), (3, 3, 8, 24), "size=3x3 stride=2x2 pad=0_1x0_1", "b01f_01io->b01f"),
    ((2, 6, 6, 20), (1, 1, 20, 40), "size=1x1", "b01f_01io->b01f"),
    ((2, 6, 6, 20), (1, 1, 20, 16), "size=1x1 stride=2x2", "b01f_01io->b01f"),
    ((2, 9, 9, 4), (3, 3, 4, 5), "size=3x3 rhs_dilate=2x2 pad=2_2x2_2", "b01f_01io->b01f"),
    ((2, 9, 9, 4), (3, 2, 4, 5), "size=3x2 pad=-1_2x0_-1", "b01f_01io->b01f"),
    ((2, 9, 4), (3, 4, 5), "size=3 pad=1_1", "b0f_0io->b0f"),
    ((2, 5, 6, 7, 3), (3, 3, 3, 3, 9), "size=3x3x3 stride=1x2x1 pad=1_1x1_1x1_1", "b012f_012io->b012f"),
    ((2, 4, 9, 8), (6, 4, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    ((2, 4, 9, 8), (6, 4, 3, 3), "size=3x3 stride=2x3 pad=1_1x2_0", "bf01_oi01->bf01"),
    ((9, 4, 8, 2), (3, 3, 6, 4), "size=3x3 pad=1_1x1_1", "0f1b_01oi->f01b"),
    ((2, 6, 6, 4), (3, 3, 4, 1), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((1, 3, 3, 4), (3, 3, 4, 8), "size=3x3", "b01f_01io->b01f"),
    ((0, 6, 6, 4), (3, 3, 4, 8), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((2, 6, 6, 0), (3, 3, 0, 8), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((2, 2, 2, 3), (5, 5, 3, 8), "size=5x5 pad=2_2x2_2", "b01f_01io->b01f"),
    ((2, 40, 40, 8), (3, 3, 8, 16), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
]


@pytest.mark.parametrize("case", FORWARD, ids=str)
def test_forward(case) -> None:
    check(*case)


GRADIENTS = [
    # Of the input: reversed window with its features exchanged; a strided forward dilates the base.
    ((2, 9, 7, 17), (3, 3, 5, 17), "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01oi->b01f"),
    ((2, 5, 5, 24), (3, 3, 8, 24), "size=3x3 pad=2_1x2_1 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f"),
    ((2, 4, 5, 6), (2, 2, 3, 6), "size=2x2 pad=1_1x1_3 lhs_dilate=3x2", "b01f_01oi->b01f"),
    ((2, 3, 3, 16), (1, 1, 20, 16), "size=1x1 pad=0_1x0_1 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f"),
    ((2, 4, 4, 6), (3, 3, 5, 6), "size=3x3 stride=2x3 pad=2_2x2_2 lhs_dilate=3x2 rhs_dilate=2x1", "b01f_01oi->b01f"),
    # Of the window: batch and feature exchange roles; a strided forward dilates the window.
    ((2, 9, 7, 5), (2, 9, 7, 17), "size=9x7 pad=1_1x1_1", "f01b_i01o->01bf"),
    ((3, 8, 8, 1), (3, 8, 8, 32), "size=8x8 pad=1_1x1_1", "f01b_i01o->01bf"),
    ((2, 10, 10, 8), (2, 5, 5, 24), "size=5x5 pad=0_1x0_1 rhs_dilate=2x2", "f01b_i01o->01bf"),
    ((2, 6, 6, 20), (2, 6, 6, 40), "size=6x6", "f01b_i01o->01bf"),
    ((2, 6, 6, 20), (2, 3, 3, 16), "size=3x3 pad=0_-1x0_-1 rhs_dilate=2x2", "f01b_i01o->01bf"),
]


@pytest.mark.parametrize("case", GRADIENTS, ids=str)
def test_gradients(case) -> None:
    check(*case)


GROUPS = [
    ((2, 9, 7, 12), (3, 3, 1, 12), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=12"),
    ((2, 9, 7, 12), (3, 3, 1, 24), "size=3x3 stride=2x2 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=12"),
    ((2, 9, 7, 12), (3, 3, 4, 18), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=3"),
    (
        (2, 5, 5, 12),
        (3, 3, 1, 12),
        "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        "b01f_01io->b01f",
        ", feature_group_count=12",
    ),
    ((2, 9, 7, 12), (2, 9, 7, 12), "size=9x7 pad=1_1x1_1", "f01b_i01o->01bf", ", batch_group_count=12"),
    ((2, 9, 7, 12), (2, 9, 7, 18), "size=9x7 pad=1_1x1_1", "f01b_i01o->01bf", ", batch_group_count=6"),
    ((4, 6, 6, 5), (3, 3, 5, 8), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", batch_group_count=2"),
    ((2, 9, 12), (2, 9, 70), "size=9 pad=1_1", "f0b_i0o->0bf", ", batch_group_count=2"),
]


@pytest.mark.parametrize("case", GROUPS, ids=str)
def test_groups(case) -> None:
    check(*case[:4], groups=case[4])


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "c64"])
@pytest.mark.parametrize("case", [FORWARD[1], FORWARD[4], GRADIENTS[1], GRADIENTS[5], GROUPS[0]], ids=str)
def test_dtypes(case, dtype) -> None:
    check(*case[:4], dtype=dtype, groups=case[4] if len(case) > 4 else "")


@pytest.mark.parametrize("case", [FORWARD[1], GRADIENTS[1]], ids=str)
def test_integers(case) -> None:
    check(*case, dtype="s32")


def test_padding_stays_zero_beside_infinities() -> None:
    hlo = module((1, 4, 4, 3), (3, 3, 3, 5), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "f32[1,4,4,5]")
    image, taps = np.ones((1, 4, 4, 3), np.float32), np.ones((3, 3, 3, 5), np.float32)
    taps[0] = np.inf  # meets only padding in the first output row: 0 * inf is NaN there, and nowhere else
    image[0, 3, 3] = np.nan
    (got,) = run_unit.run(text.parse(hlo).entry.root, [image, taps])
    (want,) = oracle.run(hlo, [image, taps])
    assert np.isnan(got[0, 0]).all() or (got[0, 0] == want[0, 0]).all()
    np.testing.assert_array_equal(got[0, 1:], want[0, 1:])


def test_one_kernel_serves_many_batch_sizes() -> None:
    hlo = module((4, 9, 7, 5), (3, 3, 5, 17), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "f32[4,9,7,17]")
    root = text.parse(hlo).entry.root
    batch = dim.sym("n", 4)
    image = root.operands[0].replace(shape=root.operands[0].shape.with_dims((batch, 9, 7, 5)))
    symbolic = root.replace(operands=(image, root.operands[1]), shape=root.shape.with_dims((batch, 9, 7, 17)))
    rng = np.random.default_rng(0)
    taps = rng.standard_normal((3, 3, 5, 17), dtype=np.float32)
    for n in (1, 4, 11):
        x = rng.standard_normal((n, 9, 7, 5), dtype=np.float32)
        (got,) = run_unit.run(symbolic, [x, taps], {"n": n})
        (want,) = oracle.run(hlo.replace("[4,9", f"[{n},9"), [x, taps])
        assert_near(got, want, 1e-6)


def test_dims_of_sizes_that_are_one_run_of_memory_become_one() -> None:
    """However their strides are written."""
    n = dim.sym("n", 9)
    axes = [Axis(4, n * n * 32), Axis(n, 32 * n), Axis(n, 32)]
    assert [(dim.evaluate(a.extent, {"n": 5}), a.step) for a in merged(axes)] == [(100, 32)]
    assert len(merged([Axis(4, n * n * 33), *axes[1:]])) == 2
