"""Random ops rewritten: the values of TensorFlow's own kernels, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2
from tensorflow.python.eager import context
from tensorflow.python.ops import stateless_random_ops

from tfxla_cluster.tf.rewrites import random_ops


def compiled(function, seed):
    """The function rewritten, then compiled by stock XLA."""
    fdef = tf.function(function).get_concrete_function(tf.TensorSpec([2], seed.dtype)).function_def
    new = function_pb2.FunctionDef()
    new.CopyFrom(fdef)
    new.signature.name = f"tfxla_test_{fdef.signature.name}"
    del new.node_def[:]
    new.node_def.extend(random_ops.expand(fdef.node_def, named=True) or fdef.node_def)
    context.context().add_function_def(new)
    called = attr_value_pb2.NameAttrList(name=new.signature.name)
    kind = fdef.signature.output_arg[0].type

    @tf.function(jit_compile=True)
    def run(s):
        return tf.raw_ops.PartitionedCall(args=[s], Tout=[kind], f=called)[0]

    return run(seed)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [[], [0], [1], [5, 3], [1025]])
@pytest.mark.parametrize("seed", [[5, 77], [-3, 2**31 - 1]])
def test_uniform(dtype, shape, seed) -> None:
    def f(s):
        return stateless_random_ops.stateless_random_uniform(shape, s, dtype=dtype)

    want, got = f(tf.constant(seed)), compiled(f, tf.constant(seed))
    np.testing.assert_array_equal(tf.cast(want, tf.float64), tf.cast(got, tf.float64))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(dtype) -> None:
    def f(s):
        return stateless_random_ops.stateless_random_uniform([33], s, minval=-5, maxval=1000, dtype=dtype)

    seed = tf.constant([1, 2], tf.int64)
    np.testing.assert_array_equal(f(seed), compiled(f, seed))


def test_graphs_are_rewritten_too() -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(stateless_random_ops.stateless_random_uniform([3], tf.constant([1, 2])), name="out")
    rewritten = random_ops.expand_graph(graph.as_graph_def())
    with tf.Graph().as_default():
        out = tf.graph_util.import_graph_def(rewritten, return_elements=["out:0"], name="")[0]
        with tf.compat.v1.Session() as session:
            got = session.run(out)
    np.testing.assert_array_equal(stateless_random_ops.stateless_random_uniform([3], tf.constant([1, 2])), got)


def test_nothing_to_rewrite() -> None:
    assert random_ops.expand([tf.compat.v1.NodeDef(name="a", op="Tanh")], named=False) is None
