"""The table of what launches cost: its modules, and its rows on the double of the driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.device import launch_cost
from tests.runtime.gpu_double import double
from tests.runtime.gpu_double_parts import Kernel, image
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.gpu import driver as drivers
from tfxla_cluster.runtime.plan import LaunchPlan, Ref

from ..runtime.test_gpu_execute import random, step
from ..runtime.test_gpu_execute import vector as shape


@pytest.mark.parametrize("kernels", [1, 4])
def test_a_chain_negates(kernels: int) -> None:
    module = text.parse(launch_cost.chain(kernels, 5))
    assert [i.opcode for i in module.entry.instrs] == ["parameter"] + ["negate"] * kernels
    np.testing.assert_array_equal(evaluate(module, [random(5)])[0], random(5) * (-1) ** kernels)


@pytest.mark.parametrize("least_graph", [0, 1])
def test_rows(least_graph: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch runs: some for warmth, and all that are timed."""
    driver, library = double()
    ran = []

    def twice(arrays: Sequence[np.ndarray], sizes: Sequence[int], tasks: int) -> None:
        ran.append(float(arrays[0][0]))

    library.kernels["add"] = Kernel((np.dtype(np.float32),) * 2, 1, twice)
    monkeypatch.setattr(drivers, "driver", lambda: driver)
    monkeypatch.setattr(launch_cost, "ROUNDS", 9)
    one = step("add", [Ref("input", 0)], [Ref("output", 0)], (4,))
    plan = plan_json.dumps(LaunchPlan("p", (shape(4),), (shape(4),), (), (one,), (), 0))
    assert all(number > 0 for number in launch_cost.row(plan, (image("add"),), 4, least_graph))
    assert ran == [1.0] * (2 * launch_cost.SETS + 9 + 9 + 5 * 9)
    assert not library.errors
