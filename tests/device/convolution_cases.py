"""Convolutions for the device: operands read in boxes of images, images of few features, plain products."""

from __future__ import annotations

from collections.abc import Iterator

from tests.codegen.contraction.test_convolution import module, out_shape
from tests.device.product_cases import Product, exact
from tfxla_cluster.codegen.kernel.choice import Choice, Given
from tfxla_cluster.ir import text

Case = tuple[tuple[int, ...], tuple[int, ...], str, str]
READ, STORED = {"descriptors": 1, "persistent": 0}, {"descriptors": 2, "persistent": 1}
BOXES: list[Case] = [
    ((2, 8, 16, 64), (3, 3, 64, 64), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((8, 6, 4, 64), (3, 3, 128, 64), "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01oi->b01f"),
    ((64, 5, 5, 32), (3, 3, 32, 64), "size=3x3 stride=2x2 pad=0_1x0_1", "b01f_01io->b01f"),
    ((64, 6, 6, 64), (1, 1, 64, 64), "size=1x1 stride=2x2", "b01f_01io->b01f"),
    ((16, 8, 8, 64), (16, 8, 8, 64), "size=8x8 pad=1_1x1_1", "f01b_i01o->01bf"),
]
FURTHER: list[Case] = [
    ((4, 18, 32, 3), (7, 7, 3, 64), "size=7x7 stride=2x2 pad=2_3x2_3", "b01f_01io->b01f"),
    ((2, 9, 32, 1), (3, 3, 1, 24), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ((2, 12, 12, 72), (1, 1, 72, 136), "size=1x1", "b01f_01io->b01f"),
    ((3, 12, 5, 72), (3, 12, 5, 40), "size=12x5", "f01b_i01o->01bf"),
]
ULPS = {"bf16": 8, "f32": 8192}  # f32 is rounded to tf32


def convolutions() -> Iterator[Product]:
    """In each form that reads boxes, and in the default one."""
    for dtype in ULPS:
        for case in BOXES:
            for form in (READ, STORED):
                yield _convolution(case, dtype, form)
    for case in [*BOXES, *FURTHER]:
        yield _convolution(case, "bf16", {})


def _convolution(case: Case, dtype: str, form: dict[str, int]) -> Product:
    lhs, rhs, window, labels = case
    source = module(lhs, rhs, window, labels, out_shape(lhs, rhs, window, labels, dtype, ""), dtype)
    name = f"convolution-{window}-{dtype}-{'-'.join(map(str, form.values()))}"
    return Product(name, exact(text.parse(source)), ULPS[dtype], Given("conv", Choice(form)))
