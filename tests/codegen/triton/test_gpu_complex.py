"""Complex numbers on a GPU: reductions, scans, sorts' passengers and scatters of them, as parts in registers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())
OP = "f {{\n a = c64[] parameter(0)\n b = c64[] parameter(1)\n ROOT r = c64[] {0}(a, b)\n}}\n"
LESS = (
    "f {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = c64[] parameter(2)\n d = c64[] parameter(3)\n"
    " ROOT r = pred[] compare(a, b), direction=LT\n}\n"
)
MODULES = {
    "sum of rows": (
        OP.format("add"),
        "x = c64[5,37] parameter(0)\n i = c64[] constant((1, -2))\n"
        " ROOT r = c64[5] reduce(x, i), dimensions={1}, to_apply=f",
    ),
    "product of columns": (
        OP.format("multiply"),
        "x = c64[6,40] parameter(0)\n i = c64[] constant((1, 0))\n"
        " ROOT r = c64[40] reduce(x, i), dimensions={0}, to_apply=f",
    ),
    "normalised": (
        OP.format("add"),
        "x = c64[5,37] parameter(0)\n i = c64[] constant((0, 0))\n"
        " s = c64[5] reduce(x, i), dimensions={1}, to_apply=f\n t = c64[5,37] broadcast(s), dimensions={0}\n"
        " d = c64[5,37] divide(x, t)\n ROOT a = f32[5,37] abs(d)",
    ),
    "running product": (
        OP.format("multiply"),
        "x = c64[3,9] parameter(0)\n i = c64[] constant((1, 0))\n"
        " ROOT r = c64[3,9] reduce-window(x, i), window={size=1x9 pad=0_0x8_0}, to_apply=f",
    ),
    "scatter": (
        OP.format("add"),
        "x = c64[6,4] parameter(0)\n i = s32[40,1] parameter(1)\n"
        " u = c64[40,4] parameter(2)\n"
        " ROOT r = c64[6,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},"
        " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f",
    ),
    "passenger": (
        LESS,
        "x = f32[3,20] parameter(0)\n y = c64[3,20] parameter(1)\n"
        " ROOT r = (f32[3,20], c64[3,20]) sort(x, y), dimensions={1}, is_stable=true, to_apply=f",
    ),
    "product": (
        "",
        "x = c64[3,5,9] parameter(0)\n y = c64[3,9,17] parameter(1)\n e = c64[3,5,9] exponential(x)\n"
        " d = c64[3,5,17] dot(e, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},"
        " rhs_contracting_dims={1}\n ROOT a = f32[3,5,17] abs(d)",
    ),
    "moved": (
        "",
        "x = c128[4,6] parameter(0)\n y = c128[6,4] transpose(x), dimensions={1,0}\n"
        " z = c128[] constant((2, 3))\n"
        " p = c128[8,7] pad(y, z), padding=0_2x1_2\n ROOT n = c64[8,7] convert(p)",
    ),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: type(b).__name__)
def test_against_the_evaluator(name: str, backend: gpu_module.Interpreted) -> None:
    computations, body = MODULES[name]
    module = text.parse(f"HloModule m\n\n{computations}\nENTRY e {{\n {body}\n}}\n")
    rng = np.random.default_rng(0)
    args = []
    for parameter in module.entry.params:
        dims, kind = parameter.shape.sample_dims, parameter.shape.element_type.numpy
        values = rng.integers(-1, 7, dims) if kind.kind == "i" else rng.standard_normal(dims)
        args.append((values + (1j * rng.standard_normal(dims) if kind.kind == "c" else 0)).astype(kind))
    got = gpu_module.compiled(module, backend).executable.run(args)
    for one, other in zip(got, evaluate(module, args), strict=True):
        assert_near(one, other, 1e-5)
