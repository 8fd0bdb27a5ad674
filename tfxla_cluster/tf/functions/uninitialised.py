"""Variables that have no value yet: a must-compile function that meets one is TensorFlow's to run.

ReadVariableOp of a variable whose handle exists but that was never assigned gives a tensor of shape [0] and no
error; what the function means then (FailedPreconditionError where it reads the value, a first assignment where
it only writes) stock XLA decides. A variable whose value truly is an empty vector looks the same, and is
TensorFlow's too: nothing is lost on no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ...errors import UninitializedError, UnsupportedError
from ..native_op.op import InputView
from .variables import Interface

_NO_VALUE = (0,)  # the shape of what ReadVariableOp then gives


def checked(interface: Interface, branches: bool = False) -> Callable[[Sequence[InputView]], None]:
    """What is called before a function is compiled for inputs: it refuses a variable without a value.

    It raises UninitializedError, or where the graph `branches` to stock TensorFlow, UnsupportedError.
    """

    def check(inputs: Sequence[InputView]) -> None:
        for arg, view in zip(interface.inputs, inputs):
            if arg in interface.resources and view.dims == _NO_VALUE:
                message = f"variable '{interface.names[arg]}' is uninitialized, or an empty vector"
                raise UnsupportedError(message) if branches else UninitializedError(message)

    return check


def is_said_by(error: tf.errors.OpError) -> bool:
    """TensorFlow itself found a variable without a value (the second: its handle was made by an earlier write that
    failed)."""
    return isinstance(error, tf.errors.FailedPreconditionError) or "got INVALID" in error.message
