"""Runs a module on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedError, UsageError
from ..dim import DimExpr, check_range
from ..node import Instr, Module
from ..shape import Shape
from .core import Array, Evaluator
from .table import MEANINGS


def evaluate(module: Module, args: Sequence[Any]) -> list[Array]:
    """The outputs of `module` on NumPy arrays: the root's elements, or the root alone.

    Sizes that are symbols get their values from the arguments' shapes. UsageError when the arguments
    do not fit, UnsupportedError for an opcode whose meaning needs more than one device or a host.
    `rng` draws from a generator that starts anew at each call: its values are arbitrary but repeatable.
    """
    arrays = [np.asarray(a) for a in args]
    runner = bound(module, arrays)
    try:
        result = runner.run(module.entry, arrays)
    except RecursionError:
        raise UnsupportedError(f"{module.name} nests too deep for the evaluator") from None
    return list(result) if isinstance(result, tuple) else [result]


def bound(module: Module, arrays: Sequence[Array]) -> Evaluator:
    """An evaluator whose sizes are those of the arguments `arrays` of `module`. UsageError where these do not fit."""
    params = module.entry.params
    if len(params) != len(arrays):
        raise UsageError(f"{module.name} takes {len(params)} arguments, got {len(arrays)}")
    runner = Evaluator(MEANINGS, _bind([p.shape for p in params], arrays))
    for param, array in zip(params, arrays):
        _check_argument(runner, param, array)
    return runner


def _bind(shapes: Sequence[Shape], arrays: Sequence[Array]) -> dict[str, int]:
    """The value of each symbol that stands alone as a dimension of a parameter."""
    env: dict[str, int] = {}
    for shape, array in zip(shapes, arrays):
        for dim, size in zip(shape.dims, array.shape):
            if isinstance(dim, DimExpr) and dim.is_size:
                check_range(dim, size)
                env[dim.name] = size
    return env


def _check_argument(runner: Evaluator, param: Instr, array: Array) -> None:
    if not param.shape.is_array or param.shape.dtype is None:
        raise UnsupportedError(f"parameter %{param.name} is a {param.shape.kind}")
    if array.dtype != param.shape.dtype.numpy or array.shape != runner.dims(param.shape):
        raise UsageError(f"parameter %{param.name} is {param.shape}, got {array.dtype}{list(array.shape)}")
