"""A suite of tests whose kernels are tuned, as a project would have one: `pytest tests/tuning/suite.py -n 2`.

TFXLA_FLAGS says whether it dumps results or loads them; tests/data/autotune_results.txt is what it dumped, kept in the
repository (test_workflow.py runs it both ways). Its target is any machine with AVX2, so that the file fits all.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from tfxla_cluster import compiler, flag_options
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.target import Target
from tfxla_cluster.tuning import session, tables

TARGET = Target("cpu", "haswell", "", 256, 2, 512 * 1024)
HEAD = """HloModule {name}
plus {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}
ENTRY e {{
"""
BODIES = {
    "dense": """  x = f32[300,64] parameter(0)
  w = f32[64,96] parameter(1)
  d = f32[300,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[300,96] tanh(d) }""",
    "turned": """  x = f32[200,120] parameter(0)
  n = f32[200,120] negate(x)
  ROOT r = f32[120,200] transpose(n), dimensions={1,0} }""",
    "sums": """  x = f32[150,220] parameter(0)
  z = f32[] constant(0)
  y = f32[150,220] multiply(x, x)
  ROOT r = f32[150] reduce(y, z), dimensions={1}, to_apply=plus }""",
    "moved": """  x = f32[90,400] parameter(0)
  e = f32[90,400] exponential(x)
  ROOT r = f32[90,400] add(e, x) }""",
}


@pytest.mark.parametrize("name", BODIES)
def test_kernel(name: str) -> None:
    module = text.parse(HEAD.format(name=name) + BODIES[name])
    backend, options = cpu.Cpu(TARGET), flag_options.tuning_options()
    made = compiler.compile_module(
        module, backend, choices=session.choices(backend, CompileOptions(), options, tables.PROCESS)
    )
    tables.PROCESS.dump(options)
    rng = np.random.default_rng(1)
    args = [rng.normal(size=p.shape.dims).astype(np.float32) for p in module.entry.params]
    (got,) = made.executable.run(args)
    (want,) = evaluate(module, args)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    _note(name, got)


def _note(name: str, got: np.ndarray) -> None:
    """A digest of the bits, for who compares runs."""
    folder = os.environ.get("SUITE_DIGESTS")
    if folder:
        (Path(folder) / name).write_text(hashlib.sha256(got.tobytes()).hexdigest())
