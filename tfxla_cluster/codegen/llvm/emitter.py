"""Kernel IR to LLVM IR text: one function a kernel, in the ABI of `codegen.kernel.abi`."""

from __future__ import annotations

from ...ir.dtype import S64
from ...target import Target
from ..kernel.ir import Const, For, If, Kernel, Load, Op, Product, Reduce, Size, Store, While
from . import loops, ops
from .contraction import emit_product
from .emission import Emission, Rule
from .formats import register_type, round_to
from .memory import emit_load, emit_store
from .operand import Reg
from .texts import Text
from .values import Value, combine_strides, registers

_LINEAR_OPCODES = ("add", "subtract", "multiply")


def _const(e: Emission, stmt: Const) -> None:
    """Binds a constant (a complex one as two parts)."""
    dtype, kind = stmt.out.dtype, register_type(stmt.out.dtype)
    if dtype.kind == "complex":
        number = complex(stmt.value)
        numbers: tuple[float, ...] = (number.real, number.imag)
    else:
        value = dtype.numpy.type(stmt.value)
        numbers = (float(value) if dtype.is_float else int(value),)
    parts = tuple(e.asm.literal(kind, n) for n in numbers)
    e.env[stmt.out] = Value(dtype, parts)


def _size(e: Emission, stmt: Size) -> None:
    e.env[stmt.out] = Value(S64, (e.sizes[stmt.slot],))


def _op(e: Emission, stmt: Op) -> None:
    args = [e.env[v] for v in stmt.operands]
    e.env[stmt.out] = _linear(e, stmt, args) or _elementwise(e, stmt, args)


def _linear(e: Emission, stmt: Op, args: list[Value]) -> Value | None:
    """Index arithmetic that keeps the form base + lane * stride."""
    dtype = stmt.out.dtype
    if not any(a.stride is not None for a in args):
        return None
    if stmt.opcode in _LINEAR_OPCODES and dtype.bits >= 32:
        found = combine_strides(e.asm, stmt.opcode, *args)
        return Value(dtype, (found[0],), found[1]) if found else None
    if stmt.opcode == "convert" and dtype.is_integer and 32 <= dtype.bits <= args[0].dtype.bits:
        cast = [_narrow(e, r, register_type(dtype)) for r in (args[0].parts[0], args[0].stride)]
        return Value(dtype, (cast[0],), cast[1])
    return None


def _narrow(e: Emission, reg: Reg | None, kind: str) -> Reg:
    assert reg is not None
    if reg.value is not None:
        return e.asm.literal(kind, reg.value)
    return e.asm.cast("trunc", reg, kind)


def _elementwise(e: Emission, stmt: Op, args: list[Value]) -> Value:
    dtype = stmt.out.dtype
    if stmt.attrs.get("index"):
        a, b = (registers(e.asm, v, e.width)[0] for v in args)
        return Value(dtype, (ops.index_division(e.asm, stmt.opcode, a, b),))
    operands = [ops.Operands(a.dtype, registers(e.asm, a, e.width)) for a in args]
    parts = ops.emit(e.asm, stmt.opcode, stmt.attrs, operands, dtype)
    if stmt.opcode not in ops.EXACT:
        parts = tuple(round_to(e.asm, dtype, p) for p in parts)
    return Value(dtype, parts)


def _load(e: Emission, stmt: Load) -> None:
    e.env[stmt.out] = emit_load(e, stmt)


_EMIT: dict[type, Rule] = {
    Const: _const,
    Size: _size,
    Op: _op,
    Load: _load,
    Store: emit_store,
    For: loops.emit_for,
    Reduce: loops.emit_reduce,
    If: loops.emit_if,
    While: loops.emit_while,
    Product: emit_product,
}


def emit(kernel: Kernel, target: Target, symbol: str) -> Text:
    """LLVM IR of the kernel's function under the name `symbol`."""
    return Emission(kernel, target, _EMIT).function(symbol)
