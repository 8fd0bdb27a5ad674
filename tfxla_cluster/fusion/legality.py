"""What may stand in one kernel at all: rules of meaning, the same for every target."""

from __future__ import annotations

from ..decision import YES, Decision, no
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from .moves import MOVES

HEROES = ("dot", "convolution")
# What may stand before a contraction besides elementwise work.
MOVES_BEFORE = frozenset(["broadcast", "reshape", "bitcast", "transpose", "iota", "constant", "parameter"])
# A copy at module level says that a buffer must be another one; reshapes and bitcasts there are free.
_NEVER = ("copy", "parameter", "constant", "stochastic-convert")
_KINDS = ("pred", "int", "uint", "float", "complex")


def fusible(instr: Instr) -> Decision:
    """Whether the instruction can be part of a loop or row kernel."""
    opcode = instr.opcode
    if opcode == "reduce":
        return _reduce(instr)
    if opcode in _NEVER or not (opcode in MOVES or is_elementwise(opcode)):
        return no("opcode", f"{instr.name}: {opcode} is not computed element by element")
    if not instr.shape.is_array or instr.control:
        return no("order", f"{instr.name}: {opcode} is ordered by control dependences")
    if opcode == "map":
        return scalar(instr.attrs["to_apply"])
    return _elements(instr)


def _elements(instr: Instr) -> Decision:
    """Elements of at least a byte, of types kernels compute with."""
    for shape in (instr.shape, *(o.shape for o in instr.operands)):
        for part in shape.elements or (shape,):
            if part.dtype is None or part.dtype.kind not in _KINDS or part.dtype.bits < 8:
                return no("dtype", f"{instr.name}: elements of {part} are not computed in loops")
            if part.dtype.name.startswith("f8"):
                return no("dtype", f"{instr.name}: elements of {part} are not computed in loops")
    return YES


def _reduce(instr: Instr) -> Decision:
    if instr.control:
        return no("order", f"{instr.name}: reduce is ordered by control dependences")
    return scalar(instr.attrs["to_apply"]) & _elements(instr)


def scalar(comp: Computation) -> Decision:
    """Whether a called computation is scalar elementwise work, so that it can stand inside a loop."""
    for instr in comp.instrs:
        plain = instr.opcode in ("parameter", "constant", "tuple", "get-tuple-element")
        if not plain and not is_elementwise(instr.opcode):
            return no("computation", f"{comp.name} holds {instr.opcode}, which is not scalar work")
        if instr.shape.is_array and instr.shape.rank:
            return no("computation", f"{comp.name} works on arrays")
    return YES


def hero(instr: Instr) -> bool:
    """A contraction: a kernel of its own, which may take on what comes before and after."""
    return instr.opcode in HEROES and not instr.control


def virtual(instr: Instr) -> bool:
    """Cheaper to compute again in every kernel that uses it than to read: it never leaves one by itself.

    Scalar constants, iota, broadcasts; reshapes, which compute nothing; conversions to a wider type.
    """
    if instr.control:
        return False
    if instr.opcode == "constant":
        return instr.shape.is_array and instr.shape.rank == 0
    if instr.opcode == "convert":
        source, result = instr.operands[0].shape.dtype, instr.shape.dtype
        assert source is not None
        assert result is not None
        return source.itemsize < result.itemsize and bool(_elements(instr))
    if instr.opcode == "broadcast" and list(_axes(instr)) != sorted(_axes(instr)):
        return False  # it transposes, too
    return instr.opcode in ("iota", "broadcast", "reshape", "bitcast") and bool(fusible(instr))


def _axes(instr: Instr) -> tuple[int, ...]:
    return tuple(instr.attrs.get("dimensions", ()))
