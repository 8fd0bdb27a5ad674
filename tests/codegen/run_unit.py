"""Runs every step of a Unit on NumPy arrays: `run(instr, operands)` gives the flattened results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tests.codegen import run_kernel
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.codegen.kernel.unit import UnitCopy, UnitLibrary
from tfxla_cluster.ir import dim
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.ir.shape import Shape
from tfxla_cluster.runtime import foreign


def flat_shapes(shape: Shape) -> list[Shape]:
    return [s for e in shape.elements for s in flat_shapes(e)] if shape.is_tuple else [shape]


def run(
    instr: Instr,
    operands: Sequence[np.ndarray],
    sizes: Mapping[str, int] | None = None,
    run_one: Callable[..., None] = run_kernel.compiled,
) -> list[np.ndarray]:
    """The results of `instr` (flattened) on `operands` (flattened). Buffers start poisoned with 0x5A bytes.

    `run_one(kernel, inputs, outputs, sizes)` runs each kernel: `run_kernel.compiled` or `interpreted`.
    """
    env = dict(sizes or {})
    unit = lower.lower(instr, run_kernel.host_target())
    places: dict[str, list[np.ndarray]] = {
        "operand": [np.ascontiguousarray(o) for o in operands],
        "result": [
            _poisoned(tuple(dim.evaluate(d, env) for d in s.dims), s.dtype.numpy) for s in flat_shapes(instr.shape)
        ],
        "temp": [_poisoned((dim.evaluate(b, env),), np.uint8) for b in unit.temps],
    }
    for result, operand in unit.inplace:
        places["result"][result][...] = places["operand"][operand].reshape(places["result"][result].shape)
    for step in unit.steps:
        if isinstance(step, UnitCopy):
            source, target = (places[r.kind][r.index] for r in (step.source, step.target))
            target.reshape(-1).view(np.uint8)[...] = source.reshape(-1).view(np.uint8)
            continue
        inputs, outputs = ([places[r.kind][r.index] for r in refs] for refs in (step.inputs, step.outputs))
        if isinstance(step, UnitLibrary):
            numbers = [dim.evaluate(size, env) for size in step.sizes]
            foreign.call(step.routine, inputs, outputs, numbers, dim.evaluate(step.tasks, env))
        else:
            run_one(step.kernel, inputs, outputs, env)
    return places["result"]


def _poisoned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = 0x5A if array.dtype != np.bool_ else 1
    return array
