"""fft on a CPU: lengths of every kind, several dimensions and lines, against NumPy in double precision."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.close import assert_near
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, interpreter
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.codegen.kernel.unit import UnitLibrary
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import leaves, sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.plan import LibraryStep

TRANSFORMS: dict[str, Any] = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
LENGTHS = ((1,), (2,), (8,), (60,), (97,), (2, 3), (3, 1), (1, 7), (5, 4), (4, 3, 5), (2, 1, 6))


def module(kind: str, batch: tuple[int, ...], lengths: tuple[int, ...], real: str) -> Module:
    whole, half = {"f32": "c64", "f64": "c128"}[real], (*lengths[:-1], lengths[-1] // 2 + 1)
    given, x = (real if kind == "RFFT" else whole), (*batch, *(half if kind == "IRFFT" else lengths))
    made, y = (real if kind == "IRFFT" else whole), (*batch, *(half if kind == "RFFT" else lengths))
    x_text, y_text, n_text = (",".join(map(str, d)) for d in (x, y, lengths))
    return text.parse(
        f"HloModule m\n\nENTRY e {{\n x = {given}[{x_text}] parameter(0)\n"
        f" ROOT r = {made}[{y_text}] fft(x), fft_type={kind}, fft_length={{{n_text}}}\n}}\n"
    )


def argument(made: Module) -> np.ndarray:
    shape, rng = made.entry.params[0].shape, np.random.default_rng(0)
    x = rng.standard_normal(shape.sample_dims) + 1j * rng.standard_normal(shape.sample_dims)
    return np.asarray((x.real if shape.element_type.is_float else x).astype(shape.element_type.numpy))


@pytest.mark.parametrize("kind", TRANSFORMS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_against_double_precision(kind: str, lengths: tuple[int, ...]) -> None:
    for batch, real in product(((), (3,), (40,), (2, 5)), ("f32", "f64")):
        made = module(kind, batch, lengths, real)
        x = argument(made)
        exact = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        want = TRANSFORMS[kind](exact, lengths, tuple(range(len(batch), len(batch) + len(lengths))))
        for backend in (cpu.this_machine(), interpreter.this_machine()):
            (got,) = compiler.compile_module(made, backend, CompileOptions()).executable.run([x])
            assert got.dtype.itemsize == {"f32": 4, "f64": 8}[real] * (2 if got.dtype.kind == "c" else 1)
            assert_near(got, want, 1e-6 if real == "f32" else 1e-14, f"{batch} {real} {backend.name}")


@pytest.mark.parametrize("batch", [(0,), (2, 0)])
def test_of_no_element(batch: tuple[int, ...]) -> None:
    made = module("FFT", batch, (8,), "f32")
    (got,) = compiler.compile_module(made, cpu.this_machine(), CompileOptions()).executable.run([argument(made)])
    assert got.shape == (*batch, 8)


def test_nan_and_infinity_stay_in_their_line() -> None:
    made = module("FFT", (3,), (8,), "f32")
    x = argument(made)
    x[1, 2] = np.nan
    (got,) = compiler.compile_module(made, cpu.this_machine(), CompileOptions()).executable.run([x])
    assert np.isnan(got[1]).all()
    assert np.isfinite(got[[0, 2]]).all()


def test_long_lines_and_many_are_shared_among_tasks() -> None:
    for batch, lengths in (((2,), (1 << 14,)), ((1000,), (16,)), ((), (64, 64)), ((50,), (8, 8))):
        plan = compiler.compile_module(module("FFT", batch, lengths, "f32"), cpu.this_machine(), CompileOptions()).plan
        steps = [s for s in plan.steps if isinstance(s, LibraryStep)]
        assert steps
        assert all(isinstance(s.tasks, int) and s.tasks > 1 for s in steps), (batch, lengths)


def test_any_number_of_lines_is_one_unit() -> None:
    rows = sym("rows", 5)
    x = Instr("x", "parameter", array(DTYPES["c64"], (rows, 8)), attrs={"parameter_number": 0})
    made = Instr("r", "fft", x.shape, (x,), {"fft_type": "FFT", "fft_length": (8,)})
    (step,) = lower.lower(made, cpu.this_machine().target).steps
    assert isinstance(step, UnitLibrary)
    assert rows in [d for size in step.sizes for d in leaves(size)]


def test_a_length_that_is_not_known_is_refused() -> None:
    n = sym("n", 8)
    x = Instr("x", "parameter", array(DTYPES["c64"], (3, n)), attrs={"parameter_number": 0})
    made = Instr("r", "fft", x.shape, (x,), {"fft_type": "FFT", "fft_length": (n,)})
    with pytest.raises(UnsupportedError, match="lengths that are not known"):
        lower.lower(made, cpu.this_machine().target)
