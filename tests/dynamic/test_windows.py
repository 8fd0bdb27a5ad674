"""Windows that follow a size: modules for all sizes of cumulative ops, pooling and gradients of convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.dynamic.test_unify import Body, check_at, check_in_triton, drawn, floats, lowered, misfit, unified
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.dynamic import prove
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import ConvDims, Instr, WindowDim
from tfxla_cluster.ir.size_values import named_sizes

LINE = ConvDims(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
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


def _chosen(b: Builder, n: int, m: int) -> list[Instr]:
    """The gradient of running and of overall maxima: where each was."""
    x, most = floats(b, n, m), floats(b, n, 1)
    combine = [scalar_computation(opcode, "f32", opcode) for opcode in ("GE", "add")]
    rows, running = (WindowDim(1), WindowDim(m)), (WindowDim(n, 1, n - 1, 0), WindowDim(1))
    return [b.select_and_scatter(x, s, b.constant(0.5), w, *combine) for s, w in ((most, rows), (x, running))]


FITTED: dict[str, Body] = {"cumulative": _cumulative, "by-window": _by_window, "chosen": _chosen}


@pytest.mark.parametrize("name", FITTED)
def test_one_module(name: str) -> None:
    body = FITTED[name]
    generic = unified(body, (32, 10), (48, 14))
    for sizes in ((32, 10), (5, 2), (2, 31), (23, 29)):
        check_at(body, generic, *sizes)


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
@pytest.mark.parametrize("name", FITTED)
def test_kernels_of_gpus_are_for_all_sizes_too(name: str) -> None:
    check_in_triton(FITTED[name])


def _same(size: int, taps: int, step: int) -> tuple[int, WindowDim]:
    """The result's size, and the window of TensorFlow's padding SAME."""
    out = -(-size // step)
    total = max((out - 1) * step + taps - size, 0)
    return out, WindowDim(taps, step, total // 2, total - total // 2)


def _network(b: Builder, n: int) -> list[Instr]:
    """Two strided layers and their gradients, by the image and by the windows, which pass through arrays of size n."""
    (half, first), (quarter, second) = _same(n, 3, 2), _same(-(-n // 2), 3, 2)
    x, weights = floats(b, 2, n, 3), [floats(b, 3, 3, 4), floats(b, 3, 4, 4)]
    y = b.convolution(x, weights[0], window=(first,), dim_labels=LINE)
    z = b.convolution(y, weights[1], window=(second,), dim_labels=LINE)
    by_second = _line_by_window(b, y, z, second, (half, quarter))
    dy = _line_by_image(b, z, weights[1], second, (half, quarter))
    by_first = _line_by_window(b, x, b.add(y, dy), first, (n, half))
    return [b.add(x, _line_by_image(b, dy, weights[0], first, (n, half))), by_first, by_second]


def _line_by_window(b: Builder, image: Instr, result: Instr, w: WindowDim, sizes: tuple[int, int]) -> Instr:
    size, out = sizes
    high = w.size - 1 + (out - 1) * w.stride + 1 - size - w.pad_low
    around = WindowDim(out, 1, w.pad_low, high, 1, w.stride)
    return b.convolution(image, result, window=(around,), dim_labels=ConvDims(2, 0, (1,), 0, 2, (1,), 1, 2, (0,)))


def _line_by_image(b: Builder, result: Instr, weights: Instr, w: WindowDim, sizes: tuple[int, int]) -> Instr:
    size, out = sizes
    low = w.size - 1 - w.pad_low
    around = WindowDim(w.size, 1, low, size + w.size - 2 - (out - 1) * w.stride - low, w.stride, 1, True)
    return b.convolution(result, weights, window=(around,), dim_labels=ConvDims(0, 2, (1,), 2, 1, (0,), 0, 2, (1,)))


@pytest.mark.parametrize("rest", range(4))
def test_strided_convolutions_have_a_module_for_each_residue_class(rest: int) -> None:
    """Two strides of 2: images that leave the same by 4."""
    generic = unified(_network, (rest + 16,), (rest + 24,))
    (size,) = named_sizes(generic.module).values()
    assert (size.every, size.rest) == (4, rest)
    for n in {rest + 4, rest + 36, rest} - {0, 1}:
        check_at(_network, generic, n)
    other = prove.prove(generic, lowered(_network, rest + 17))
    assert "the size s0 is" in other.reason
    assert "a multiple of 4" in other.reason


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_kernels_of_gpus_are_for_a_residue_class_too() -> None:
    generic = unified(_network, (13,), (17,))
    executable = gpu_module.compiled(generic.module, gpu_module.Checked()).executable
    for size in (5, 9):
        own = lowered(_network, size).module
        args = drawn(own, 7)
        for got, want in zip(executable.run(args), evaluate(own, args), strict=True):
            assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes()), size


def test_sizes_that_need_no_class_are_in_none() -> None:
    def body(b: Builder, n: int, m: int) -> list[Instr]:
        return [b.negate(floats(b, m, 3)), b.reshape(floats(b, n, 3), (n // 2, 6))]

    generic = unified(body, (8, 4), (16, 12))
    assert sorted(size.every for size in named_sizes(generic.module).values()) == [1, 2]
    for sizes in ((2, 5), (10, 7), (4, 4)):
        check_at(body, generic, *sizes)


def test_ranges_are_no_narrower_than_they_have_to_be() -> None:
    """Seen at 20 and 30, right from 5 on."""

    def body(b: Builder, n: int) -> list[Instr]:
        add = scalar_computation("add", "f32")
        x = b.reduce_window([floats(b, n)], [b.constant(0.0)], [WindowDim(5)], add)
        return [b.reduce_window([floats(b, n)], [b.constant(0.0)], [WindowDim(n - 4)], add), x]

    generic = unified(body, (20,), (30,))
    assert [size.low for size in named_sizes(generic.module).values()] == [5]
    check_at(body, generic, 5)


def test_saved_values_of_a_forward_pass_follow_the_image() -> None:
    """Arguments of a gradient: an odd size and half of it, rounded up."""

    def body(b: Builder, n: int) -> list[Instr]:
        half = (n + 1) // 2
        image, result = floats(b, 2, n, 3), floats(b, 2, half, 4)
        return [_line_by_window(b, image, result, _same(n, 3, 2)[1], (n, half))]

    generic = unified(body, (9,), (15,))
    for n in (9, 3, 21):
        check_at(body, generic, n)


def test_steps_are_numbers() -> None:
    def body(b: Builder, n: int) -> list[Instr]:
        window = [WindowDim(2, n)]
        return [b.reduce_window([floats(b, 4 * n)], [b.constant(0.0)], window, scalar_computation("add", "f32"))]

    said = misfit(body, (4,), (6,))
    assert "%reduce-window (reduce-window): window differs: (WindowDim(size=2, stride=4" in said


def test_literals_follow_sizes_of_a_class() -> None:
    """Means of half an image, and counts of its points."""

    def body(b: Builder, n: int) -> list[Instr]:
        half = b.reshape(floats(b, n, 3), (n // 2, 6))
        total = b.reduce([half], [b.constant(0.0)], [0], scalar_computation("add", "f32"))
        scale = b.broadcast(b.constant(np.float32(1 / (n // 2))), (6,))
        return [b.multiply(total, scale), b.constant(n // 2 * 6), b.constant(np.arange(n // 2, dtype=np.int32))]

    generic = unified(body, (8,), (14,))
    for n in (2, 10, 34):
        check_at(body, generic, n)
