"""Non-maximum suppression of few boxes, against eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.errors import LoweringError
from tfxla_cluster.tf2xla import few_boxes

SCORES = np.float32([0.9, 0.8, -np.inf, 0.7, 0.95, -3.0])
CORNERS = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [2, 2, 3, 3], [0, 5, 1, 6], [4, 4, 5, 5], [9, 9, 10, 10]])


def _plain(boxes: Any, scores: Any) -> Any:
    return tf.image.non_max_suppression(boxes, scores, 3, iou_threshold=0.5)


def _with_threshold(boxes: Any, scores: Any) -> Any:
    return tf.image.non_max_suppression(boxes, scores, 4, iou_threshold=0.5, score_threshold=-5.0)


def _called(boxes: Any, scores: Any) -> Any:
    return tf.function(_plain)(boxes, scores) * 2


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("program", [_plain, _with_threshold, _called])
def test_few_boxes(program: Any, count: int) -> None:
    boxes, scores = tf.constant(CORNERS[:count]), tf.constant(SCORES[:count])
    want = tf.nest.flatten(program(boxes, scores))
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        got = tf.nest.flatten(tf.function(program, jit_compile=True)(boxes, scores))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_other_refusals_are_left_alone() -> None:
    concrete = tf.function(_plain).get_concrete_function(tf.TensorSpec([0, 4]), tf.TensorSpec([0]))
    name, error = concrete.name.decode(), LoweringError("cannot be compiled")
    error.__cause__ = ValueError("limit index (3) must be less than or equal to dimension size (1)")
    assert few_boxes.refused(error, name)
    assert not few_boxes.refused(error, tf.function(tf.sin).get_concrete_function(tf.TensorSpec([2])).name.decode())
    error.__cause__ = ValueError("something else")
    assert not few_boxes.refused(error, name)
