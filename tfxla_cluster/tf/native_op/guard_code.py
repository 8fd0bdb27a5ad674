"""Machine code of guards: `ir.guard` says what they mean, `records.guard_rows` how they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import llvmlite.ir as ll

from .builder import GUARD_KINDS, GUARD_WORDS, I1, I8, I32, I64, P64, PPTR, PTR, Code


@dataclass(frozen=True)
class _Row:
    """A guard's row, read: the input and axis it is about, and the two words of what is wanted."""

    c: Code
    number: ll.Value
    tensor: ll.Value
    axis: ll.Value
    first: ll.Value
    second: ll.Value
    tensors: ll.Value
    equal_bytes: ll.Function

    @property
    def size(self) -> ll.Value:
        return self.c.api("TF_Dim", self.tensor, self.c.b.trunc(self.axis, I32))


def build(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """i1 hold(guards, count, tensors, context): all guards hold."""
    equal_bytes = _equal_bytes(module, addresses)
    c = Code(module, "hold", ll.FunctionType(I1, (P64, I64, PPTR, PTR)), addresses)
    b = c.b
    guards, count, tensors, _ = c.args
    no = c.function.append_basic_block("no")
    with c.loop(count) as i:
        row = b.gep(guards, (b.mul(i, I64(len(GUARD_WORDS))),))
        kind, number, axis, first, second = (c.load(row, k) for k in range(len(GUARD_WORDS)))
        go_on = c.function.append_basic_block("go_on")
        switch = b.switch(kind, no)
        for code, name in enumerate(GUARD_KINDS):
            case = c.function.append_basic_block(name)
            switch.add_case(I64(code), case)
            b.position_at_end(case)
            held = _CHECKS[name](_Row(c, number, c.load(tensors, number), axis, first, second, tensors, equal_bytes))
            b.cbranch(held, go_on, no)
        b.position_at_end(go_on)
    b.ret(I1(1))
    b.position_at_end(no)
    b.ret(I1(0))
    return c.function


def _equal_bytes(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """i1 equal_bytes(tensor, length, address, context, number): the data of the tensor, that input, is these bytes.

    On a GPU that waits for the device, where the input lies in its memory.
    """
    c = Code(module, "equal_bytes", ll.FunctionType(I1, (PTR, I64, I64, PTR, I64)), addresses)
    b = c.b
    tensor, length, address, context, number = c.args
    no = c.function.append_basic_block("no")
    compare = c.function.append_basic_block("compare")
    b.cbranch(b.icmp_signed("==", length, c.api("TF_TensorByteSize", tensor)), compare, no)
    b.position_at_end(compare)
    wanted, found = b.inttoptr(address, PTR), c.api("TF_TensorData", tensor)
    if c.on_gpu:
        found, device = b.alloca(I8, length), found
        was_read = c.function.append_basic_block("read")
        failed = c.api("tfxla_read", context, number, found, device, length)
        b.cbranch(b.icmp_signed("==", failed, I64(0)), was_read, no)
        b.position_at_end(was_read)
    with c.loop(length) as k:
        go_on = c.function.append_basic_block("go_on")
        b.cbranch(b.icmp_signed("==", c.load(wanted, k), c.load(found, k)), go_on, no)
        b.position_at_end(go_on)
    b.ret(I1(1))
    b.position_at_end(no)
    b.ret(I1(0))
    return c.function


def _dtype(row: _Row) -> ll.Value:
    b = row.c.b
    return b.icmp_signed("==", b.sext(row.c.api("TF_TensorType", row.tensor), I64), row.first)


def _rank(row: _Row) -> ll.Value:
    b = row.c.b
    return b.icmp_signed("==", b.sext(row.c.api("TF_NumDims", row.tensor), I64), row.first)


def _equal(row: _Row) -> ll.Value:
    return row.c.b.icmp_signed("==", row.size, row.first)


def _range(row: _Row) -> ll.Value:
    b, size = row.c.b, row.size
    return b.and_(b.icmp_signed("<=", row.first, size), b.icmp_signed("<=", size, row.second))


def _divisible(row: _Row) -> ll.Value:
    return row.c.b.icmp_signed("==", row.c.b.srem(row.size, row.first), I64(0))


def _residue(row: _Row) -> ll.Value:
    return row.c.b.icmp_signed("==", row.c.b.srem(row.size, row.first), row.second)


def _same(row: _Row) -> ll.Value:
    c = row.c
    other = c.api("TF_Dim", c.load(row.tensors, row.first), c.b.trunc(row.second, I32))
    return c.b.icmp_signed("==", row.size, other)


def _value(row: _Row) -> ll.Value:
    context = row.c.args[3]
    return row.c.b.call(row.equal_bytes, (row.tensor, row.first, row.second, context, row.number))


_CHECKS: Mapping[str, Callable[[_Row], ll.Value]] = {
    "dtype": _dtype,
    "rank": _rank,
    "equal": _equal,
    "range": _range,
    "divisible": _divisible,
    "residue": _residue,
    "same": _same,
    "value": _value,
}
