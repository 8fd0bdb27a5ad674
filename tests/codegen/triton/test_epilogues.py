"""What follows a product of narrow floats on a GPU: computed in f32, rounded once where it is stored."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.triton.gpu_module import Interpreted, compiled
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
CHAIN = """HloModule m
ENTRY e {{ x = {dtype}[24,16] parameter(0)
  w = {dtype}[16,40] parameter(1)
  d = {dtype}[24,40] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = {dtype}[24,40] multiply(d, d)
  t = {dtype}[24,40] tanh(s)
  a = {dtype}[24,40] add(d, t)
  m = {dtype}[24,40] multiply(a, d)
  {last} }}
"""
PLAIN = "ROOT r = ({dtype}[24,40], {dtype}[24,40]) tuple(d, m)"
BITS = """b = u16[24,40] bitcast-convert(m)
  ROOT r = ({dtype}[24,40], u16[24,40]) tuple(d, b)"""


def _args(dtype: np.dtype) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(shape) * 0.4).astype(dtype) for shape in ((24, 16), (16, 40))]


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_rounds_once(name: str) -> None:
    dtype = np.dtype({"bf16": ml_dtypes.bfloat16, "f16": np.float16}[name])
    args = _args(dtype)
    module = text.parse(CHAIN.format(dtype=name, last=PLAIN.format(dtype=name)))
    made = compiled(module, Interpreted())
    assert len([i for i in made.module.entry.instrs if i.opcode == "fusion"]) == 1
    product, found = made.executable.run(args)
    d = args[0].astype(np.float64) @ args[1].astype(np.float64)
    unit = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(product.astype(np.float64), d, rtol=unit / 2, atol=1e-6)
    np.testing.assert_allclose(found.astype(np.float64), (d + np.tanh(d * d)) * d, rtol=unit / 2 * 1.02, atol=1e-6)


def test_bits_are_those_of_the_rounded_float() -> None:
    """Where bits are asked for each operation rounds."""
    args = _args(np.dtype(ml_dtypes.bfloat16))
    module = text.parse(CHAIN.format(dtype="bf16", last=BITS.format(dtype="bf16")))
    _, found = compiled(module, Interpreted()).executable.run(args)
    _, wanted = evaluate(module, args)
    near = np.abs(found.astype(np.int32) - wanted.astype(np.int32))
    assert (near <= 1).all()
    assert (near == 0).mean() > 0.99
