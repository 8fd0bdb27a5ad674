"""Kernel IR ops as Triton expressions: one table a kind of type.

`{0}`, `{1}`, ... are the operands; `{t}`, `{u}` the operands' type and the unsigned type of that width;
`{bits}`, `{low}`, `{high}` its width and range.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes

from ...decision import YES, Decision, no
from ...errors import UnsupportedError
from ...ir.dtype import DTYPES, DType
from ..kernel.ir import Op
from ..kernel.narrow_floats import F8
from ..kernel.planes import split_support
from .convert import bitcast, convert, low_bits, reduce_precision, rounded, widened, wrapped
from .types import integer_type, narrow, type_name

LOG2E = 1.4426950408889634
_DIRECTIONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

_AMOUNT = "{1}.to({u}, bitcast=True)"
_SMALL = f"({_AMOUNT} < {{bits}})"
_BITS = "{0}.to({u}, bitcast=True)"
_INTEGER = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "negate": "(-{0})",
    "maximum": "tl.maximum({0}, {1})",
    "minimum": "tl.minimum({0}, {1})",
    "clamp": "tl.minimum(tl.maximum({0}, {1}), {2})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} ^ {1})",
    "not": "(~{0})",
    "sign": "(({0} > 0).to({t}) - ({0} < 0).to({t}))",
    "shift-left": f"tl.where({_SMALL}, {{0}} << ({{1}} & ({{bits}} - 1)), 0).to({{t}})",
    "shift-right-logical": (
        f"tl.where({_SMALL}, ({_BITS} >> ({_AMOUNT} & ({{bits}} - 1))).to({{t}}, bitcast=True), 0).to({{t}})"
    ),
    "shift-right-arithmetic": (
        "({0}.to({s}, bitcast=True) >> tl.minimum(" + _AMOUNT + ", {bits} - 1).to({s}, bitcast=True))"
        ".to({t}, bitcast=True)"
    ),
}
_SIGNED = {
    **_INTEGER,
    "abs": "tl.abs({0})",
    "divide": "_divide({0}, {1}, {low})",
    "remainder": "_remainder({0}, {1})",
    "power": "_power_signed({0}, {1}, {u}, {bits})",
}
_UNSIGNED = {
    **_INTEGER,
    "abs": "{0}",
    "divide": "_divide_unsigned({0}, {1}, {high})",
    "remainder": "_remainder_unsigned({0}, {1})",
    "power": "_power({0}, {1}, {u}, {bits})",
}
_INDEX = {"divide": "({0} // {1})", "remainder": "({0} % {1})"}  # of indices, which are not negative
_PRED = {
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} ^ {1})",
    "not": "({0} == 0)",
    "maximum": "({0} | {1})",
    "minimum": "({0} & {1})",
    "add": "({0} | {1})",
    "multiply": "({0} & {1})",
}
# Operands are f32 or f64. tl.maximum and tl.minimum drop NaN unless told otherwise. tl.exp and tl.log are
# approximations whose error grows with the size of the argument or of the result: libdevice's are not.
_FLOAT = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "libdevice.div_rn({0}, {1})",
    "remainder": "libdevice.fmod({0}, {1})",
    "power": "libdevice.pow({0}, {1})",
    "atan2": "libdevice.atan2({0}, {1})",
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "clamp": (
        "tl.minimum(tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL), {2}, propagate_nan=tl.PropagateNan.ALL)"
    ),
    "negate": "(-{0})",
    "abs": "tl.abs({0})",
    "sign": "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, {0}))",
    "is-finite": "(tl.abs({0}) < float('inf'))",
    "exponential": "libdevice.exp({0})",
    "exponential-minus-one": "libdevice.expm1({0})",
    "log": "libdevice.log({0})",
    "log-plus-one": "libdevice.log1p({0})",
    "logistic": "libdevice.rcp_rn(1.0 + libdevice.exp(-{0}))",
    "sqrt": "libdevice.sqrt_rn({0})",
    "rsqrt": "libdevice.rsqrt({0})",
    "cbrt": "libdevice.cbrt({0})",
    "sine": "libdevice.sin({0})",
    "cosine": "libdevice.cos({0})",
    "tan": "libdevice.tan({0})",
    "asin": "libdevice.asin({0})",
    "acos": "libdevice.acos({0})",
    "atan": "libdevice.atan({0})",
    "sinh": "libdevice.sinh({0})",
    "cosh": "libdevice.cosh({0})",
    "tanh": "libdevice.tanh({0})",
    "asinh": "libdevice.asinh({0})",
    "acosh": "libdevice.acosh({0})",
    "atanh": "libdevice.atanh({0})",
    "erf": "libdevice.erf({0})",
    "floor": "libdevice.floor({0})",
    "ceil": "libdevice.ceil({0})",
    "round-nearest-even": "libdevice.rint({0})",
    "round-nearest-afz": "_round_half_away({0})",
}
_APPROXIMATE = {
    "power": "tl.exp2({1})",  # of 2
    "exponential": f"tl.exp2({{0}} * {LOG2E})",
    "logistic": f"(1.0 / (1.0 + tl.exp2({{0}} * {-LOG2E})))",
    "tanh": "_tanh_near({0})",
}
_PREDICATES = ("is-finite",)  # results that are no floats
_TABLES = {"float": _FLOAT, "int": _SIGNED, "uint": _UNSIGNED, "pred": _PRED}
_ANY, _INTEGERS = ("float", "int", "uint", "pred"), ("int", "uint")
# Opcodes with a function of their own, and the kinds of their first operand.
_GENERAL = {
    **dict.fromkeys(("compare", "convert", "copy", "bitcast-convert"), _ANY),
    **dict.fromkeys(("popcnt", "count-leading-zeros"), _INTEGERS),
    **dict.fromkeys(("real", "reduce-precision"), ("float",)),
    "select": ("pred",),
}


def support(opcode: str, operands: Sequence[DType], out: DType) -> Decision:
    """Whether an op on operands of these types has a Triton form, complex numbers as their parts."""
    if any(dtype.kind == "complex" for dtype in (*operands, out)):
        return split_support(opcode, operands, out)
    kind = operands[0].kind
    if opcode == "bitcast-convert" and (operands[0].bits != out.bits or "pred" in (kind, out.kind)):
        return no("bitcast", f"bitcast-convert of {operands[0]} to {out} has no Triton form")
    if opcode == "reduce-precision" and operands[0].name in F8:
        return no("opcode", f"{opcode} of {operands[0]} has no Triton form")
    if opcode in _TABLES[kind] or kind in _GENERAL.get(opcode, ()):
        return YES
    return no("opcode", f"{opcode} of {operands[0]} has no Triton form")


def expression(op: Op, operands: list[str], positive: bool = False) -> str:
    """The Triton expression of `op`; UnsupportedError where there is none. `positive`: the divisor of indices is."""
    source, out = op.operands[0].dtype, op.out.dtype
    decision = support(op.opcode, [v.dtype for v in op.operands], out)
    if not decision:
        raise UnsupportedError(decision.reason)
    if op.attrs.get("index"):
        divisor = operands[1] if positive else f"tl.maximum({operands[1]}, 1)"  # 0 counts as 1
        return _INDEX[op.opcode].format(operands[0], divisor)
    if op.opcode == "compare":
        return _compare(op, operands)
    if op.opcode == "select":
        return f"tl.where({operands[0]}, {operands[1]}, {operands[2]})"
    if op.opcode == "convert":
        return convert(operands[0], source, out)
    if op.opcode == "bitcast-convert":
        return bitcast(operands[0], source, out)
    if op.opcode in ("copy", "real"):
        return operands[0]
    if op.opcode == "reduce-precision":
        return reduce_precision(operands[0], source, int(op.attrs["exponent_bits"]), int(op.attrs["mantissa_bits"]))
    if op.opcode in ("popcnt", "count-leading-zeros"):
        return _count_bits(op.opcode, operands[0], source)
    return _from_table(op, source, operands)


def _from_table(op: Op, dtype: DType, operands: list[str]) -> str:
    if op.attrs.get("approximate"):
        return _APPROXIMATE[op.opcode].format(*operands)
    template = _TABLES[dtype.kind][op.opcode]
    if dtype.is_integer:
        info = ml_dtypes.iinfo(dtype.numpy)
        names = {"u": integer_type(dtype.bits, False), "s": integer_type(dtype.bits, True), "bits": dtype.bits}
        if op.opcode.startswith("shift-"):
            extended = _sign_extended if op.opcode == "shift-right-arithmetic" else low_bits
            operands = [extended(operands[0], dtype), low_bits(operands[1], dtype)]
        text = template.format(*operands, t=type_name(dtype), low=int(info.min), high=int(info.max), **names)
        return wrapped(text, dtype)
    text = template.format(*(widened(o, dtype) for o in operands))
    return rounded(text, dtype) if narrow(dtype) and op.opcode not in _PREDICATES else text


def _sign_extended(text: str, dtype: DType) -> str:
    """An integer of 4 bits by its highest, whatever its own type says of it."""
    return wrapped(text, DTYPES["s4"]) if dtype.bits == DTYPES["s4"].bits else text


def _compare(op: Op, operands: list[str]) -> str:
    dtype = op.operands[0].dtype
    if dtype.kind == "pred":
        operands = [f"{o}.to(tl.int32)" for o in operands]
    elif dtype.is_float and op.attrs.get("type") == "TOTALORDER":
        signed, most = DTYPES[f"s{dtype.bits}"], (1 << (dtype.bits - 1)) - 1
        operands = [f"_total_order({bitcast(o, dtype, signed)}, {most})" for o in operands]
    else:
        operands = [widened(o, dtype) for o in operands]
    return f"({operands[0]} {_DIRECTIONS[op.attrs['direction']]} {operands[1]})"


def _count_bits(opcode: str, operand: str, dtype: DType) -> str:
    """libdevice counts bits of 32 and 64."""
    wide = 64 if dtype.bits == 64 else 32
    unsigned = f"{low_bits(operand, dtype)}.to({integer_type(dtype.bits, False)}, bitcast=True)"
    bits = f"{unsigned}.to({integer_type(wide, False)}).to({integer_type(wide, True)}, bitcast=True)"
    if opcode == "popcnt":
        return f"libdevice.popc({bits}).to({type_name(dtype)})"
    return f"(libdevice.clz({bits}) - {wide - dtype.bits}).to({type_name(dtype)})"
