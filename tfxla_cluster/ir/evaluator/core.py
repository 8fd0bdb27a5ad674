"""Runs a module instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from ...errors import UnsupportedError, UsageError
from .. import dim as dims_
from ..dim import Dim, DimExpr
from ..node import Computation, Instr, Module
from ..opcode import is_elementwise
from ..shape import Shape

Array = np.ndarray[Any, Any]
Value = Union[Array, tuple["Value", ...]]
Meaning = Callable[["Evaluator", Instr, list[Any]], Any]


def evaluate(module: Module, args: Sequence[Any]) -> list[Array]:
    """The outputs of `module` on NumPy arrays: the root's elements, or the root alone.

    Sizes that are symbols get their values from the arguments' shapes. UsageError when the arguments
    do not fit, UnsupportedError for an opcode whose meaning needs more than one device or a host.
    `rng` draws from a generator that starts anew at each call: its values are arbitrary but repeatable.
    """
    params = module.entry.params
    if len(params) != len(args):
        raise UsageError(f"{module.name} takes {len(params)} arguments, got {len(args)}")
    arrays = [np.asarray(a) for a in args]
    runner = Evaluator(_bind([p.shape for p in params], arrays))
    for param, array in zip(params, arrays):
        _check_argument(runner, param, array)
    result = runner.run(module.entry, arrays)
    return list(result) if isinstance(result, tuple) else [result]


def _bind(shapes: Sequence[Shape], arrays: Sequence[Array]) -> dict[str, int]:
    """The value of each symbol that stands alone as a dimension of a parameter."""
    env: dict[str, int] = {}
    for shape, array in zip(shapes, arrays):
        for dim, size in zip(shape.dims, array.shape):
            if isinstance(dim, DimExpr) and dim.is_size:
                env[dim.name] = size
    return env


def _check_argument(runner: Evaluator, param: Instr, array: Array) -> None:
    if not param.shape.is_array or param.shape.dtype is None:
        raise UnsupportedError(f"parameter %{param.name} is a {param.shape.kind}")
    if array.dtype != param.shape.dtype.numpy or array.shape != runner.dims(param.shape):
        raise UsageError(f"parameter %{param.name} is {param.shape}, got {array.dtype}{list(array.shape)}")


class Evaluator:
    """`env` holds the sizes that symbols stand for."""

    def __init__(self, env: Mapping[str, int] | None = None) -> None:
        self.env = dict(env or {})
        self.random = np.random.default_rng(0)
        self.random_state = 0

    def number(self, dim: Dim) -> int:
        return dims_.evaluate(dim, self.env)

    def dims(self, shape: Shape) -> tuple[int, ...]:
        return tuple(map(self.number, shape.dims))

    def run(self, comp: Computation, args: Sequence[Any]) -> Any:
        """The value of the root of `comp` on `args`, one a parameter."""
        values: dict[Instr, Any] = dict(zip(comp.params, args))
        with np.errstate(all="ignore"):
            for instr in comp.instrs:
                if instr not in values:
                    values[instr] = self.step(instr, [values[o] for o in instr.operands])
        return values[comp.root]

    def step(self, instr: Instr, operands: list[Any]) -> Any:
        """The value of one instruction."""
        from . import MEANINGS

        meaning = MEANINGS.get(instr.opcode)
        if meaning is None:
            raise UnsupportedError(f"the evaluator has no meaning for '{instr.opcode}' (%{instr.name})")
        return meaning(self, instr, operands)

    def apply(self, comp: Computation, args: Sequence[Array]) -> Any:
        """`comp`, a computation of scalars, at each position of arrays of one shape."""
        args = np.broadcast_arrays(*args)
        if all(_scalar_op(i) for i in comp.instrs):
            result = self.run(comp, args)
            if isinstance(result, tuple):
                return tuple(np.broadcast_to(r, args[0].shape) for r in result)
            return np.broadcast_to(result, args[0].shape)
        return self._apply_one_by_one(comp, args)

    def _apply_one_by_one(self, comp: Computation, args: Sequence[Array]) -> Any:
        rows = [self.run(comp, [a[where] for a in args]) for where in np.ndindex(args[0].shape)]
        shapes = comp.root.shape.elements if comp.root.shape.is_tuple else (comp.root.shape,)
        outs = tuple(np.empty(args[0].shape, s.element_type.numpy) for s in shapes)
        for where, row in zip(np.ndindex(args[0].shape), rows):
            for out, value in zip(outs, row if isinstance(row, tuple) else (row,)):
                out[where] = value
        return outs if comp.root.shape.is_tuple else outs[0]


def _scalar_op(instr: Instr) -> bool:
    """True when the meaning of `instr` on scalars is also its meaning at each position of arrays."""
    if instr.opcode == "map" or (instr.opcode == "bitcast-convert" and not instr.shape.dtype):
        return False
    return is_elementwise(instr.opcode) or instr.opcode in ("parameter", "constant", "tuple", "get-tuple-element")
