"""Empty arrays, rank 0, NaN and infinity, narrow floats, widths of bitcasts, masks: against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import run_unit
from tests.codegen.lower import programs
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate

CASES = {
    "reduce of nothing": """
      x = f32[3,0] parameter(0)
      n = f32[] constant(7)
      ROOT r = f32[3] reduce(x, n), dimensions={1}, to_apply=add_f32""",
    "no rows": """
      x = f32[0,3] parameter(0)
      n = f32[] constant(7)
      ROOT r = f32[0] reduce(x, n), dimensions={1}, to_apply=add_f32""",
    "full reduce of nothing": """
      x = f32[0,3] parameter(0)
      n = f32[] constant(-inf)
      ROOT r = f32[] reduce(x, n), dimensions={0,1}, to_apply=max_f32""",
    "columns of nothing": """
      x = f32[0,300] parameter(0)
      n = f32[] constant(1)
      ROOT r = f32[300] reduce(x, n), dimensions={0}, to_apply=add_f32""",
    "concatenate with nothing": """
      x = f32[2,0] parameter(0)
      y = f32[2,3] parameter(1)
      ROOT r = f32[2,3] concatenate(x, y, x), dimensions={1}""",
    "pad of nothing": """
      x = f32[0] parameter(0)
      z = f32[] constant(4)
      ROOT r = f32[5] pad(x, z), padding=2_3""",
    "empty result": """
      x = f32[4] parameter(0)
      ROOT r = f32[0] slice(x), slice={[2:2]}""",
    "rank 0": """
      x = f32[] parameter(0)
      a = f32[] negate(x)
      b = f32[1] reshape(a)
      ROOT r = f32[2,3] broadcast(a), dimensions={}""",
    "reduce to rank 0 of rank 0 dims": """
      x = f32[1,1] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add_f32""",
    "maximum of NaN": """
      x = f32[4,37] parameter(0)
      n = f32[] constant(-inf)
      ROOT r = f32[4] reduce(x, n), dimensions={1}, to_apply=max_f32""",
    "bf16 rounds after each op": """
      x = bf16[5,19] parameter(0)
      c = bf16[] constant(1.0078125)
      b = bf16[5,19] broadcast(c), dimensions={}
      m = bf16[5,19] multiply(x, b)
      ROOT r = bf16[5,19] add(m, x)""",
    "a pair through bf16 and back": """
      x = f32[50] parameter(0)
      h = bf16[50] convert(x)
      ROOT r = f32[50] convert(h)""",
    "f16 chain": """
      x = f16[3,21] parameter(0)
      m = f16[3,21] multiply(x, x)
      ROOT r = f16[3,21] subtract(m, x)""",
    "bits of a wider type": """
      x = f64[3,5] parameter(0)
      ROOT r = u32[3,5,2] bitcast-convert(x)""",
    "bits of a narrower type": """
      x = u8[3,5,4] parameter(0)
      ROOT r = f32[3,5] bitcast-convert(x)""",
    "scalar predicate and bounds": """
      p = pred[] parameter(0)
      x = f32[6,7] parameter(1)
      y = f32[6,7] parameter(2)
      l = f32[] constant(-1)
      h = f32[] constant(1)
      s = f32[6,7] select(p, x, y)
      ROOT r = f32[6,7] clamp(l, s, h)""",
    "complex": """
      x = f32[4,9] parameter(0)
      y = f32[4,9] parameter(1)
      z = c64[4,9] complex(x, y)
      w = c64[4,9] multiply(z, z)
      ROOT r = f32[4,9] imag(w)""",
    "gather of windows": """
      x = f32[9,8] parameter(0)
      i = s32[5,2] parameter(1)
      ROOT r = f32[5,3,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0},
        index_vector_dim=1, slice_sizes={3,2}""",
    "integer minimum by columns": """
      x = s32[70,9] parameter(0)
      n = s32[] constant(2147483647)
      ROOT r = s32[9] reduce(x, n), dimensions={0}, to_apply=min_s32""",
    "columns in parts": """
      x = s32[701,130] parameter(0)
      y = s32[130] parameter(1)
      n = s32[] constant(3)
      t = s32[130] reduce(x, n), dimensions={0}, to_apply=add_s32
      ROOT r = s32[130] multiply(t, y)""",
    "columns of outer rows in parts": """
      x = s32[9,3,50,80] parameter(0)
      n = s32[] constant(3)
      q = s32[9,3,50,80] multiply(x, x)
      t = s32[3,80] reduce(x, n), dimensions={0,2}, to_apply=add_s32
      u = s32[3,80] reduce(q, n), dimensions={0,2}, to_apply=add_s32
      ROOT r = (s32[3,80], s32[3,80]) tuple(t, u)""",
    "long rows in parts": """
      x = s32[2,3,20001] parameter(0)
      n = s32[] constant(3)
      t = s32[2,3] reduce(x, n), dimensions={2}, to_apply=add_s32
      ROOT r = s32[2,3] negate(t)""",
    "rows of several loops in parts": """
      x = s32[50,3,1001] parameter(0)
      n = s32[] constant(3)
      ROOT r = s32[3] reduce(x, n), dimensions={0,2}, to_apply=add_s32""",
    "columns, one kernel": """
      x = s32[20,61,77] parameter(0)
      n = s32[] constant(3)
      t = s32[20,77] reduce(x, n), dimensions={1}, to_apply=add_s32
      ROOT r = s32[20,77] negate(t)""",
    "long loop in blocks": """
      x = s32[2,140000] parameter(0)
      y = s32[2] parameter(1)
      b = s32[2,140000] broadcast(y), dimensions={0}
      ROOT r = s32[2,140000] add(x, b)""",
    "any": """
      x = pred[33,40] parameter(0)
      n = pred[] constant(false)
      ROOT r = pred[33] reduce(x, n), dimensions={1}, to_apply=or_pred""",
}
MORE = """
add_s32 { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
min_s32 { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] minimum(a, b) }
or_pred { a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT c = pred[] or(a, b) }
"""


def values(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Odd numbers; floats hold NaN, infinities and -0.0 too."""
    seed = np.random.RandomState(3)
    array = seed.randint(0, 7, shape) if dtype.kind in "iub" else seed.randn(*shape) * 3
    array = np.asarray(array).astype(dtype)
    flat = array.reshape(-1)
    if dtype.kind not in "iub" and flat.size > 12:
        flat[[1, 4, 6, 9]] = [np.nan, np.inf, -np.inf, -0.0]
    return array


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    module = text.parse(f"HloModule m\n{programs.COMBINERS}{MORE}\nENTRY fused {{{CASES[name]}\n}}\n")
    whole = text.parse(f"HloModule m\n{programs.COMBINERS}{MORE}\nENTRY fused {{{CASES[name]}\n}}\n").entry
    args = [values(p.shape.dims, p.shape.dtype.numpy) for p in module.entry.params]
    fusion = module.entry.root.replace(
        name="f", opcode="fusion", operands=whole.params, attrs={"kind": "kLoop", "calls": whole}
    )
    for got, want in zip(run_unit.run(fusion, args), evaluate(module, args)):
        kind = np.uint8 if got.dtype.itemsize == 1 else np.dtype(f"u{got.dtype.itemsize}")
        same = (got == want) | ((got != got) & (want != want))
        assert same.all(), (name, got, want)
        if got.dtype.kind == "f" and got.size:
            zero = want == 0
            np.testing.assert_array_equal(got[zero].view(kind), want[zero].view(kind))
