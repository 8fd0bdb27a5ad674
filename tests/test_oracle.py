"""The XLA oracle that other tests compare with."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests import oracle

TEXT = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  n = s64[] parameter(1)
  q = pred[4] compare(p, p), direction=EQ
  z = bf16[4] convert(p)
  m = s64[] add(n, n)
  ROOT r = (f32[4], pred[4], bf16[4], s64[]) tuple(p, q, z, m)
}"""


def test_runs_text_and_proto() -> None:
    p = np.array([1, np.nan, np.inf, -0.0], np.float32)
    for module in (TEXT, oracle.proto(TEXT)):
        same, equal, narrow, doubled = oracle.run(module, [p, np.int64(2**40)])
        np.testing.assert_array_equal(same, p)
        assert equal.tolist() == [True, False, True, True]
        assert narrow.dtype == ml_dtypes.bfloat16
        assert doubled == 2**41


def test_normal_text_of_text_and_proto_agree() -> None:
    assert oracle.normal_text(TEXT) == oracle.normal_text(oracle.proto(TEXT))
