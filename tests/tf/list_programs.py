"""Programs with lists of tensors (TensorArray), by what becomes of them under must-compile; X fits all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import list_ops

F32 = tf.float32
X = tf.constant(np.arange(1, 17, dtype=np.float32).reshape(4, 4) * np.float32([1, -1, 0.5, 0.25]))
Program = Callable[[Any], Any]


def _array(size: Any, **options: Any) -> Any:
    return tf.TensorArray(F32, size, **options)


def _differing(x: Any) -> Any:
    return _array(2, infer_shape=False).write(0, x[:2]).write(1, x[:3])


def _written_in_loop(write: Callable[[Any, Any, Any], Any], count: int = 3, **options: Any) -> Program:
    def run(x: Any) -> Any:
        body = lambda i, ta: (i + 1, write(ta, i, x))
        return tf.while_loop(lambda i, ta: i < count, body, (0, _array(count, **options)))[1].concat()

    return run


def gradient(program: Program) -> Program:
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            parts = [tf.reduce_sum(tf.sin(y)) for y in tf.nest.flatten(program(x)) if y.dtype.is_floating]
            total = tf.add_n(parts)
        return tape.gradient(total, x)

    return run


def _write_out_of_order(x: Any) -> Any:
    ta = _array(3).write(0, x[0]).write(2, x[1]).write(1, x[2])
    return ta.read(0), ta.read(1), ta.read(2)


def _write_twice(x: Any) -> Any:
    ta = _array(2, clear_after_read=False).write(0, x[0]).write(1, x[1]).write(0, x[2])
    return ta.read(0), ta.stack()


def _nested_loops(x: Any) -> Any:
    def body(i: Any, out: Any) -> Any:
        inner = _array(4, element_shape=[])
        step = lambda j, ta: (j + 1, ta.write(j, x[i, j] * tf.cast(j, F32)))
        return i + 1, out.write(
            i, tf.while_loop(lambda j, ta: j < 4, step, (0, inner), maximum_iterations=4)[1].stack()
        )

    return tf.while_loop(lambda i, out: i < 3, body, (0, _array(3, element_shape=[4])), maximum_iterations=3)[1].stack()


def _flattened(x: Any) -> Any:
    """A list handed through two loops."""

    def body(i: Any, ta: Any) -> Any:
        step = lambda j, ta: (j + 1, ta.write(i * 4 + j, x[i, j]))
        return i + 1, tf.while_loop(lambda j, ta: j < 4, step, (0, ta), maximum_iterations=4)[1]

    return tf.while_loop(lambda i, ta: i < 3, body, (0, _array(12, element_shape=[])), maximum_iterations=3)[1].stack()


def _branch(otherwise: Callable[[Any, Any, Any], Any]) -> Program:
    """Lists through a branch in a loop."""

    def run(x: Any) -> Any:
        def body(i: Any, ta: Any) -> Any:
            return i + 1, tf.cond(x[i, 0] > 5.0, lambda: ta.write(i, x[i]), lambda: otherwise(ta, i, x))

        return tf.while_loop(lambda i, ta: i < 4, body, (0, _array(4, element_shape=[4])), maximum_iterations=4)[
            1
        ].stack()

    return run


def _made_in_branch(x: Any) -> Any:
    make = lambda part: lambda: _array(2, element_shape=[4]).unstack(part)
    return tf.cond(x[0, 0] < 0.0, make(x[:2]), make(x[2:])).stack()


def _switched(x: Any) -> Any:
    def body(i: Any, ta: Any) -> Any:
        return i + 1, tf.switch_case(i, [lambda k=k: ta.write(i, x[k] * (k + 1.0)) for k in range(3)])

    return tf.while_loop(lambda i, ta: i < 3, body, (0, _array(3, element_shape=[4])), maximum_iterations=3)[1].stack()


def _grown_in_loop(x: Any) -> Any:
    ta = _array(0, dynamic_size=True, element_shape=[4])
    return tf.while_loop(lambda i, ta: i < 4, lambda i, ta: (i + 1, ta.write(i, x[i])), (0, ta))[1].stack()


def _grown_by_data(x: Any) -> Any:
    body = lambda i, s, ta: (i + 1, s * 1.7 + 1.0, ta.write(i, s))
    ta = _array(0, dynamic_size=True, element_shape=[])
    ta = tf.while_loop(lambda i, s, ta: s < 100.0, body, (0, tf.reduce_sum(x[0]), ta))[2]
    return ta.stack(), ta.size()


def _grown(x: Any) -> Any:
    ta = _array(0, dynamic_size=True)
    for k in range(3):
        ta = ta.write(k, x[k])
    return ta.stack(), ta.size()


def _grown_beyond(x: Any) -> Any:
    ta = _array(1, dynamic_size=True).write(3, x[0])
    return ta.stack(), ta.size()


def _grown_in_branch(x: Any) -> Any:
    ta = _array(1, dynamic_size=True, element_shape=[4]).write(0, x[0])
    return tf.cond(x[0, 0] > 0.0, lambda: ta.write(1, x[1]), lambda: ta.write(2, x[2])).stack()


def _pushed(x: Any) -> Any:
    held = list_ops.empty_tensor_list([4], F32, max_num_elements=4)
    held = list_ops.tensor_list_push_back(list_ops.tensor_list_push_back(held, x[0]), x[1])
    held, last = list_ops.tensor_list_pop_back(held, F32)
    return last, list_ops.tensor_list_length(held), list_ops.tensor_list_stack(held, F32)


def _pushed_and_popped(x: Any) -> Any:
    held = list_ops.empty_tensor_list([4], F32, max_num_elements=2)
    held = list_ops.tensor_list_push_back(list_ops.tensor_list_push_back(held, x[0]), x[1])
    held, last = list_ops.tensor_list_pop_back(held, F32)
    return last, list_ops.tensor_list_pop_back(held, F32)[1]


def _popped_when_empty(x: Any) -> Any:
    return list_ops.tensor_list_pop_back(list_ops.empty_tensor_list([4], F32, max_num_elements=2), F32)[1]


def _pushed_when_full(x: Any) -> Any:
    held = list_ops.empty_tensor_list([4], F32, max_num_elements=1)
    held = list_ops.tensor_list_push_back(list_ops.tensor_list_push_back(held, x[0]), x[1])
    return list_ops.tensor_list_pop_back(held, F32)[1]


def _wrong_dtype(x: Any) -> Any:
    """Without the check on the Python side that TensorArray and map_fn log only."""
    held = list_ops.tensor_list_reserve([4], 2, tf.int32)
    held = tf.raw_ops.TensorListSetItem(input_handle=held, index=0, item=x[0])
    return tf.cast(list_ops.tensor_list_stack(held, tf.int32), F32)


def _mapped(function: Program, signature: Any = F32, over: Any = None) -> Program:
    return lambda x: tf.map_fn(function, x if over is None else over, fn_output_signature=signature)


NATIVE: dict[str, Program] = {
    "out of order": _write_out_of_order,
    "twice": _write_twice,
    "scan of one row": lambda x: tf.scan(lambda a, b: a * 0.5 + b, x[:1]),
    "gradient of a scan of one row": gradient(lambda x: tf.scan(lambda a, b: a * 0.5 + b, x[:1])),
    "beyond the end in no trip": lambda x: tf.while_loop(
        lambda i, ta: i < 0,
        lambda i, ta: (i + 1, ta.write(i + 9, x[0])),
        (0, _array(3, element_shape=[4]).unstack(x[:3])),
    )[1].stack(),
    "concat": lambda x: _array(2).write(0, x[:2]).write(1, x[2:]).concat(),
    "gather": lambda x: _array(4).unstack(x).gather([2, 0, 2]),
    "unstack": lambda x: (_array(4).unstack(x).read(3), _array(4).unstack(x).size()),
    "size": lambda x: (_array(3).size(), _array(3).write(0, x[0]).size()),
    "of none": lambda x: _array(0, element_shape=[4]).stack(),
    "never written": lambda x: (_array(3).write(0, x[0]).read(1), _array(3, element_shape=[4]).stack()),
    "one written": lambda x: (
        _array(3).write(1, x[0]).stack(),
        _array(2, element_shape=[2, 4]).write(1, x[:2]).concat(),
    ),
    "one written, gathered": lambda x: _array(3).write(1, x[0]).gather([1, 2, 0, 1]),
    "cleared": lambda x: _array(2, clear_after_read=True).unstack(x[:2]).read(0),
    "rows": _written_in_loop(lambda ta, i, x: ta.write(i, x[i : i + 1]), element_shape=[1, 4]),
    "products of rows": _written_in_loop(lambda ta, i, x: ta.write(i, x[i : i + 1] @ x[:, :2]), element_shape=[1, 2]),
    "map": lambda x: tf.map_fn(lambda row: row * 2.0 + 1.0, x),
    "map to another dtype": _mapped(lambda row: tf.cast(tf.reduce_sum(row), tf.int32), tf.int32),
    "map to bool": _mapped(lambda row: row > 0.0, tf.bool),
    "map to a spec": _mapped(lambda row: tf.concat([row, row], 0), tf.TensorSpec([8], F32)),
    "map of two": lambda x: tf.map_fn(
        lambda t: (t[0] + t[1], tf.cast(t[0] > t[1], tf.int8)), (x, x[::-1]), fn_output_signature=(F32, tf.int8)
    ),
    "map in map": lambda x: tf.map_fn(lambda row: tf.map_fn(lambda s: s * s, row), x),
    "scan": lambda x: tf.scan(lambda a, row: a * 0.5 + row, x),
    "scan back": lambda x: tf.scan(
        lambda a, row: (a[0] + row, a[1] * 2), x, initializer=(tf.zeros([4]), 1), reverse=True
    ),
    "foldl": lambda x: tf.foldl(lambda a, row: a * 0.5 + row, x),
    "foldr": lambda x: tf.foldr(lambda a, row: a * 0.5 + row, x, initializer=tf.ones([4])),
    "nested loops": _nested_loops,
    "through two loops": _flattened,
    "in branches": _branch(lambda ta, i, x: ta.write(i, -x[i])),
    "in one branch": _branch(lambda ta, i, x: ta),
    "made in a branch": _made_in_branch,
    "in a case": _switched,
    "pushed and popped": _pushed_and_popped,
}
"""Compiled, they have eager TensorFlow's values; so have the gradients of those that are in no loop over nothing."""

GRADIENTS = (
    *("out of order", "twice", "concat", "unstack", "map", "map in map", "scan", "scan back", "foldl", "foldr"),
    *("nested loops", "through two loops", "in branches", "in one branch", "made in a branch", "in a case"),
)

LEFT: dict[str, Program] = {
    "grown": _grown,
    "grown beyond": _grown_beyond,
    "grown in a loop": _grown_in_loop,
    "gradient of grown in a loop": gradient(_grown_in_loop),
    "grown by data": _grown_by_data,
    "gradient of grown by data": gradient(lambda x: _grown_by_data(x)[0]),
    "grown in a branch": _grown_in_branch,
    "rows of unknown size": _written_in_loop(
        lambda ta, i, x: ta.write(i, x[: i + 1]), infer_shape=False, element_shape=[None, 4]
    ),
    "rows of one size": _written_in_loop(
        lambda ta, i, x: ta.write(i, x[i : i + 1]), infer_shape=False, element_shape=[None, 4]
    ),
    "blocks": _written_in_loop(lambda ta, i, x: ta.write(i, x[i * 2 : (i + 1) * 2] + 1.0), 2, element_shape=[2, 4]),
    "map of slices": lambda x: tf.map_fn(lambda i: x[i : i + 2], tf.range(3), fn_output_signature=F32),
    "map of none": _mapped(lambda row: row * 2.0, over=tf.zeros([0, 4])),
    "pushed": _pushed,
    "branches make two sizes": lambda x: tf.cond(
        x[0, 0] < 0.0,
        lambda: _array(2, element_shape=[4]).unstack(x[:2]),
        lambda: _array(3, element_shape=[4]).unstack(x[1:]),
    ).stack(),
}
"""What stock XLA would compile to something else: TensorFlow's ops run."""

WRONG: dict[str, Program] = {
    "other sizes stacked": lambda x: _differing(x).stack(),
    "beyond the end": lambda x: _array(2).write(2, x[0]).stack(),
    "read beyond the end": lambda x: _array(4).unstack(x).read(4),
    "read before the start": lambda x: _array(4).unstack(x).read(-1),
    "gathered beyond the end": lambda x: _array(4).unstack(x).gather([1, 7]),
    "more rows than an element": _written_in_loop(lambda ta, i, x: ta.write(i, x[i : i + 2]), 2, element_shape=[1, 4]),
    "another dtype": _wrong_dtype,
    "map to a wrong dtype": _mapped(tf.reduce_sum, tf.int32),
    "map to a wider dtype": _mapped(tf.reduce_sum, tf.float64),
    "popped when empty": _popped_when_empty,
    "pushed when full": _pushed_when_full,
    "unstacked smaller": lambda x: _array(6).unstack(x).stack(),
}
"""TensorFlow's graphs refuse them."""

REFUSED: dict[str, Program] = {
    "other sizes": lambda x: _differing(x).read(1),
    "a smaller one after": lambda x: _array(2, infer_shape=False).write(0, x[:3]).write(1, x[:2]).read(0),
    "other sizes in a row": lambda x: _differing(x).concat(),
    "other ranks": lambda x: tf.reduce_sum(_array(2, infer_shape=False).write(0, x[:2]).write(1, x[0]).read(1)),
    "split unevenly": lambda x: _array(3, infer_shape=False).split(x, [1, 3, 0]).concat(),
    "ragged": lambda x: tf.map_fn(
        lambda i: x[0, :i], tf.constant([1, 3, 2]), fn_output_signature=tf.RaggedTensorSpec([None], F32)
    ).to_tensor(),
}
"""TensorFlow's bridge has no form for them: an error under must-compile, as in stock XLA."""
