"""The library routine that looks for bad data, in machine code (data_checks.Probe says what is bad)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ... import data_checks
from ...codegen.kernel import abi
from ...codegen.kernel.library_check import (
    COLUMNS,
    FURTHER,
    HEAD_AT,
    HEAD_BYTES,
    LIMIT_BYTES,
    LIMITS,
    LIMITS_AT,
    MOST,
    PROBES,
    PROBES_AT,
    ROW,
    ROW_AT,
    ROW_BYTES,
    ROWS,
    SIZES,
    SIZES_AT,
    TEXT,
    WIDTH,
    WORDS,
)
from ..check_reports import SLOTS, STATUS_DATA
from ..launcher.words import PTR, Function, Word, global_words

_WIDTHS = (1, 2, 4, 8)
_VECTOR = 32  # bytes


def emit(module: ir.Module) -> None:
    """A library routine, called as a kernel is: inputs are the values, the limits (if there are any) and the text of
    the check. And `check_reports`: the address of the slots."""
    slots, counter = global_words(module, "tfxla_check_slots", WORDS * SLOTS), global_words(module, "tfxla_checks", 1)
    find = _emit_find(module, [_emit_find_of(module, width) for width in _WIDTHS])
    first = _emit_first(module, find)
    f = Function(module, data_checks.ROUTINE, 4)
    context, inputs, _, sizes = f.args
    row = f.call(first, f.load(inputs), f.load(inputs, 1), sizes)
    with f.if_(row.compare(">=", 0)):
        number = f.atomic_add(Word(f, counter), 1) & (SLOTS - 1)
        _report(f, find, Word(f, slots) + number * (8 * WORDS), row)
        status = f.b.inttoptr(f.load(context, abi.STATUS).value, PTR)
        f.b.store(f.b.trunc((number + STATUS_DATA).value, ir.IntType(32)), status)
    f.return_()
    f = Function(module, "check_reports", 0)
    f.return_(Word(f, slots))


def _report(f: Function, find: Function, slot: Word, row: Word) -> None:
    """Fill a slot."""
    _, inputs, _, sizes = f.args
    data, limits = f.load(inputs), f.load(sizes, LIMITS)
    width = f.word(1) << f.load(sizes, WIDTH)
    columns = f.load(sizes, COLUMNS)
    count = f.load(sizes, ROWS) * columns
    f.store(slot, TEXT, f.load(inputs, f.select(limits.compare("==", 0), 1, 2)))
    f.store(slot, ROW, row)
    for probe in range(1, PROBES):
        mask, base, limit = (f.load(sizes, PROBES_AT + 3 * probe + k) for k in range(3))
        found = f.local(-1)
        with f.if_(mask.compare("!=", 0)):
            found.set(f.call(find, f.load(sizes, WIDTH), data, count, 1, mask, base, limit))
        f.store(slot, FURTHER + probe - 1, found.get())
    f.call("memcpy", slot + 8 * SIZES_AT, sizes, 8 * SIZES)
    bytes_ = columns * width
    f.call("memcpy", slot + 8 * ROW_AT, data + row * bytes_, bytes_.min(ROW_BYTES))
    f.call("memcpy", slot + 8 * HEAD_AT, data, (count * width).min(HEAD_BYTES))
    with f.if_(limits.compare("!=", 0)):
        f.call("memcpy", slot + 8 * LIMITS_AT, f.load(inputs, 1), (limits * 4).min(LIMIT_BYTES))


def _emit_first(module: ir.Module, find: Function) -> Function:
    """first(data, limits, sizes): the first row with a bad value in any column, -1 for none."""
    f = Function(module, "check_first", 3)
    data, limits, sizes = f.args
    kind, rows, columns = (f.load(sizes, k) for k in (WIDTH, ROWS, COLUMNS))
    mask, base, fixed = (f.load(sizes, PROBES_AT + k) for k in range(3))
    best = f.local(-1)
    with f.count(0, columns) as column:
        limit = f.local(fixed)
        with f.if_(f.load(sizes, LIMITS).compare("!=", 0)):
            given = f.load_narrow(limits + column * 4, 32)
            limit.set(given.min(f.load(sizes, MOST)) - base)
        row = f.call(find, kind, data + (column << kind), rows, columns, mask, base, limit.get())
        better = f.b.or_(best.get().compare("<", 0), row.compare("<", best.get()))
        with f.if_(f.both(row.compare(">=", 0), better)):
            best.set(row)
    f.return_(best.get())
    return f


def _emit_find(module: ir.Module, finds: list[Function]) -> Function:
    """find(log2 of bytes, data, count, stride, mask, base, limit): the number of the first bad value, -1 for none."""
    f = Function(module, "check_find", 7)
    f.switch(f.args[0], [lambda of=of: f.return_(f.call(of, *f.args[1:])) for of in finds])
    f.return_(-1)
    return f


def _emit_find_of(module: ir.Module, width: int) -> Function:
    """The same for values of `width` bytes: all in vectors where they lie side by side, then one by one if need be."""
    f = Function(module, f"check_find_{width}", 6)
    data, count, stride, mask, base, limit = f.args
    kind, lanes = ir.IntType(8 * width), _VECTOR // width
    narrow = [word.value if width == 8 else f.b.trunc(word.value, kind) for word in (mask, base, limit)]
    start = f.local(0)
    with f.if_(stride.compare("==", 1)):
        vector = ir.VectorType(kind, lanes)
        wide = [_splat(f, value, vector) for value in narrow]
        with f.b.goto_entry_block():
            any_bad = f.b.alloca(vector)
        f.b.store(ir.Constant(vector, None), any_bad)
        with f.loop():
            f.break_if((start.get() + lanes).compare(">", count))
            values = _load(f, data + start.get() * width, vector)
            bad = f.b.sext(_is_bad(f, values, wide), vector)
            f.b.store(f.b.or_(f.b.load(any_bad, typ=vector), bad), any_bad)
            start.set(start.get() + lanes)
        whole = f.b.bitcast(f.b.load(any_bad, typ=vector), ir.IntType(8 * _VECTOR))
        with f.if_(f.b.icmp_unsigned("!=", whole, ir.Constant(whole.type, 0))):
            start.set(0)
    with f.count(start.get(), count) as i:
        value = _load(f, data + i * stride * width, kind)
        with f.if_(_is_bad(f, value, narrow)):
            f.return_(i)
    f.return_(-1)
    return f


def _is_bad(f: Function, value: Any, probe: list[Any]) -> Any:
    mask, base, limit = probe
    return f.b.icmp_unsigned(">=", f.b.sub(f.b.and_(value, mask), base), limit)


def _load(f: Function, address: Word, kind: ir.Type) -> Any:
    return f.b.load(f.b.inttoptr(address.value, PTR), typ=kind, align=1)


def _splat(f: Function, value: Any, vector: ir.VectorType) -> Any:
    one = f.b.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return f.b.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)
