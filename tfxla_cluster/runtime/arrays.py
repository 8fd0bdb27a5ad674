"""A plan's inputs and outputs as NumPy arrays: the sizes that inputs give, memory for outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import UsageError
from ..ir.dim import DimExpr, check_range, evaluate
from ..ir.shape import Shape
from .plan import LaunchPlan

ALIGN = 64


def bind_sizes(plan: LaunchPlan, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The sizes array for these inputs (produced sizes 0); UsageError where an input does not fit."""
    if len(inputs) != len(plan.inputs):
        raise UsageError(f"{plan.name} takes {len(plan.inputs)} inputs, got {len(inputs)}")
    for number, (given, shape) in enumerate(zip(inputs, plan.inputs)):
        if given.dtype != shape.element_type.numpy or given.ndim != shape.rank:
            got = f"{given.dtype}{list(given.shape)}"
            raise UsageError(f"input {number} of {plan.name} must be {shape}, got {got}")
    sizes = [0 if s.is_produced else inputs[s.input].shape[s.axis] for s in plan.sizes]
    env = {s.symbol: n for s, n in zip(plan.sizes, sizes)}
    for number, (given, shape) in enumerate(zip(inputs, plan.inputs)):
        for dim, size in zip(shape.dims, given.shape):
            if isinstance(dim, DimExpr) and dim.is_size:
                check_range(dim, size)
        wanted = tuple(evaluate(d, env) for d in shape.dims)
        if given.shape != wanted:
            raise UsageError(f"input {number} of {plan.name} must have shape {list(wanted)}, got {list(given.shape)}")
    return np.array(sizes or [0], np.int64)


def empty_outputs(plan: LaunchPlan, sizes: np.ndarray) -> list[np.ndarray]:
    """Memory for the outputs, produced sizes at their bound; `sizes` as `bind_sizes` gives them."""
    env = {s.symbol: int(n) for s, n in zip(plan.sizes, sizes)}
    env |= {s.symbol: evaluate(s.bound, env) for s in plan.sizes if s.is_produced}
    return [_aligned(tuple(evaluate(d, env) for d in shape.dims), shape) for shape in plan.outputs]


def trimmed(plan: LaunchPlan, outputs: Sequence[np.ndarray], env: Mapping[str, int]) -> list[np.ndarray]:
    """The outputs where all sizes are known: `env` by symbol."""
    return [_trim(a, tuple(evaluate(d, env) for d in s.dims)) for a, s in zip(outputs, plan.outputs)]


def aligned_bytes(count: int) -> np.ndarray:
    """Memory that begins at a multiple of ALIGN."""
    raw = np.empty(count + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + count]


def aligned_copy(data: bytes) -> np.ndarray:
    """`data` in memory of its own that begins at a multiple of ALIGN."""
    array = aligned_bytes(len(data))
    array[:] = np.frombuffer(data, np.uint8)
    return array


def _aligned(shape: tuple[int, ...], kind: Shape) -> np.ndarray:
    dtype = kind.element_type.numpy
    count = int(np.prod(shape, dtype=np.int64))
    return aligned_bytes(count * dtype.itemsize).view(dtype).reshape(shape)


def _trim(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """The first elements of a dense buffer, where the produced sizes are below their bounds."""
    if array.shape == dims:
        return array
    return array.reshape(-1)[: int(np.prod(dims, dtype=np.int64))].reshape(dims)
