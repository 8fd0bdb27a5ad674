"""Lowering through TensorFlow's bridge: parameters, constants, variables, results, refusals."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tests import oracle
from tests.close import assert_near
from tfxla_cluster.errors import LoweringError
from tfxla_cluster.tf2xla import bridge, function_tree, must_be_constant, sources
from tfxla_cluster.tf2xla.bridge import Arg

F32, I32 = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum


def _concrete(fn: Any, *specs: tf.TensorSpec) -> Any:
    return tf.function(fn).get_concrete_function(*specs)


def _value(x: Any) -> Any:
    return lambda: np.asarray(x)


def test_plain_function() -> None:
    f = _concrete(lambda x, y: (x + y, tf.constant(2.0), x), tf.TensorSpec([2]), tf.TensorSpec([2]))
    low = bridge.lower(f.name, [Arg(F32, (2,)), Arg(F32, (2,))])
    assert low.parameters == (0, 1)
    assert low.outputs == (0, 1, 2)
    assert not low.updates
    assert not low.constants
    out = oracle.run(low.proto, [np.float32([1, 2]), np.float32([3, 4])])
    assert [o.tolist() for o in out] == [[4, 6], 2, [1, 2]]


def test_constant_used_as_shape_and_as_data() -> None:
    f = _concrete(
        lambda x, n, y: (tf.reshape(x, [n, -1]) + y, n * 2),
        tf.TensorSpec([6]),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([]),
    )
    low = bridge.lower(f.name, [Arg(F32, (6,)), Arg(I32, (), value=_value(np.int32(2))), Arg(F32, ())])
    assert low.parameters == (0, 2)
    assert low.constants == {1: np.int32(2).tobytes()}
    out = oracle.run(low.proto, [np.arange(6, dtype=np.float32), np.float32(1)])
    assert out[0].shape == (2, 3)
    assert out[1] == 4


def test_variables_between_arguments_are_updated() -> None:
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)

    @tf.function
    def f(x: Any, a: Any, y: Any, b: Any) -> Any:
        a.assign_add(x * b)
        return a + y

    g = f.get_concrete_function(tf.TensorSpec([2]), v, tf.TensorSpec([2]), w)
    kinds = [a.type for a in g.function_def.signature.input_arg]
    args = [Arg(F32, (2,) if i != 3 else (), k == tf.resource.as_datatype_enum) for i, k in enumerate(kinds)]
    low = bridge.lower(g.name, args)
    assert low.parameters == (0, 2, 1, 3)
    assert low.updates == ((1, 1),)
    out = oracle.run(low.proto, [np.float32([1, 1]), np.float32([10, 20]), np.float32([1, 2]), np.float32(3)])
    assert [o.tolist() for o in out] == [[14, 25], [4, 5]]
    assert v.numpy().tolist() == [1, 2], "nothing is executed"


def test_variable_as_shape_and_updated() -> None:
    n = tf.Variable(2)

    @tf.function
    def f(x: Any) -> Any:
        y = tf.reshape(x, [n, -1])
        n.assign_add(1)
        return y

    g = f.get_concrete_function(tf.TensorSpec([6]))
    low = bridge.lower(g.name, [Arg(F32, (6,)), Arg(I32, (), True, _value(np.int32(2)))])
    out = oracle.run(low.proto, [np.zeros(6, np.float32), np.int32(0)])
    assert out[0].shape == (2, 3)
    assert out[dict(low.updates)[1]] == 3


def test_resource_outputs_are_no_results() -> None:
    v = tf.Variable([1.0])
    f = _concrete(lambda x: (v.assign_add(x), v.handle, x), tf.TensorSpec([1]))
    low = bridge.lower(f.name, [Arg(F32, (1,)), Arg(F32, (1,), True)])
    assert low.outputs == (0, 2)
    assert low.updates == ((1, 2),)


def test_random_state_is_left_alone_and_nothing_is_left_registered() -> None:
    tf.random.set_seed(7)
    want = tf.random.uniform([3]).numpy()
    f = _concrete(lambda x, n: tf.tile(x, [n]), tf.TensorSpec([2]), tf.TensorSpec([], tf.int32))
    before = len(context.context().list_function_names())
    tf.random.set_seed(7)
    bridge.lower(f.name, [Arg(F32, (2,)), Arg(I32, (), value=_value(np.int32(2)))])
    assert tf.random.uniform([3]).numpy().tolist() == want.tolist()
    assert len(context.context().list_function_names()) == before


def _loop(x: Any) -> Any:
    while tf.reduce_sum(x) < 9.0:
        x += 1.0
    return tf.zeros([tf.cast(x[0], tf.int32)])


REFUSED: dict[str, tuple[Any, str, str]] = {
    "py_function": (lambda x: tf.py_function(lambda y: y, [x], tf.float32), "EagerPyFunc", "no compiled form"),
    "print": (lambda x: (tf.print(x), x)[1], "StringFormat", "tf.print"),
    "as_string": (lambda x: tf.strings.length(tf.strings.as_string(x)), "AsString", "no compiled form"),
    "unique_with_counts": (tf.unique_with_counts, "UniqueWithCounts", "no compiled form"),
    "size_from_loop": (_loop, "Fill", "compile-time constant"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refusal_names_op_line_and_remedy(name: str) -> None:
    fn, op, words = REFUSED[name]
    f = _concrete(fn, tf.TensorSpec([2]))
    with pytest.raises(LoweringError) as caught:
        bridge.lower(f.name, [Arg(F32, (2,))])
    assert caught.value.op == op
    assert words in str(caught.value)
    assert "test_bridge.py:" in caught.value.where
    assert caught.value.remedy


def test_wrong_use_is_an_error_not_a_crash() -> None:
    f = _concrete(lambda x, s: x, tf.TensorSpec([2]), tf.TensorSpec([], tf.string))
    with pytest.raises(LoweringError, match="takes 2 arguments"):
        bridge.lower(f.name, [])
    with pytest.raises(LoweringError, match="dtype string"):
        bridge.lower(f.name, [Arg(F32, (2,)), Arg(tf.string.as_datatype_enum, ())])
    with pytest.raises(LoweringError, match="not registered"):
        bridge.lower("no_such_function", [])


def _nested_case() -> tuple[Any, set[int]]:
    inner = tf.function(lambda x, n: tf.fill([n], x))

    @tf.function
    def f(x: Any, n: Any, flag: Any, m: Any) -> Any:
        y = inner(x, n + 1)
        return tf.cond(flag, lambda: tf.reduce_sum(y, axis=m), lambda: x)

    spec = tf.TensorSpec([], tf.int32)
    return f.get_concrete_function(tf.TensorSpec([]), spec, tf.TensorSpec([], tf.bool), spec), {1, 3}


def _metadata_case() -> tuple[Any, set[int]]:
    f = tf.function(lambda x, y: tf.reshape(x, tf.shape(y)))
    return f.get_concrete_function(tf.TensorSpec([None]), tf.TensorSpec([None, 2])), set()


def _loop_case() -> tuple[Any, set[int]]:
    @tf.function
    def f(x: Any, n: Any, k: Any) -> Any:
        i = 0
        while i < k:
            x = tf.reduce_sum(tf.tile(x, [n, 1]), axis=0, keepdims=True)
            i += 1
        return x

    spec = tf.TensorSpec([], tf.int32)
    return f.get_concrete_function(tf.TensorSpec([1, 2]), spec, spec), {1}


@pytest.mark.parametrize("case", [_nested_case, _metadata_case, _loop_case])
def test_constant_arguments(case: Any) -> None:
    f, want = case()
    assert must_be_constant.constant_args(f.function_def, bridge.library) == want


def test_table_is_tensorflows() -> None:
    """The table says what the loaded TensorFlow says (XlaOpRegistry::CompileTimeConstantInputArgNames)."""
    import ctypes
    import os

    from tensorflow.python.framework import kernels

    tf.constant(1) + 1  # the registry fills at the first eager op
    lib = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2"))
    find = lib[
        "_ZN10tensorflow13XlaOpRegistry32CompileTimeConstantInputArgNamesERKNSt7__cxx1112basic_stringIcSt11"
        "char_traitsIcESaIcEEE"
    ]
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def names(op: str) -> set[str]:
        text = ctypes.create_string_buffer(op.encode())
        string = (ctypes.c_uint64 * 4)(ctypes.addressof(text), len(op), 0, 0)
        found = find(ctypes.addressof(string))
        node, result = (ctypes.c_uint64 * 3).from_address(found)[2] if found else 0, set()
        while node:
            node, start, size = (ctypes.c_uint64 * 3).from_address(node)
            result.add(ctypes.string_at(start, size).decode())
        return result

    ops = {k.op for k in kernels.get_all_registered_kernels().kernel if k.device_type == "XLA_CPU_JIT"}
    assert {op: names(op) for op in ops if names(op)} == {op: set(n) for op, n in must_be_constant.TABLE.items()}


def test_lines_of_nodes() -> None:
    inner = tf.function(lambda x: tf.sin(x, name="inside"))
    f = _concrete(lambda x: inner(x) + 1.0, tf.TensorSpec([2]))
    lines = sources.all_lines(f.name.decode())
    assert lines["inside"].endswith(f"test_bridge.py:{_here('inside')}")
    assert sources.line_of(f.name.decode(), "no such node") == ""


def _here(word: str) -> int:
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if f'name="{word}"' in line)


@pytest.mark.parametrize(
    ("path", "users"),
    [
        (__file__, True),
        (functools.__file__, False),
        (np.__file__, True),  # a library that the program calls: the reports stop at its line
        (tf.__file__, False),
        (sources.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("", False),
    ],
)
def test_whose_files_they_are(path: str, users: bool) -> None:
    assert sources.is_user_file(path) is users


def test_rows_sliced_in_a_loop_are_written_into_lists() -> None:
    def f(x: Any, w: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=3, element_shape=[1, 2])
        pairs = tf.TensorArray(tf.float32, size=3, element_shape=[2, 4])

        def body(i: Any, rows: Any, pairs: Any) -> Any:
            return i + 1, rows.write(i, x[i : i + 1] @ w), pairs.write(i, x[i : i + 2])

        rows, pairs = tf.while_loop(lambda i, *_: i < 3, body, [0, rows, pairs])[1:]
        return rows.concat(), pairs.stack()

    x, w = np.random.randn(4, 4).astype(np.float32), np.random.randn(4, 2).astype(np.float32)
    g = _concrete(f, tf.TensorSpec([4, 4]), tf.TensorSpec([4, 2]))
    low = bridge.lower(g.name, [Arg(F32, (4, 4)), Arg(F32, (4, 2))])
    for want, got in zip(f(tf.constant(x), tf.constant(w)), oracle.run(low.proto, [x, w])):
        assert_near(got, want, 1e-6)


def test_refusal_of_a_copy_names_the_original() -> None:
    f = _concrete(lambda x: tf.strings.length(tf.strings.as_string(x)), tf.TensorSpec([4]))
    name = f.name.decode()

    def lower_a_copy() -> None:
        with function_tree.rewritten(name, lambda definition: (list(definition.node_def), {})) as copy:
            assert copy != name
            bridge.lower(copy, [Arg(F32, (4,))])

    with pytest.raises(LoweringError) as refused:
        lower_a_copy()
    assert name in str(refused.value)
    assert "__tfxla" not in str(refused.value)
