"""Scalar computations (a reduction's combiner, a sort's comparator) inlined as kernel IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import UnsupportedError
from ....ir.node import Computation, Instr
from ....ir.opcode import is_elementwise
from ..builder import KernelBuilder
from ..ir import Var

OP_ATTRS = ("direction", "exponent_bits", "mantissa_bits")  # of an elementwise instruction, as its op has them


def inline(b: KernelBuilder, comp: Computation, args: Sequence[Var]) -> tuple[Var, ...]:
    """The results of `comp` (the root, or the elements of its tuple) on scalar `args`.

    UnsupportedError where it holds anything but scalar elementwise ops, constants, calls and tuples.
    """
    values: dict[Instr, tuple[Var, ...]] = {}
    for instr in comp.instrs:
        values[instr] = _value(b, instr, values, args)
    return values[comp.root]


def _value(
    b: KernelBuilder, instr: Instr, values: dict[Instr, tuple[Var, ...]], args: Sequence[Var]
) -> tuple[Var, ...]:
    operands = [v for o in instr.operands for v in values[o]]
    if instr.opcode == "parameter":
        return (args[int(instr.attrs["parameter_number"])],)
    if instr.opcode == "constant":
        return (b.const(instr.attrs["literal"].item(), instr.shape.element_type),)
    if instr.opcode == "tuple":
        return tuple(operands)
    if instr.opcode == "get-tuple-element":
        return (operands[int(instr.attrs["index"])],)
    if instr.opcode in ("call", "fusion"):
        return inline(b, instr.called[0], operands)
    if instr.opcode in ("broadcast", "reshape", "copy", "bitcast") and instr.shape.rank == 0:
        return (operands[0],)
    if not is_elementwise(instr.opcode) or not instr.shape.is_array or instr.shape.rank:
        raise UnsupportedError(f"{instr.opcode} inside a scalar computation ({instr.name})")
    return (elementwise(b, instr, operands),)


def elementwise(b: KernelBuilder, instr: Instr, operands: Sequence[Var]) -> Var:
    """One element of an elementwise instruction."""
    if instr.opcode == "copy" or (instr.opcode == "convert" and instr.shape.dtype == operands[0].dtype):
        return operands[0]
    if instr.opcode == "map":
        return inline(b, instr.attrs["to_apply"], operands)[0]
    attrs: dict[str, Any] = {k: instr.attrs[k] for k in OP_ATTRS if k in instr.attrs}
    if instr.attrs.get("type") == "TOTALORDER":
        attrs["type"] = "TOTALORDER"
    return b.op(instr.opcode, *operands, dtype=instr.shape.dtype, **attrs)
