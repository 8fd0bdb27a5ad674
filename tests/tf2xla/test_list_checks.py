"""What is known of lists, followed through calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.ops import list_ops

from tests.tf.list_programs import LEFT, NATIVE, WRONG
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.tf2xla import bridge, list_checks
from tfxla_cluster.tf2xla.known_values import Tensor, TensorList, Variable, joined

SPEC = tf.TensorSpec([4, 4])
I32 = tf.int32.as_datatype_enum


def _name(program: Callable[[Any], Any]) -> str:
    concrete = tf.function(program).get_concrete_function(SPEC)
    kept.append(concrete)
    return str(concrete.name.decode())


kept: list[Any] = []
"""Functions live as long as they are held."""


@pytest.mark.parametrize("name", NATIVE)
def test_what_is_right_passes(name: str) -> None:
    list_checks.check(_name(NATIVE[name]), [Tensor((4, 4))], bridge.library)


SAYS = {
    "grown": "grows",
    "grown in a loop": "grows",
    "grown in a branch": "grows",
    "map of none": "element 0 of a list of 0",
    "pushed": "how many elements were pushed",
    "beyond the end": "element 2 of a list of 2",
    "read before the start": "element -1 of a list of 4",
    "gathered beyond the end": "element 7 of a list of 4",
    "another dtype": "an element of float32 of a list of int32",
    "map to a wider dtype": "an element of float32 of a list of float64",
    "popped when empty": "the list is empty",
    "pushed when full": "it may have 1 elements",
    "unstacked smaller": "it takes 6 elements and the list has 4",
}


@pytest.mark.parametrize("name", SAYS)
def test_what_is_not_is_said(name: str) -> None:
    with pytest.raises(UnsupportedError, match=SAYS[name]) as raised:
        list_checks.check(_name({**LEFT, **WRONG}[name]), [Tensor((4, 4))], bridge.library)
    assert "list_programs.py:" in raised.value.where


def test_through_calls_and_variables() -> None:
    v = tf.Variable(tf.zeros([2, 4]))
    inner = tf.function(lambda k: tf.TensorArray(tf.float32, 2, element_shape=[4]).write(k, v[0]).stack())

    def program(x: Any) -> Any:
        return inner(tf.constant(5))

    args = [Tensor((4, 4)), Variable(tf.float32.as_datatype_enum, (2, 4))]
    with pytest.raises(UnsupportedError, match="element 5 of a list of 2"):
        list_checks.check(_name(program), args, bridge.library)


def test_a_list_without_a_shape_goes_into_no_other() -> None:
    def program(x: Any) -> Any:
        inner = list_ops.tensor_list_reserve(None, 2, tf.float32)
        outer = list_ops.empty_tensor_list([], tf.variant, max_num_elements=2)
        return list_ops.tensor_list_length(list_ops.tensor_list_push_back(outer, inner))

    with pytest.raises(UnsupportedError, match="no shape yet"):
        list_checks.check(_name(program), [Tensor((4, 4))], bridge.library)


def test_joined() -> None:
    a = TensorList(I32, 2, True)
    assert joined(a, a) == a
    assert joined(a, TensorList(I32, 3, False)) == TensorList(I32, None, False)
    assert joined(a, TensorList(tf.int64.as_datatype_enum, 2, True)) is None
    assert joined(Tensor((2, 3)), Tensor((2, 4))) == Tensor((2, None))
    assert joined(Tensor((), (1,)), Tensor((), (2,))) == Tensor(())
    assert joined(Tensor((2,)), Tensor(())) == Tensor()
    assert joined(a, Tensor(())) is None
