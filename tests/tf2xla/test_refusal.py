"""What a refusal tells the user: the op, the line, and a remedy that fits the op."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster

STRINGS, DENSE, DEFAULT = "Keep strings outside", "dense outside", "Move that op out"
PRINT, TABLE, FILES, PYTHON = "Move tf.print outside", "Use the table outside", "Read, write and decode", "Python code"
VARIABLE = tf.Variable("word")
QUEUE = tf.queue.FIFOQueue(2, [tf.float32])


@tf.function
def formatted(x: tf.Tensor) -> tf.Tensor:
    return tf.strings.format("{}", x)


def table() -> Any:
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4]), 0)


def printed(x: tf.Tensor) -> tf.Tensor:
    tf.print(x)
    return x


def printed_and_formatted(x: tf.Tensor) -> Any:
    length = tf.strings.length(tf.strings.format("{}", x))
    with tf.control_dependencies([length]):
        tf.print(x)
    return length


ROWS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "format": (lambda x: tf.strings.length(tf.strings.format("{}", x)), "StringFormat", STRINGS),
    "format_in_a_function": (lambda x: tf.strings.length(formatted(x)), "String", STRINGS),
    "print": (printed, "StringFormat", PRINT),
    "print_and_format": (printed_and_formatted, "StringFormat", STRINGS),
    "as_string": (lambda x: tf.strings.join([tf.strings.as_string(x), "."]) == "1.", "AsString", STRINGS),
    "string_result": (lambda x: tf.constant("word"), "_Retval", STRINGS),
    "string_variable": (lambda x: tf.strings.length(VARIABLE), "string", "outside"),
    "table": (lambda x: table().lookup(tf.cast(x, tf.int32)), "Table", TABLE),
    "file": (lambda x: tf.strings.length(tf.io.read_file("none")), "ReadFile", FILES),
    "python": (lambda x: tf.py_function(lambda y: y, [x], tf.float32), "EagerPyFunc", PYTHON),
    "numpy": (lambda x: tf.numpy_function(lambda y: y, [x], tf.float32), "PyFunc", PYTHON),
    "queue": (lambda x: QUEUE.size(), "QueueSizeV2", "Use the queue outside"),
    "unique": (lambda x: tf.unique_with_counts(x).count, "UniqueWithCounts", "Use tf.unique"),
    "ragged": (lambda x: tf.RaggedTensor.from_row_splits(x, [0, 1, 2]).to_tensor(), "RaggedTensorToTensor", DENSE),
    "sparse": (
        lambda x: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 0]], [1.0], [2, 2]), x[:, None]),
        "SparseTensorDenseMatMul",
        DENSE,
    ),
    "no_family": (lambda x: tf.cast(tf.timestamp(), tf.float32) + x, "Timestamp", DEFAULT),
}


@pytest.mark.parametrize("name", ROWS)
def test_remedy_fits_the_op(name: str) -> None:
    body, op, remedy = ROWS[name]
    function = tf.function(body, jit_compile=True, autograph=False)
    with tfxla_cluster.enable(), pytest.raises(tf.errors.InvalidArgumentError) as caught:
        function(tf.constant([1.0, 2.0]))
    assert op in caught.value.message
    assert remedy in caught.value.message
    assert (PRINT in caught.value.message) == (remedy == PRINT)


def test_an_op_of_a_called_function_is_placed_in_it() -> None:
    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        return x + tf.cast(tf.timestamp(), tf.float32)  # MARK

    function = tf.function(lambda x: inner(x) * 2.0, jit_compile=True)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# MARK"))
    place = rf"test_refusal\.py:{line}: .*op Timestamp\) in __inference_inner_"
    with tfxla_cluster.enable(), pytest.raises(tf.errors.InvalidArgumentError, match=place):
        function(tf.constant([1.0, 2.0]))
