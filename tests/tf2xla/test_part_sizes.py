"""How many rows a slice with computed ends has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfxla_cluster.tf2xla import part_sizes
from tfxla_cluster.tf2xla.known_values import Inferred, Tensor

PARTS: dict[str, tuple[Callable[[Any, Any], Any], list[int], bool]] = {
    "rows": (lambda x, i: x[i : i + 2], [2, 4], True),
    "other rows": (lambda x, i: x[i : i + 2], [1, 4], False),
    "before": (lambda x, i: x[i - 3 : i], [3, 4], True),
    "blocks": (lambda x, i: x[i * 2 : (i + 1) * 2], [2, 4], True),
    "columns": (lambda x, i: x[:, i : i + 2], [4, 2], True),
    "all columns": (lambda x, i: x[i : i + 1, :], [1, 4], True),
    "product": (lambda x, i: tf.tanh(x[i : i + 1] @ x) + 1.0, [1, 4], True),
    "two slices": (lambda x, i: x[i : i + 1] + x[i : i + 2], [1, 4], False),
    "two sizes": (lambda x, i: x[i : i + 1, i : i + 2], [1, 2], False),
    "known": (lambda x, i: x[1:3], [2, 4], True),
    "known and other": (lambda x, i: x[1:3], [1, 4], False),
    "up to": (lambda x, i: x[:i], [2, 4], False),
    "to the end": (lambda x, i: x[i:], [2, 4], False),
    "other ends": (lambda x, i: x[i : i * 2], [2, 4], False),
    "every second": (lambda x, i: x[i : i + 2 : 2], [1, 4], False),
    "joined": (lambda x, i: tf.concat([x[i : i + 1], x[i : i + 1]], 0), [1, 4], False),
    "of data": (lambda x, i: tf.boolean_mask(x, x[:, 0] > 0), [4, 4], False),
    "another rank": (lambda x, i: x[i], [1, 4], False),
}


@pytest.mark.parametrize("name", PARTS)
def test_is_of(name: str) -> None:
    function, dims, want = PARTS[name]
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([4, 4]), tf.TensorSpec([], tf.int32))
    definition = concrete.function_def
    inferred = Inferred(definition, [Tensor((4, 4)), Tensor(())])
    result = definition.ret[definition.signature.output_arg[0].name]
    assert part_sizes.is_of(definition, inferred, result, dims) is want


def test_of_an_argument_without_sizes() -> None:
    f = tf.function(lambda x, i: x[i : i + 1])
    definition = f.get_concrete_function(tf.TensorSpec([None, 4]), tf.TensorSpec([], tf.int32)).function_def
    result = definition.ret[definition.signature.output_arg[0].name]
    assert not part_sizes.is_of(definition, Inferred(definition, [Tensor((None, 4)), Tensor(())]), result, [1, 4])
    assert part_sizes.is_of(definition, Inferred(definition, [Tensor((5, 4)), Tensor(())]), result, [1, 4])
