"""Runs a computation instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from ...errors import UnsupportedError
from .. import dim as dims_
from ..dim import Dim
from ..node import Computation, Instr
from ..opcode import is_elementwise
from ..shape import Shape

Array = np.ndarray[Any, Any]
Value = Union[Array, tuple["Value", ...]]
Meaning = Callable[["Evaluator", Instr, list[Any]], Any]


class Evaluator:
    """`meanings`: what each opcode does; `env`: the sizes that symbols stand for.

    `rng` draws from a generator that starts anew with each evaluator.
    """

    def __init__(self, meanings: Mapping[str, Meaning], env: Mapping[str, int] | None = None) -> None:
        self.meanings = meanings
        self.env = dict(env or {})
        self.random = np.random.default_rng(0)
        self.random_state = 0

    def number(self, dim: Dim) -> int:
        return dims_.evaluate(dim, self.env)

    def dims(self, shape: Shape) -> tuple[int, ...]:
        return tuple(map(self.number, shape.dims))

    def run(self, comp: Computation, args: Sequence[Any]) -> Any:
        """The value of the root of `comp` on `args`, one a parameter."""
        return self.values(comp, args)[comp.root]

    def values(self, comp: Computation, args: Sequence[Any]) -> dict[Instr, Any]:
        """The value of each instruction of `comp` on `args`, one a parameter."""
        values: dict[Instr, Any] = dict(zip(comp.params, args))
        with np.errstate(all="ignore"):
            for instr in comp.instrs:
                if instr not in values:
                    values[instr] = self.step(instr, [values[o] for o in instr.operands])
        return values

    def step(self, instr: Instr, operands: list[Any]) -> Any:
        """The value of one instruction."""
        meaning = self.meanings.get(instr.opcode)
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
