"""Variables that have no value yet: a must-compile function that meets one is TensorFlow's to run.

ReadVariableOp of a variable whose handle exists but that was never assigned gives a tensor of shape [0] and no
error; what the function means then (FailedPreconditionError where it reads the value, a first assignment where
it only writes) stock XLA decides. A variable whose value truly is an empty vector looks the same, and is
TensorFlow's too: nothing is lost on no elements.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ...errors import UnsupportedError
from ..native_op.op import InputView, Program
from .variables import Interface

_NO_VALUE = (0,)  # the shape of what ReadVariableOp then gives


def refuse(program: Program, interface: Interface, branches: bool = False) -> Program:
    """`program`, which now compiles for no variable without a value.

    It raises FailedPreconditionError, or where the graph `branches` to stock TensorFlow, UnsupportedError.
    """
    compile_values = program.compile

    def compile(inputs: list[InputView]) -> Any:
        for arg, view in zip(interface.inputs, inputs):
            if arg in interface.resources and view.dims == _NO_VALUE:
                message = f"variable '{interface.names[arg]}' is uninitialized, or an empty vector"
                raise UnsupportedError(message) if branches else tf.errors.FailedPreconditionError(None, None, message)
        return compile_values(inputs)

    program.compile = compile
    return program


def is_said_by(error: tf.errors.OpError) -> bool:
    """A variable has no value yet (the second: its handle was made by an earlier write that failed)."""
    return isinstance(error, tf.errors.FailedPreconditionError) or "got INVALID" in error.message
