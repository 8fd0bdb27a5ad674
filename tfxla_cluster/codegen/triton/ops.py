"""Kernel IR ops as Triton expressions: one table. `{0}`, `{1}`, ... are the operands."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...ir.dtype import DType
from ..kernel.ir import Op

DTYPES = {
    "pred": "tl.int1",
    "s8": "tl.int8",
    "s16": "tl.int16",
    "s32": "tl.int32",
    "s64": "tl.int64",
    "u8": "tl.uint8",
    "u16": "tl.uint16",
    "u32": "tl.uint32",
    "u64": "tl.uint64",
    "f16": "tl.float16",
    "bf16": "tl.bfloat16",
    "f32": "tl.float32",
    "f64": "tl.float64",
}
DIRECTIONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

_INTEGER = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "({0} // {1})",
    "remainder": "({0} % {1})",
    "negate": "(-{0})",
    "abs": "tl.abs({0})",
    "maximum": "tl.maximum({0}, {1})",
    "minimum": "tl.minimum({0}, {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} ^ {1})",
}
_PRED = {**{k: _INTEGER[k] for k in ("and", "or", "xor")}, "not": "({0} == 0)"}
# tl.maximum and tl.minimum drop NaN unless told otherwise; '/' on f32 is not IEEE but div_rn is.
_FLOAT = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "({0} / {1})",
    "negate": "(-{0})",
    "abs": "tl.abs({0})",
    "exponential": "tl.exp({0})",
    "log": "tl.log({0})",
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "tl.rsqrt({0})",
    "sine": "tl.sin({0})",
    "cosine": "tl.cos({0})",
    "erf": "tl.erf({0})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "logistic": "(1.0 / (1.0 + tl.exp(-{0})))",
    "tanh": "_tanh({0})",
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
}
_F32_ONLY = {"exponential", "log", "sqrt", "rsqrt", "sine", "cosine", "erf", "floor", "ceil", "logistic", "tanh"}
DIVIDE_F32 = "tl.div_rn({0}, {1})"


def expression(op: Op, operands: list[str]) -> str:
    """The Triton expression of `op`; UnsupportedError where there is none."""
    dtype, source = op.out.dtype, op.operands[0].dtype if op.operands else op.out.dtype
    if op.opcode == "compare":
        return f"({operands[0]} {DIRECTIONS[op.attrs['direction']]} {operands[1]})"
    if op.opcode == "select":
        return f"tl.where({operands[0]}, {operands[1]}, {operands[2]})"
    if op.opcode == "convert":
        return f"({operands[0]} != 0)" if dtype.kind == "pred" else f"{operands[0]}.to({type_name(dtype)})"
    if op.opcode == "copy":
        return operands[0]
    template = _template(op.opcode, source)
    if source.is_float and source.bits < 32 and op.opcode in _F32_ONLY:
        widened = [f"{operand}.to(tl.float32)" for operand in operands]
        return f"({template.format(*widened)}).to({type_name(dtype)})"
    return template.format(*operands)


def _template(opcode: str, dtype: DType) -> str:
    if opcode == "divide" and dtype.name == "f32":
        return DIVIDE_F32
    table = _FLOAT if dtype.is_float else _PRED if dtype.kind == "pred" else _INTEGER
    if opcode not in table:
        raise UnsupportedError(f"{opcode} of {dtype} has no Triton form yet")
    return table[opcode]


def type_name(dtype: DType) -> str:
    """Triton's name of an element type; UnsupportedError where it has none."""
    if dtype.name not in DTYPES:
        raise UnsupportedError(f"{dtype} has no Triton type")
    return DTYPES[dtype.name]


PRELUDE = '''import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    """1 - 2 / (exp(2x) + 1), and the series where that cancels."""
    s = x * x
    series = x * (1.0 - s * (0.33333334 - s * (0.13333334 - s * 0.053968254)))
    return tl.where(tl.abs(x) < 0.1, series, 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0))
'''
