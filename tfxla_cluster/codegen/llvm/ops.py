"""What each elementwise opcode becomes: tables opcode -> function on registers, one a kind of dtype."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...decision import YES, Decision, no
from ...errors import UnsupportedError
from ...ir.dtype import DType
from ..kernel.complex_ops import COMPLEX_FUNCTIONS, absolute
from . import integer
from .asm import Asm
from .complex_ops import AsmReals
from .convert import bitcast_convert, convert, reduce_precision
from .math import FLOAT_FUNCTIONS
from .operand import Reg

Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operands:
    """One operand: its dtype and its registers (two for a complex number)."""

    dtype: DType
    parts: tuple[Reg, ...]


# Results are among the operands' values or rounded already: no rounding of a narrow float is due.
EXACT = frozenset(
    (
        "abs",
        "and",
        "bitcast-convert",
        "ceil",
        "clamp",
        "compare",
        "complex",
        "convert",
        "copy",
        "floor",
        "imag",
        "is-finite",
        "maximum",
        "minimum",
        "negate",
        "not",
        "or",
        "real",
        "reduce-precision",
        "round-nearest-afz",
        "round-nearest-even",
        "select",
        "sign",
        "xor",
    )
)

_COMPARE_FLOAT = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
_COMPARE_INT = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}


def emit(asm: Asm, opcode: str, attrs: Mapping[str, Any], operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    """The registers of `opcode(operands)`; UnsupportedError names the opcode and dtype without a rule."""
    decision = support(opcode, [o.dtype for o in operands], out)
    if not decision:
        raise UnsupportedError(decision.reason)
    function = _GENERAL.get(opcode)
    if function is not None:
        return function(asm, attrs, operands, out)
    dtype, regs = operands[0].dtype, [o.parts[0] for o in operands]
    if dtype.kind == "complex":
        if opcode == "abs":
            real, imag = operands[0].parts
            return (absolute(AsmReals(asm), (real, imag)),)
        return COMPLEX_FUNCTIONS[opcode](AsmReals(asm), *(o.parts for o in operands))
    if dtype.is_integer:
        return (integer.emit(asm, opcode, dtype, regs),)
    return ((FLOAT_FUNCTIONS if dtype.is_float else integer.PRED_FUNCTIONS)[opcode](asm, *regs),)


def support(opcode: str, operands: Sequence[DType], out: DType) -> Decision:
    """Whether `emit` has a rule for the opcode on operands of these types."""
    dtype = operands[0]
    if opcode == "clamp":
        allowed = all(bound in _FUNCTIONS[dtype.kind] for bound in ("maximum", "minimum"))
    elif opcode == "bitcast-convert":
        allowed = dtype.bits == out.bits and not {dtype.kind, out.kind} & {"pred", "complex"}
    elif opcode in _GENERAL:
        allowed = dtype.kind in _KINDS.get(opcode, (dtype.kind,)) and (opcode != "complex" or dtype.bits >= 32)
    else:
        allowed = opcode in _FUNCTIONS[dtype.kind]
    return YES if allowed else no("opcode", f"no machine code for {opcode} on {dtype.name}")


# General opcodes that not every kind of first operand has.
_KINDS = {
    "select": ("pred",),
    "is-finite": ("float",),
    "reduce-precision": ("float",),
    "complex": ("float",),
    "real": ("float", "complex"),
    "imag": ("float", "complex"),
}
_FUNCTIONS: Mapping[str, Collection[str]] = {
    "float": FLOAT_FUNCTIONS,
    "int": integer.INTEGER_FUNCTIONS,
    "uint": integer.INTEGER_FUNCTIONS,
    "pred": integer.PRED_FUNCTIONS,
    "complex": {*COMPLEX_FUNCTIONS, "abs"},
}


def index_division(asm: Asm, opcode: str, a: Reg, b: Reg) -> Reg:
    """Quotient or remainder of non-negative indices (below 2^52 in lanes); a divisor of 0 counts as 1."""
    x, y = asm.match(a, b if b.value else asm.intrinsic("llvm.umax", b, 1))
    if x.lanes == 1:
        return asm.op("udiv" if opcode == "divide" else "urem", x, y)
    # Lanes divide as doubles: the quotient of integers below 2^52, rounded, never reaches the next integer.
    quotient = _small_unsigned(asm, x) / _small_unsigned(asm, y)
    whole = _integer_bits(asm, asm.intrinsic("llvm.floor", quotient))
    return whole if opcode == "divide" else x - whole * y


_TWO52 = 2.0**52


def _small_unsigned(asm: Asm, x: Reg) -> Reg:
    """The double of an i64 in [0, 2^52), by its bits."""
    return asm.cast("bitcast", x | 0x4330000000000000, "double") - _TWO52


def _integer_bits(asm: Asm, x: Reg) -> Reg:
    """The i64 of a whole double in [0, 2^52)."""
    return asm.bits(x + _TWO52) ^ 0x4330000000000000


# --- opcodes whose rule depends on more than the kind of the first operand ---
def _select(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    cond = operands[0].parts[0]
    return tuple(asm.select(cond, a, b) for a, b in zip(operands[1].parts, operands[2].parts))


def _compare(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    a, b = operands
    direction = attrs["direction"]
    if a.dtype.kind == "complex":
        same = asm.cmp("oeq", a.parts[0], b.parts[0]) & asm.cmp("oeq", a.parts[1], b.parts[1])
        return (same if direction == "EQ" else ~same,)
    x, y = a.parts[0], b.parts[0]
    if a.dtype.is_float and attrs.get("type") == "TOTALORDER":
        x, y = _total_order(asm, x), _total_order(asm, y)
    elif a.dtype.is_float:
        return (asm.cmp(_COMPARE_FLOAT[direction], x, y),)
    predicate = _COMPARE_INT[direction]
    if a.dtype.kind in ("uint", "pred"):
        predicate = predicate.replace("s", "u", 1)
    return (asm.cmp(predicate, x, y),)


def _total_order(asm: Asm, x: Reg) -> Reg:
    """A signed integer that orders as -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    bits = asm.bits(x)
    width = 32 if x.type == "float" else 64
    return bits ^ (asm.op("ashr", bits, width - 1) & ((1 << width - 1) - 1))


def _clamp(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    low, value, high = operands
    lowest = Operands(out, emit(asm, "maximum", {}, (value, low), out))
    return emit(asm, "minimum", {}, (lowest, high), out)


def _copy(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    return operands[0].parts


def _convert(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    return convert(asm, operands[0].dtype, out, operands[0].parts)


def _bitcast(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    return bitcast_convert(asm, operands[0].dtype, out, operands[0].parts)


def _is_finite(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    x = operands[0].parts[0]
    return (asm.cmp("olt", asm.intrinsic("llvm.fabs", x), float("inf")),)


def _reduce_precision(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    exponent, mantissa = int(attrs["exponent_bits"]), int(attrs["mantissa_bits"])
    return (reduce_precision(asm, operands[0].dtype, operands[0].parts[0], exponent, mantissa),)


def _complex(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    return operands[0].parts[0], operands[1].parts[0]


def _real(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    return operands[0].parts[:1]


def _imag(asm: Asm, attrs: Attrs, operands: Sequence[Operands], out: DType) -> tuple[Reg, ...]:
    parts = operands[0].parts
    return parts[1:] or (asm.literal(parts[0].type, 0),)


_GENERAL: dict[str, Callable[..., tuple[Reg, ...]]] = {
    "select": _select,
    "compare": _compare,
    "clamp": _clamp,
    "copy": _copy,
    "convert": _convert,
    "bitcast-convert": _bitcast,
    "is-finite": _is_finite,
    "reduce-precision": _reduce_precision,
    "complex": _complex,
    "real": _real,
    "imag": _imag,
}
