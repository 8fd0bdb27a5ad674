"""What the compiler is told of a lowered function besides its module: sizes, values, the user's names and lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from ...ir import guard as guards
from ...size_spec import stronger
from ...tf2xla import bridge, size_questions, sources
from ..compiler_port import Trace
from ..graph.open_sizes import ARG_SHAPES
from ..native_op import op as native_op
from ..native_op.op import InputView
from . import marks, origins, traces
from .marks import Marks
from .variables import Interface


@dataclass(frozen=True)
class InputNames:
    """ir.guard.Names of the inputs of a function's op."""

    interface: Interface
    inputs: Sequence[InputView]

    def input(self, number: int) -> str:
        """Also of another function of the same name, which may have more inputs."""
        inputs = self.interface.inputs
        return self.interface.words(inputs[number]) if number < len(inputs) else f"argument {number}"

    def dtype(self, number: int) -> str:
        return str(tf.dtypes.as_dtype(number).name)

    def value(self, number: int, data: bytes) -> str:
        """The value in Python's words; of another size than the input, flat."""
        if number >= len(self.inputs):
            return f"{len(data)} bytes"
        view = self.inputs[number]
        dtype = np.dtype(tf.dtypes.as_dtype(view.dtype).as_numpy_dtype)
        if len(data) % dtype.itemsize:  # of another dtype, another function's
            return f"{len(data)} bytes"
        array = np.frombuffer(data, dtype)
        return str((array.reshape(view.dims) if array.size == np.prod(view.dims) else array).tolist())


@dataclass(frozen=True)
class LoweredFunction:
    """A function as the bridge lowered it at the sizes of `inputs`, told of its arguments what `args` say.

    `origin`: the traced function that the user wrote, '' unknown. Parameters are those of the HLO module, by position.
    """

    interface: Interface
    inputs: Sequence[InputView]
    args: Sequence[bridge.Arg]
    lowered: bridge.Lowered
    origin: str

    @property
    def values(self) -> list[guards.Guard]:
        """The values that lowering used."""
        used = self.lowered.constants.items()
        return [guards.Guard("value", self.interface.inputs.index(arg), value) for arg, value in used]

    @property
    def guards(self) -> tuple[guards.Guard, ...]:
        """The sizes and types of the inputs, and the values that lowering used."""
        return guards.ordered([*native_op.exact(self.inputs), *self.values])

    @property
    def words(self) -> tuple[str, ...]:
        """What each parameter is, in words."""
        return tuple(self.interface.words(arg) for arg in self.lowered.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The user's name of each parameter."""
        return tuple(self.interface.name(arg) for arg in self.lowered.parameters)

    @property
    def variables(self) -> frozenset[int]:
        return self._positions(self.interface.resources)

    @property
    def constants(self) -> frozenset[int]:
        """The parameters that the user's function captures as constants; none where it is not this function."""
        return self._positions(origins.of(self.origin).constants if self._is_users else ())

    @property
    def integers(self) -> frozenset[int]:
        """The parameters that stand for Python integers."""
        return self._positions([arg for arg in self.lowered.parameters if self.interface.is_integer(arg)])

    @property
    def open(self) -> frozenset[tuple[int, int]]:
        """(parameter, axis) of the dimensions that the trace does not know: they are any that the caller has."""
        known = self._known_shapes
        return frozenset(
            (position, axis)
            for position, arg in enumerate(self.lowered.parameters)
            for axis in range(len(self.args[arg].dims) if arg in known and arg not in self.interface.resources else 0)
            if known[arg].unknown_rank or known[arg].dim[axis].size < 0
        )

    @property
    def untold(self) -> frozenset[int]:
        """The parameters of whose sizes the function says nothing, whether it is for any or not."""
        told = self._known_shapes.keys() - self.interface.resources
        return frozenset(k for k, arg in enumerate(self.lowered.parameters) if arg not in told)

    def marks(self, noted: Marks) -> Marks:
        """The marks on the dimensions of the parameters: `noted`, by (argument, axis), and the function's own."""
        marked = marks.of_definition(bridge.function_def(self.interface.function))
        for place, mark in noted.items():
            marked[place] = stronger(marked.get(place), mark)
        position = {arg: k for k, arg in enumerate(self.lowered.parameters)}
        return {(position[arg], axis): mark for (arg, axis), mark in marked.items() if arg in position}

    def question(self) -> str:
        """What the function asks about its sizes, in words; '' for nothing."""
        constants = frozenset(self.lowered.constants)
        found = next(size_questions.questions(self.interface.function, constants, bridge.library), None)
        if found is None:
            return ""
        line = sources.line_of(found.function, found.node)
        return f"it asks about a size (node '{found.node}', op {found.op}{f', {line}' if line else ''})"

    def trace(self) -> Trace | None:
        """Which trace it is, None where that is not known."""
        return traces.of(self.interface.function, origins.of(self.origin).number if self._is_users else 0)

    def costs(self, lowering_ms: float) -> dict[str, float]:
        """Milliseconds of what came before compilation, as far as known."""
        tracing = origins.spent(self.origin)
        return {**({} if tracing is None else {"trace": tracing}), "lowering": lowering_ms}

    @property
    def _is_users(self) -> bool:
        return self.origin == self.interface.function

    def _positions(self, arguments: Collection[int]) -> frozenset[int]:
        return frozenset(k for k, arg in enumerate(self.lowered.parameters) if arg in arguments)

    @cached_property
    def _known_shapes(self) -> dict[int, Any]:
        """What the function was traced with, by argument; of a variable, that of its handle."""
        listed = {
            number: attrs.attr[ARG_SHAPES].list.shape
            for number, attrs in bridge.function_def(self.interface.function).arg_attr.items()
            if ARG_SHAPES in attrs.attr
        }
        return {number: shapes[0] for number, shapes in listed.items() if shapes}
