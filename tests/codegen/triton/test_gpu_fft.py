"""fft on a GPU: lengths of every kind of factor, several dimensions, real operands and results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tfxla_cluster.codegen.kernel.lower.gpu import fft
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())


def source(kind: str, dims: tuple[int, ...], rank: int, wide: bool) -> str:
    """`dims`: of the whole lines; half of the last is there where they are spectra of real numbers."""
    real, whole = ("f64", "c128") if wide else ("f32", "c64")
    half = (*dims[:-1], dims[-1] // 2 + 1)
    shapes = {"RFFT": (real, dims, whole, half), "IRFFT": (whole, half, real, dims)}
    given, x, made, y = shapes.get(kind, (whole, dims, whole, dims))
    lengths = ",".join(map(str, dims[-rank:]))
    x_text, y_text = (",".join(map(str, d)) for d in (x, y))
    return (
        f"HloModule m\n\nENTRY e {{\n x = {given}[{x_text}] parameter(0)\n"
        f" ROOT r = {made}[{y_text}] fft(x), fft_type={kind}, fft_length={{{lengths}}}\n}}\n"
    )


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(
    ("dims", "rank"),
    [
        ((1,), 1),
        ((16,), 1),
        ((60,), 1),
        ((13,), 1),
        ((2, 26), 1),
        ((3, 4, 6), 2),
        ((2, 3, 5), 3),
        ((9, 1), 2),
        ((0, 8), 1),
    ],
)
def test_against_the_evaluator(kind: str, dims: tuple[int, ...], rank: int) -> None:
    wide = dims == (60,)
    module = text.parse(source(kind, dims, rank, wide))
    shape = module.entry.params[0].shape
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape.sample_dims) + 1j * rng.standard_normal(shape.sample_dims)
    args = [(x if kind != "RFFT" else x.real).astype(shape.element_type.numpy)]
    for backend in BACKENDS:
        (got,) = gpu_module.compiled(module, backend).executable.run(args)
        assert_near(got, evaluate(module, args)[0], 1e-13 if wide else 1e-6)


def test_factors() -> None:
    for n in (1, 2, 96, 2 * 3 * 5 * 7 * 11, 121, 1009, 2**20):
        assert np.prod(fft.factors_of(n, "x")) == n
    with pytest.raises(UnsupportedError, match="prime factor 10007"):
        fft.factors_of(20014, "x")
