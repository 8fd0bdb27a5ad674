"""What rules ask of an instruction, and how they make new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import attributes
from ..ir.dim import Dim
from ..ir.dtype import DType
from ..ir.literal import freeze
from ..ir.node import Computation, Instr, holds
from ..ir.opcode import has_effect, is_elementwise
from ..ir.shape import Shape, array


def make(like: Instr, opcode: str, shape: Shape, operands: Sequence[Instr], **attrs: Any) -> Instr:
    """A new instruction in place of `like`: its name, metadata and sources."""
    dtype = operands[0].shape.dtype if operands else None
    full = attributes.complete(opcode, dict(attrs), dtype.kind if dtype else "")
    return Instr(like.name, opcode, shape, tuple(operands), full, like.sources, like.metadata)


def constant(like: Instr, value: Any, dtype: DType) -> Instr:
    """A literal in place of `like`."""
    literal = freeze(value, dtype)
    return make(like, "constant", array(dtype, literal.shape), (), literal=literal)


def splat(like: Instr, value: Any, shape: Shape) -> Instr:
    """`value` at each position of `shape`."""
    scalar = constant(like, value, shape.element_type)
    return scalar if shape.rank == 0 else broadcast(like, scalar, shape.dims)


def broadcast(like: Instr, x: Instr, dims: Sequence[Dim], dimensions: Sequence[int] = ()) -> Instr:
    """`x` repeated to `dims`; `x` itself when that changes nothing."""
    if tuple(dims) == x.shape.dims and tuple(dimensions) == tuple(range(x.shape.rank)):
        return x
    return make(like, "broadcast", array(dtype_of(x), tuple(dims)), (x,), dimensions=tuple(dimensions))


def reshape(like: Instr, x: Instr, dims: Sequence[Dim]) -> Instr:
    """`x` with other dims; `x` itself when they are the same."""
    if tuple(dims) == x.shape.dims:
        return x
    return make(like, "reshape", array(dtype_of(x), tuple(dims)), (x,))


def dtype_of(x: Instr) -> DType:
    return x.shape.element_type


def scalar_of(x: Instr) -> Instr | None:
    """The scalar that `x` repeats everywhere: itself when rank 0, or what it broadcasts."""
    while x.opcode == "broadcast" and x.operands[0].shape.rank != 0:
        x = x.operands[0]
    if x.opcode == "broadcast":
        return x.operands[0]
    return x if x.shape.is_array and x.shape.rank == 0 else None


def value_of(x: Instr) -> Any:
    """The number that constant `x` is at each position; None when it is none or not known to be one."""
    scalar = scalar_of(x)
    if scalar is None:
        return None
    while scalar.opcode == "reshape" and scalar.operands[0].shape.rank == 0:
        scalar = scalar.operands[0]
    return scalar.attrs["literal"][()] if scalar.opcode == "constant" else None


def is_value(x: Instr, number: complex) -> bool:
    """True when `x` is `number` everywhere; 0 does not match -0.0, nor the other way round."""
    value = value_of(x)
    if value is None or dtype_of(x).kind == "pred":
        return False
    if complex(value) != complex(number):
        return False
    return bool(np.signbit(np.real(value)) == np.signbit(np.real(number))) if dtype_of(x).kind == "float" else True


def is_float(x: Instr) -> bool:
    return dtype_of(x).kind == "float"


def is_exact(x: Instr) -> bool:
    """Integers and pred: no rounding, NaN or signed zero to keep."""
    return dtype_of(x).kind in ("int", "uint", "pred")


def is_pure(instr: Instr) -> bool:
    """Equal operands give equal results, and it may be dropped, merged or repeated."""
    return instr.opcode != "parameter" and not holds(instr, "impure", _is_impure)


def _is_impure(instr: Instr) -> bool:
    return has_effect(instr.opcode) or instr.opcode == "opt-barrier"


def lift(comp: Computation, args: Sequence[Instr], dims: tuple[Dim, ...], like: Instr) -> Instr | None:
    """The body of `comp`, a computation of scalars, as elementwise instructions on arrays of `dims`.

    None when it holds more than elementwise instructions, constants and tuples.
    """
    copies: dict[Instr, Instr] = dict(zip(comp.params, args))
    for instr in comp.instrs:
        if instr in copies:
            continue
        sources = instr.sources | like.sources
        if instr.opcode == "constant" and instr.shape.is_array:
            copies[instr] = broadcast(like, instr.replace(sources=sources), dims)
        elif instr.opcode == "tuple" and instr is comp.root:
            parts = [copies[o] for o in instr.operands]
            shape = Shape("tuple", elements=tuple(p.shape for p in parts))
            copies[instr] = instr.replace(shape=shape, operands=tuple(parts), sources=sources)
        elif is_elementwise(instr.opcode) and instr.opcode not in ("map", "bitcast-convert"):
            copies[instr] = instr.replace(
                shape=array(dtype_of(instr), dims),
                operands=tuple([copies[o] for o in instr.operands]),
                sources=sources,
                metadata=like.metadata,
            )
        else:
            return None
    return copies[comp.root]
