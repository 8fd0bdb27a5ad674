"""A stand-in for the compiler in tests of the TensorFlow side: XLA itself, behind the runtime's calling convention."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import oracle
from tfxla_cluster.decision import Decision, no
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import dtype as dtypes
from tfxla_cluster.ir.guard import Guard, Key, of_shapes
from tfxla_cluster.ir.shape import Shape, array
from tfxla_cluster.tf import compiler_port
from tfxla_cluster.tf.frontend import Frontend
from tfxla_cluster.tf2xla import wire

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
)


@dataclass
class Double:
    record: int
    entry: int
    outputs: tuple[Shape, ...]
    sizes: tuple[Any, ...]
    guards: tuple[Guard, ...]
    keep: object


@dataclass
class Served:
    loaded: Double
    exact: bool = False
    compiled: bool = True
    handed: tuple[Any, ...] = ()
    ranges: tuple[Guard, ...] = ()


def _shape(data: bytes) -> Shape:
    """xla.ShapeProto: element_type 2, dimensions 3, tuple_shapes 4, is_dynamic_dimension 6."""
    kind, dims, elements, dynamic = 0, [], [], []
    for number, value in wire.fields(data):
        if number == 2:
            kind = value
        elif number == 3:
            dims += wire._packed(value)
        elif number == 4:
            elements.append(_shape(value))
        elif number == 6:
            dynamic += wire._packed(value)
    if any(dynamic):
        raise UnsupportedError("a result has a size that is known only at run time")
    if kind == 13:
        return Shape("tuple", elements=tuple(elements))
    return array(dtypes.BY_NUMBER[kind], tuple(dims))


def _program_shape(proto: bytes) -> tuple[list[Shape], Shape]:
    for number, value in wire.fields(proto):
        if number == 4:
            parts = list(wire.fields(value))
            return [_shape(v) for n, v in parts if n == 1], next(_shape(v) for n, v in parts if n == 2)
    raise AssertionError("no program shape")


class Compiler:
    """A compiler_port.Compiler. `runs`: how many executions it made; `refusal`: what it raises, where not None."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.runs, self.refusal = 0, refusal

    def compile_hlo(self, proto: bytes, request: compiler_port.CompileRequest) -> Served:
        if self.refusal is not None:
            raise self.refusal
        parameters, result = _program_shape(proto)
        outputs = result.elements if result.is_tuple else (result,)

        def run(record: int, inputs: Any, results: Any, sizes: Any) -> int:
            args = [_view(inputs[k], shape).copy() for k, shape in enumerate(parameters)]
            self.runs += 1
            for k, value in enumerate(self.execute(proto, args)):
                _view(results[k], outputs[k])[...] = value
            return 0

        entry = _ENTRY(run)
        address = ctypes.cast(entry, ctypes.c_void_p).value or 0
        return Served(Double(1, address, outputs, (), of_shapes(parameters), entry))

    def execute(self, proto: bytes, args: list[np.ndarray]) -> list[np.ndarray]:
        """What the module gives."""
        return oracle.run(proto, args)

    def recall(self, key: Key, device: str) -> None:
        """It keeps nothing."""

    def keep(self, key: Key, device: str, sections: Mapping[str, bytes], about: Mapping[str, str]) -> None:
        """For nobody."""

    def usable(self, device_type: str) -> Decision:
        return no("device", "the double has none")

    def explain(self, status: int) -> str:
        return f"status {status}"

    def seed_random(self, seed: int | None) -> None:
        """XLA draws no numbers from a state of ours."""


class Ours(Frontend):
    """A TensorFlow side of a test's own, with its stand-in."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.compiler = Compiler(refusal)
        super().__init__(self.compiler)


def _view(address: int | None, shape: Shape) -> np.ndarray:
    assert shape.dtype is not None
    size = int(np.prod(shape.dims)) * shape.dtype.itemsize
    if address is None or size == 0:
        return np.zeros(shape.dims, shape.dtype.numpy)
    raw = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(raw, shape.dtype.numpy).reshape(shape.dims)
