"""Windows that follow a size: modules for all sizes of cumulative ops, pooling and gradients of convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.dynamic.test_unify import Body, check_at, drawn, floats, lowered, misfit, unified
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import ConvDims, Instr, WindowDim

BY_WINDOW = ConvDims(3, 0, (1, 2), 0, 3, (1, 2), 2, 3, (0, 1))


def _cumulative(b: Builder, n: int, m: int) -> list[Instr]:
    """Windows over a whole dimension, padded in front or behind; sums of whole dimensions."""
    x, add, most = floats(b, n, m), scalar_computation("add", "f32"), scalar_computation("maximum", "f32", "most")
    rows, columns = (WindowDim(n, 1, n - 1, 0), WindowDim(1)), (WindowDim(1), WindowDim(m, 1, 0, m - 1))
    sums, largest = b.reduce_window([x], [b.constant(0.0)], rows, add), b.constant(np.float32(-np.inf))
    whole = b.reduce_window([x], [b.constant(1.0)], (WindowDim(n), WindowDim(m)), add)
    return [sums, b.reduce_window([x], [largest], columns, most), whole]


def _by_window(b: Builder, n: int, m: int) -> list[Instr]:
    """The gradient of a convolution by its window: the result's is the window, as large as the image."""
    x, result = floats(b, 2, n, m, 3), floats(b, 2, n, m, 4)
    return [b.convolution(x, result, window=(WindowDim(n, 1, 1, 1), WindowDim(m, 1, 2, 2)), dim_labels=BY_WINDOW)]


FITTED: dict[str, Body] = {"cumulative": _cumulative, "by-window": _by_window}


@pytest.mark.parametrize("name", FITTED)
def test_one_module(name: str) -> None:
    body = FITTED[name]
    generic = unified(body, (32, 10), (48, 14))
    for sizes in ((32, 10), (5, 2), (2, 31), (23, 29)):
        check_at(body, generic, *sizes)


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
@pytest.mark.parametrize("name", FITTED)
def test_kernels_of_gpus_are_for_all_sizes_too(name: str) -> None:
    """In Triton's interpreter."""
    body = FITTED[name]
    generic = unified(body, (32, 10), (48, 14))
    executable = gpu_module.compiled(generic.module, gpu_module.Interpreted()).executable
    for sizes in ((5, 2), (13, 9)):
        own = lowered(body, *sizes).module
        args = drawn(own, 7)
        for got, want in zip(executable.run(args), evaluate(own, args), strict=True):
            assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes()), sizes


def test_steps_are_numbers() -> None:
    def body(b: Builder, n: int) -> list[Instr]:
        window = [WindowDim(2, n)]
        return [b.reduce_window([floats(b, 4 * n)], [b.constant(0.0)], window, scalar_computation("add", "f32"))]

    said = misfit(body, (4,), (6,))
    assert "%reduce-window (reduce-window): window differs: (WindowDim(size=2, stride=4" in said
