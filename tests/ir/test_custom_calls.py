"""Custom calls that stand for an opcode: which, and that the evaluator takes them for it."""

from __future__ import annotations

import numpy as np
import pytest

from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.custom_calls import equivalent
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module

X = np.array([[3, 1, 2], [5, 9, 7]], np.float32)


def module(result: str, target: str, config: str = "") -> Module:
    more = f', backend_config="{config}"' if config else ""
    return text.parse(
        "HloModule m\n\nENTRY e {\n x = f32[2,3] parameter(0)\n"
        f' ROOT r = {result} custom-call(x), custom_call_target="{target}"{more}\n}}\n'
    )


def test_top_k() -> None:
    values, places = evaluate(module("(f32[2,2], s32[2,2])", "TopK"), [X])
    np.testing.assert_array_equal(values, [[3, 2], [9, 7]])
    np.testing.assert_array_equal(places, [[0, 2], [1, 2]])


@pytest.mark.parametrize("target", ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"])
def test_sharding_on_one_device(target: str) -> None:
    made = module("f32[2,3]", target)
    assert equivalent(made.entry.root) is made.entry.params[0]
    np.testing.assert_array_equal(evaluate(made, [X])[0], X)


def test_a_shard_of_another_shape_is_none() -> None:
    assert equivalent(module("f32[1,3]", "SPMDFullToShardShape").entry.root) is None


def test_another_call_has_no_meaning() -> None:
    made = module("f32[2,3]", "else")
    assert equivalent(made.entry.root) is None
    with pytest.raises(UnsupportedError, match="the custom call else"):
        evaluate(made, [X])
