"""References in higher precision: the same computation with wider floats, and which have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.hlo_case import module as module_text
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.tuning import check, reference
from tfxla_cluster.tuning.tuner import alone

SUM = "sum { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"
NARROW_SUM = SUM.replace("f32", "bf16").replace("sum {", "narrow {")
BOTH = """both { a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  s = f32[] add(a, c)
  t = s32[] add(b, d)
  ROOT r = (f32[], s32[]) tuple(s, t) }
"""
INNER = (
    SUM
    + """inner { x = bf16[13,21] parameter(0)
  y = bf16[21,9] parameter(1)
  half = bf16[] constant(0.3)
  halves = bf16[13,9] broadcast(half), dimensions={}
  zero = f32[] constant(0)
  d = bf16[13,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  m = bf16[13,9] multiply(d, halves)
  w = f32[13,9] convert(m)
  r = f32[13] reduce(w, zero), dimensions={1}, to_apply=sum
  q = f32[9] reduce(w, zero), dimensions={0}, to_apply=sum
  ROOT t = (bf16[13,9], f32[13], f32[9]) tuple(m, r, q) }
"""
)
# Helper computations, and the lines of the entry.
CASES = {
    "a fusion of three results": (
        INNER,
        """  x = bf16[13,21] parameter(0)
  y = bf16[21,9] parameter(1)
  ROOT f = (bf16[13,9], f32[13], f32[9]) fusion(x, y), kind=kOutput, calls=inner""",
    ),
    "a product of tf32": (
        "",
        """  x = f32[7,30] parameter(0)
  y = f32[30,5] parameter(1)
  ROOT d = f32[7,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32""",
    ),
    "two sums at once": (
        BOTH,
        """  x = f32[7,30] parameter(0)
  n = s32[7,30] parameter(1)
  z = f32[] constant(0.5)
  k = s32[] constant(3)
  ROOT r = (f32[7], s32[7]) reduce(x, n, z, k), dimensions={1}, to_apply=both""",
    ),
    "complex": ("", "  x = c64[40] parameter(0)\n  ROOT e = c64[40] exponential(x)"),
    "f64": ("", "  x = f64[40] parameter(0)\n  ROOT e = f64[40] tanh(x)"),
    "a scatter of sums": (
        NARROW_SUM,
        """  x = bf16[30,4] parameter(0)
  at = s32[50,1] parameter(1)
  u = bf16[50,4] parameter(2)
  ROOT s = bf16[30,4] scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0}, """
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=narrow",
    ),
    "numbers chosen by numbers": (
        "",
        """  x = f32[40] parameter(0)
  y = f32[40] parameter(1)
  m = s32[40] parameter(2)
  n = s32[40] parameter(3)
  p = pred[40] parameter(4)
  ROOT s = f32[40] select(p, x, y)""",
    ),
}


def root(name: str) -> Instr:
    helpers, body = CASES[name]
    return text.parse(module_text(body, helpers)).entry.root


def wider(a: np.ndarray) -> np.ndarray:
    return a.astype({"c": np.complex128, "i": a.dtype, "b": a.dtype}.get(a.dtype.kind, np.float64))


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_widest_types(name: str) -> None:
    """Rounded to their own types once; by the evaluator on a module that was widened by hand."""
    instr = root(name)
    module, _ = alone(instr)
    inputs = check.inputs(module.entry.params, name)
    made = reference.wide(instr)
    assert not isinstance(made, str)
    verifier.verify(made)
    assert [p.shape for p in made.entry.params] == [p.shape for p in module.entry.params]
    got, reason = reference.values(instr, inputs, cpu.this_machine(), CompileOptions())
    assert reason == ""
    assert got is not None
    near = reference.tolerance(instr, tf32=False)
    assert check.difference(got, flat(evaluate(module, inputs)), near) == ""
    for exact, rounded in zip(flat(evaluate(made, inputs)), got, strict=True):
        assert exact.dtype == rounded.dtype
        np.testing.assert_allclose(wider(rounded), wider(exact), rtol=1e-2)


def flat(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in value] if isinstance(value, (list, tuple)) else [np.asarray(value)]


def test_what_was_exact_in_f64_is_computed_there() -> None:
    """1e8 + 1 - 1e8 is 0 in f32."""
    instr = text.parse(
        module_text(
            """  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  ROOT f = f32[3] fusion(x, y), kind=kLoop, calls=inner""",
            """inner { x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  s = f32[3] add(x, y)
  ROOT d = f32[3] subtract(s, x) }
""",
        )
    ).entry.root
    inputs = [np.full(3, 1e8, np.float32), np.ones(3, np.float32)]
    got, _ = reference.values(instr, inputs, cpu.this_machine(), CompileOptions())
    assert got is not None
    np.testing.assert_array_equal(got[0], 1.0)


REFUSED = {
    "compare": "  x = f32[9] parameter(0)\n  ROOT c = pred[9] compare(x, x), direction=LT",
    "floor": "  x = f32[9] parameter(0)\n  ROOT c = f32[9] floor(x)",
    "convert": "  x = f32[9] parameter(0)\n  ROOT c = s32[9] convert(x)",
    "bitcast-convert": "  x = f32[9] parameter(0)\n  ROOT c = s32[9] bitcast-convert(x)",
    "rng-bit-generator": "  x = u64[3] parameter(0)\n"
    "  ROOT c = (u64[3], u32[9]) rng-bit-generator(x), algorithm=rng_default",
    "fft": "  x = c64[8] parameter(0)\n  ROOT c = c64[8] fft(x), fft_type=FFT, fft_length={8}",
}


@pytest.mark.parametrize("opcode", REFUSED)
def test_what_has_no_reference(opcode: str) -> None:
    instr = text.parse(module_text(REFUSED[opcode])).entry.root
    said = reference.wide(instr)
    assert isinstance(said, str)
    assert said.startswith(opcode)
    assert reference.values(instr, [], cpu.this_machine(), CompileOptions()) == (None, said)


def test_work_that_takes_too_long_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference.WORK, "cpu", 10.0)
    assert reference.values(root("complex"), [], cpu.this_machine(), CompileOptions())[1] == "it takes too long"


def test_what_does_not_run_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def out(*args: Any, **more: Any) -> None:
        raise MemoryError("no memory\nat all")

    monkeypatch.setattr(reference.compiler, "compile_module", out)
    got, reason = reference.values(root("complex"), [], cpu.this_machine(), CompileOptions())
    assert (got, reason) == (None, "in f64 it does not run: no memory")


def test_tolerances() -> None:
    assert reference.tolerance(root("f64"), tf32=True) == check.Tolerance(tf32=True)
    assert reference.tolerance(root("a fusion of three results"), tf32=False).coarse == 8 * 2**-7
    edge = text.parse(module_text("  x = f32[9] parameter(0)\n  ROOT c = f32[9] sqrt(x)")).entry.root
    assert reference.tolerance(edge, tf32=False).share == 1e-3
    one = np.ones(10_000, np.float32)
    for wrong in (np.nan, 3.0, np.inf):
        some = one.copy()
        some[:10] = wrong
        assert check.difference([some], [one]) != ""
        assert check.difference([some], [one], check.Tolerance(share=1e-3)) == ""
        some[:11] = wrong
        assert check.difference([some], [one], check.Tolerance(share=1e-3)) != ""
    assert check.difference([one], [one * np.float32(1.01)], check.Tolerance(coarse=0.02)) == ""
    assert check.difference([one], [one * np.float32(1.03)], check.Tolerance(coarse=0.02)) != ""
