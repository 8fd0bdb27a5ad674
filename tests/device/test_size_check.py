"""Kernels for all sizes on a GPU: the table of functions, and what its check takes for wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.device import size_bundle, size_check
from tests.device.size_cases import CASES
from tests.runtime.gpu_double import double
from tests.runtime.gpu_double_parts import Kernel, image
from tests.runtime.hand import vector
from tfxla_cluster.bench.gpu_rows import Draw
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.plan import KernelStep, LaunchPlan, Ref, SizeSource

N = sym("n", 8, 2, 100)
SIZES = (2, 7, 101)


def bundled() -> dict[str, Any]:
    """x * x of n floats, by a kernel that gives 2 * x."""
    b = Builder("main")
    x = b.parameter(array(F32, (N,)))
    refs = (Ref("input", 0),), (Ref("output", 0),)
    step = KernelStep("square", *refs, (N,), 1, params=(("object", 0), ("num_warps", 1)))
    plan = LaunchPlan("p", (vector(N),), (vector(N),), (SizeSource("n", 0, 0),), (step,), (), 0)
    case = {
        "name": "square",
        "module": proto.write(Module("m", b.build(b.multiply(x, x)))),
        "generic": {"plan": plan_json.dumps(plan), "cubins": [0]},
        "static": {},
        "inputs": {n: (Draw((n,)),) for n in SIZES},
        "checked": SIZES,
        "ulps": 4,
    }
    return {"cubins": [image("square")], "cases": [case]}


@pytest.mark.parametrize("right", [True, False])
def test_each_size_in_its_range_is_compared(right: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """As launches and as graphs."""

    def square(arrays: Sequence[np.ndarray], sizes: Sequence[int], tasks: int) -> None:
        n = sizes[0]
        arrays[1][:n] = arrays[0][:n] ** 2 if right or n != 7 else 2 * arrays[0][:n]

    driver, library = double()
    library.kernels["square"] = Kernel((np.dtype(np.float32),) * 2, 1, square)
    assert size_check.check(bundled(), driver) == (0 if right else 2)
    said = capsys.readouterr().out
    assert "1 functions, 4 runs" in said
    assert ("WRONG square at 7" in said) != right


def test_functions_have_a_module_for_all_sizes() -> None:
    """Each kind of them; the bundle compiles them all."""
    assert len({case.name for case in CASES}) == len(CASES)
    for case in (case for case in CASES if case.name in ("x+b, columns", "dropout, rows", "attention, length")):
        size_bundle.generic(case)
