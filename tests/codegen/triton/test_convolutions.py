"""Convolutions on a GPU against XLA: the CPU's cases of labels, windows, gradients and groups, other types, fused work,
values outside the image; by Triton's interpreter and by that of kernel IR, which checks every access."""

from __future__ import annotations

import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tests.codegen.contraction.test_convolution import FORWARD, GRADIENTS, GROUPS, TOLERANCE, module, out_shape
from tests.codegen.triton import gpu_module
from tests.hlo_case import Array
from tfxla_cluster import compiler
from tfxla_cluster.codegen.kernel.choice import Choice, Given
from tfxla_cluster.codegen.kernel.lower.gpu import channels, image_choice, product_blocks
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.ir import text

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())
TF32 = 1e-3  # of products whose operand is read so often that it is copied first, and rounded
LARGE = 2 * 40 * 40 * 8  # elements of an image that only one interpreter takes


def source(lhs, rhs, window, labels, groups="", dtype="f32") -> str:
    return module(lhs, rhs, window, labels, out_shape(lhs, rhs, window, labels, dtype, groups), dtype, groups)


def check(hlo: str, args: list[Array], tolerance: float) -> None:
    want = oracle.run(hlo, args)
    for backend in BACKENDS[: 1 if args[0].size >= LARGE else 2]:
        got = gpu_module.compiled(text.parse(hlo), backend).executable.run(args)
        for one, other in zip(got, want, strict=True):
            assert_near(one, other, tolerance)


def drawn(hlo: str) -> list[Array]:
    rng, found = np.random.default_rng(0), []
    for parameter in text.parse(hlo).entry.params:
        dims, kind = parameter.shape.dims, parameter.shape.element_type.kind
        values = rng.integers(-4, 5, dims) if kind == "int" else rng.standard_normal(dims)
        found.append(np.asarray(values).astype(parameter.shape.element_type.numpy))
    return found


@pytest.mark.parametrize("case", [*FORWARD, *GRADIENTS, *GROUPS], ids=str)
def test_case(case) -> None:
    hlo = source(*case)
    check(hlo, drawn(hlo), TF32 if case[0] == (2, 40, 40, 8) else 1e-5)


# Enough features that blocks of the depth stay within one point of the window.
RUNS = [
    ((1, 6, 7, 32), (3, 3, 32, 16), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((1, 7, 6, 32), (3, 3, 32, 16), "size=3x3 stride=2x2 pad=0_1x0_1 rhs_dilate=1x2", "b01f_01io->b01f"),
    ((1, 32, 5, 6), (16, 32, 3, 2), "size=3x2 pad=1_1x0_1", "bf01_oi01->bf01"),
    ((1, 4, 3, 32), (3, 3, 16, 32), "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f"),
    ((16, 4, 5, 3), (16, 4, 5, 17), "size=4x5 pad=1_1x1_1", "f01b_i01o->01bf"),
    ((16, 9, 9, 3), (16, 9, 9, 17), "size=9x9 pad=1_1x1_1", "f01b_i01o->01bf"),  # more points than a number has bits
    ((1, 5, 5, 48), (3, 3, 16, 24), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=3"),
]


@pytest.mark.parametrize("case", RUNS, ids=str)
def test_runs_of_features(case) -> None:
    hlo = source(*case)
    check(hlo, drawn(hlo), 1e-5)
    made = gpu_module.compiled(text.parse(hlo), BACKENDS[0])
    texts = [render(kernel).text for kernel in made.code.kernels.values()]
    assert any("% 16 + tl.arange" in text or "% 32 + tl.arange" in text for text in texts)


# Plain products, whose operands lie as matrices: the window has one point, or lies over the whole image in one place.
MATRICES = [
    ((2, 6, 6, 24), (1, 1, 24, 40), "size=1x1", "b01f_01io->b01f"),
    ((2, 6, 6, 24), (1, 1, 40, 24), "size=1x1", "b01f_01oi->b01f"),
    ((3, 6, 5, 24), (3, 6, 5, 40), "size=6x5", "f01b_i01o->01bf"),
]
FORMS = [
    {"descriptors": 0, "persistent": 0},
    {"descriptors": 1, "persistent": 0},
    {"descriptors": 2, "persistent": 1, "cols": 16},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("case", MATRICES, ids=str)
def test_plain_products(case, form: dict[str, int]) -> None:
    """Matrices are read, and results stored, in blocks."""
    hlo = source(*case, dtype="bf16")
    module = text.parse(hlo)
    args, choices = drawn(hlo), Given(module.entry.root.name, Choice(form))
    (want,) = oracle.run(hlo, args)
    for backend in BACKENDS:
        made = compiler.compile_module(module, backend, choices=choices)
        assert_near(made.executable.run(args)[0], want, 20 * TOLERANCE["bf16"])
        (kernel,) = made.code.kernels.values()
        assert render(kernel).text.count("make_tensor_descriptor") == (0, 2, 3)[form["descriptors"]]


SMALL = (product_blocks.Blocks(16, 16, 32, 4, 3),)
# Read in boxes: of neighbours in an image, of several images, of images at one point; of the points of a gradient.
IMAGES = [
    ((2, 8, 8, 16), (3, 3, 16, 32), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", {}),
    ((4, 6, 4, 32), (3, 3, 48, 32), "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01oi->b01f", {}),
    ((2, 7, 16, 32), (3, 1, 32, 32), "size=3x1 pad=2_2x0_0 rhs_dilate=2x1", "b01f_01io->b01f", {}),
    ((16, 5, 5, 16), (3, 3, 16, 32), "size=3x3 stride=2x2 pad=0_1x0_1", "b01f_01io->b01f", {}),
    ((16, 6, 6, 32), (1, 1, 32, 32), "size=1x1 stride=2x2", "b01f_01io->b01f", {}),
    ((16, 4, 6, 16), (16, 4, 6, 32), "size=4x6 pad=1_1x1_1", "f01b_i01o->01bf", {"depth": 32, "splits": 6}),
    ((2, 8, 4, 6, 16), (1, 3, 1, 16, 32), "size=1x3x1 pad=0_0x1_1x0_0", "b012f_012io->b012f", {}),
]


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("persistent", [0, 1])
@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_blocks_of_images(monkeypatch: pytest.MonkeyPatch, case, persistent: int, dtype: str) -> None:
    """Both operands come by descriptors, beside infinities too."""
    for table in ("_NARROW", "_WIDE"):
        monkeypatch.setattr(image_choice, table, SMALL)
    monkeypatch.setattr(image_choice, "_SPLIT_DEPTH", 64)
    monkeypatch.setattr(image_choice, "_PACK_READS", 0)  # an operand of f32 that is not in order is copied
    hlo = source(*case[:4], dtype=dtype)
    module = text.parse(hlo)
    args = drawn(hlo)
    args[0].flat[:: args[0].size // 5] = np.inf
    form = {"descriptors": 1, "persistent": persistent, **case[4]}
    (want,) = oracle.run(hlo, args)
    for backend in BACKENDS:
        made = compiler.compile_module(module, backend, choices=Given(module.entry.root.name, Choice(form)))
        assert_near(made.executable.run(args)[0], want, 20 * TOLERANCE["bf16"] if dtype == "bf16" else TF32)
        texts = [render(kernel).text for kernel in made.code.kernels.values()]
        (rendered,) = [text for text in texts if "tl.dot" in text]
        assert rendered.count("make_tensor_descriptor") == 2
        assert ".reshape(" in rendered


# Few features: a run of 7 points with room for 4, of 3 with room for 8, of 5 with 8; images of one dim and of two.
NARROW = [
    ((2, 9, 32, 3), (7, 7, 3, 16), "size=7x7 stride=2x2 pad=2_3x2_3", "b01f_01io->b01f"),
    ((1, 5, 16, 1), (3, 3, 1, 24), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((8, 3, 6, 5), (2, 5, 5, 16), "size=2x5 pad=0_1x4_0 rhs_dilate=2x1 rhs_reversal=0x1", "b01f_01io->b01f"),
    ((4, 18, 2), (4, 2, 32), "size=4 stride=2 pad=0_0", "b0f_0io->b0f"),
]


@pytest.mark.parametrize("case", NARROW, ids=str)
def test_images_of_few_features_are_copied_in_runs(monkeypatch: pytest.MonkeyPatch, case) -> None:
    """Beside infinities."""
    monkeypatch.setattr(image_choice, "_NARROW", SMALL)
    hlo = source(*case, dtype="bf16")
    module = text.parse(hlo)
    image, taps = drawn(hlo)
    image.flat[:: image.size // 5] = np.inf
    (want,) = oracle.run(hlo, [image, taps])
    for backend in BACKENDS:
        made = compiler.compile_module(module, backend)
        assert_near(made.executable.run([image, taps])[0], want, 20 * TOLERANCE["bf16"])
        *copies, product = (render(kernel).text for kernel in made.code.kernels.values())
        assert len(copies) == 2
        assert product.count("make_tensor_descriptor") >= 2


@pytest.mark.parametrize("dims", [(1, 5, 7, 32), (2, 8, 8, 20)], ids=str)
def test_no_blocks_where_images_have_no_boxes(dims: tuple[int, ...]) -> None:
    """Extents that no block divides; points that are no whole units of memory apart."""
    hlo = source(dims, (3, 3, dims[3], 32), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", dtype="bf16")
    (kernel,) = gpu_module.compiled(text.parse(hlo), BACKENDS[0]).code.kernels.values()
    assert "make_tensor_descriptor" not in render(kernel).text
    check(hlo, drawn(hlo), 20 * TOLERANCE["bf16"])


def test_a_window_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tf32: the depth of the copy is taken apart as that of the image, so that blocks stay in runs."""
    monkeypatch.setattr(product_blocks, "_PACK_READS", 0)
    hlo = source(*RUNS[0])
    check(hlo, drawn(hlo), TF32)
    copy, product = gpu_module.compiled(text.parse(hlo), BACKENDS[0]).code.kernels.values()
    assert "tl.dot" not in render(copy).text
    assert "% 32 + tl.arange" in render(product).text


def test_the_depth_of_channels_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a depthwise window: programs share the depth, and a second kernel adds their sums."""
    monkeypatch.setattr(channels, "_LEAST_DEPTH", 16)
    hlo = source((3, 5, 5, 6), (3, 5, 5, 6), "size=5x5 pad=1_0x0_1", "f01b_i01o->01bf", ", batch_group_count=6")
    check(hlo, drawn(hlo), 1e-5)
    made = gpu_module.compiled(text.parse(hlo), BACKENDS[0])
    assert len(made.plan.steps) == 2


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "s32"])
@pytest.mark.parametrize("case", [FORWARD[4], GRADIENTS[1], GRADIENTS[7]], ids=str)
def test_types(case, dtype: str) -> None:
    hlo = source(*case, dtype=dtype)
    check(hlo, drawn(hlo), 20 * TOLERANCE.get(dtype, 0))


FUSED = """HloModule fused
ENTRY main {
  image = bf16[2,9,7,5] parameter(0)
  taps = f32[3,3,5,17] parameter(1)
  bias = f32[17] parameter(2)
  wide = f32[2,9,7,5] convert(image)
  one = f32[] constant(1)
  ones = f32[2,9,7,5] broadcast(one), dimensions={}
  shifted = f32[2,9,7,5] add(wide, ones)
  conv = f32[2,9,7,17] convolution(shifted, taps), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  biases = f32[2,9,7,17] broadcast(bias), dimensions={3}
  sum = f32[2,9,7,17] add(conv, biases)
  zero = f32[] constant(0)
  zeros = f32[2,9,7,17] broadcast(zero), dimensions={}
  ROOT relu = f32[2,9,7,17] maximum(sum, zeros)
}
"""


def test_what_is_computed_before_and_after() -> None:
    """One kernel; the border is zero after the addition too, not one."""
    args = drawn(FUSED)
    check(FUSED, args, 1e-5)
    made = gpu_module.compiled(text.parse(FUSED), BACKENDS[0])
    assert len(made.code.kernels) == 1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_outside_the_image_is_zero_beside_infinities(dtype: str) -> None:
    hlo = source((1, 4, 4, 3), (3, 3, 3, 5), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", dtype=dtype)
    image, taps = drawn(hlo)
    image[0, 3, 3] = np.nan
    image[0, 0, 0] = -np.inf
    check(hlo, [image, np.abs(taps)], 2e-2)
