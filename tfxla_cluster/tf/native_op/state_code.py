"""Machine code that looks at the state of a thread, as Python and TensorFlow have it, before a direct call."""

from __future__ import annotations

from collections.abc import Mapping

import llvmlite.ir as ll

from .builder import I1, I32, I64, P64, PPTR, PTR, Code

ATTRIBUTE, ITEM, FIELD, FLAG = range(4)
"""Where a row of the thread's state begins: an object, a dict, or a place in TensorFlow's EagerContextThreadLocalData
(tensorflow/python/eager/pywrap_tfe.h) with a pointer to an object or a bool."""
FALSE, TRUE, SAME = range(3)
"""What a row of the thread's state asks of a value."""


def build(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """i1 state(rows): what Python and TensorFlow say of this thread is as the rows ask.

    Rows: TensorFlow's context (0: no row is about a FIELD or FLAG), their count, then of each where it begins, the
    object or offset there, how many names lead from it to a value, the names, what is asked of the value, an object
    that it may be. An attribute that is missing is a no.
    """
    c = Code(module, "state", ll.FunctionType(I1, (P64,)), addresses)
    b = c.b
    no = c.function.append_basic_block("no")
    cursor, value, local, held = b.alloca(P64), b.alloca(PTR), b.alloca(PTR), b.alloca(I1)
    context = b.inttoptr(c.load(c.args[0], 0), PTR)
    with b.if_then(b.icmp_signed("!=", context, PTR(None)), likely=True):
        b.store(c.api("GetEagerContextThreadLocalData", context), local)
        _go_on(c, b.icmp_signed("!=", b.load(local), PTR(None)), no)
    b.store(b.gep(c.args[0], (I64(2),)), cursor)
    with c.loop(c.load(c.args[0], 1)):
        row = b.load(cursor)
        count = c.load(row, 2)
        end = b.gep(row, (b.add(count, I64(3)),))
        b.store(b.gep(end, (I64(2),)), cursor)
        is_flag = b.icmp_signed("==", c.load(row, 0), I64(FLAG))
        with b.if_else(is_flag) as (flag, other):
            with flag:
                byte = b.load(b.gep(b.load(local), (c.load(row, 1),)))
                b.store(b.icmp_signed("==", b.zext(byte, I64), c.load(end, 0)), held)
            with other:
                first = _start(c, row, b.load(local), value)
                _follow(c, row, first, count, value, no)
                b.store(_asked(c, b.load(value), c.load(end, 0), b.inttoptr(c.load(end, 1), PTR)), held)
                c.api("Py_DecRef", b.load(value))
        _go_on(c, b.load(held), no)
    empty = c.api("TFE_Py_TapeSetIsEmpty")
    is_empty = b.icmp_signed("==", c.api("PyObject_IsTrue", empty), I32(1))
    c.api("Py_DecRef", empty)
    level = b.inttoptr(I64(addresses["profiling"]), I32.as_pointer())
    idle = b.icmp_signed("<=", b.load_atomic(level, "monotonic", 4), I32(0))
    b.ret(b.and_(is_empty, idle))
    b.position_at_end(no)
    c.api("PyErr_Clear")
    b.ret(I1(0))
    return c.function


def _go_on(c: Code, held: ll.Value, otherwise: ll.Block) -> None:
    following = c.function.append_basic_block("go_on")
    c.b.cbranch(held, following, otherwise)
    c.b.position_at_end(following)


def _start(c: Code, row: ll.Value, local: ll.Value, value: ll.Value) -> ll.Value:
    """`value` gets the object where a row begins (null: there is none), a reference of ours; how many of the row's
    names led to it."""
    b = c.b
    kind, place = c.load(row, 0), c.load(row, 1)
    is_item, is_field = b.icmp_signed("==", kind, I64(ITEM)), b.icmp_signed("==", kind, I64(FIELD))
    b.store(b.inttoptr(place, PTR), value)
    with b.if_then(is_item):
        b.store(c.api("PyDict_GetItem", b.inttoptr(place, PTR), b.inttoptr(c.load(row, 3), PTR)), value)
    with b.if_then(is_field):
        b.store(b.load(b.bitcast(b.gep(local, (place,)), PPTR)), value)
    c.api("Py_IncRef", b.load(value))  # of null: does nothing
    return b.zext(is_item, I64)


def _follow(c: Code, row: ll.Value, first: ll.Value, count: ll.Value, value: ll.Value, otherwise: ll.Block) -> None:
    """`value` gets what the row's names from `first` on lead to."""
    b = c.b
    _go_on(c, b.icmp_signed("!=", b.load(value), PTR(None)), otherwise)
    with c.loop(b.sub(count, first)) as k:
        before = b.load(value)
        name = b.inttoptr(c.load(row, b.add(b.add(k, first), I64(3))), PTR)
        b.store(c.api("PyObject_GetAttr", before, name), value)
        c.api("Py_DecRef", before)
        _go_on(c, b.icmp_signed("!=", b.load(value), PTR(None)), otherwise)


def _asked(c: Code, value: ll.Value, asked: ll.Value, wanted: ll.Value) -> ll.Value:
    """`value` is true, false or the object wanted, whichever is asked."""
    b = c.b
    is_true, is_same = b.sext(c.api("PyObject_IsTrue", value), I64), b.icmp_signed("==", value, wanted)
    return b.select(b.icmp_signed("==", asked, I64(SAME)), is_same, b.icmp_signed("==", is_true, asked))
