"""Machine code of a direct call: from Python's arguments to its results with neither Python code nor TensorFlow's
eager runtime between.

The function is one of Python's own builtins (`direct` makes it). It looks at the state of the thread, finds the plan
that fits the arguments, gives back the GIL, runs the plan's executable as the op does, and wraps the results. Whatever
does not hold makes it answer NotImplemented with nothing done: TensorFlow's path is then taken.
"""

from __future__ import annotations

from collections.abc import Mapping

import llvmlite.ir as ll

from . import dispatch_code, guard_code, run_code, state_code
from .builder import (
    HOST_DEVICE,
    I1,
    I32,
    I64,
    P64,
    PPTR,
    PTR,
    RESOURCE_EXHAUSTED,
    Code,
    entry_word,
    plan_word,
    program_word,
    table_word,
)

MAX_ARGUMENTS = 256
"""Of a direct call: their tensors lie on the stack."""
CONSTANT, TENSOR = range(2)
"""What a row of a plan's arguments asks of one."""


class _Eager(run_code.Caller):
    """A direct call: results become handles of TensorFlow's eager runtime, in the array that is called `context`."""

    def allocate(self, c: Code, out: run_code.Output) -> ll.Value:
        tensor = c.api("TF_AllocateTensor", out.dtype, out.dims, out.rank, out.bytes)
        with c.b.if_then(c.b.icmp_signed("==", tensor, PTR(None)), likely=False):
            c.api("TF_SetStatus", c.args[4], I32(RESOURCE_EXHAUSTED), c.text("No memory for a result"))
        return tensor

    def pass_on(self, c: Code, out: run_code.Output, tensor: ll.Value) -> None:
        self.deliver(c, out.number, tensor)

    def deliver(self, c: Code, number: ll.Value, tensor: ll.Value) -> None:
        with c.b.if_then(c.b.not_(c.failed(c.args[4])), likely=True):
            handles = c.b.bitcast(c.args[0], PPTR)
            c.store(c.api("TFE_NewTensorHandle", tensor, c.args[4]), handles, number)

    def explain(self, c: Code, code: ll.Value) -> None:
        """TensorFlow's path runs it again, and says what is wrong."""


def build(addresses: Mapping[str, int], refusal: int) -> ll.Module:
    """The module with `tfxla_direct`. addresses: of C_API, EAGER_API and PYTHON_C_API, and `profiling`: that of the
    word that is not 0 while TensorFlow's profiler records. refusal: address of Python's NotImplemented."""
    module = ll.Module("tfxla_direct")
    hold = guard_code.build(module, addresses)
    find = dispatch_code.build_find(module, addresses, hold)
    run = run_code.build(module, addresses, _Eager())
    state = state_code.build(module, addresses)
    match = _match(module, addresses)
    resolve = _resolve(module, addresses)
    execute = _execute(module, addresses, find, run, resolve)
    wrap = _wrap(module, addresses)
    serve = _serve(module, addresses, match, resolve, execute, wrap)
    _direct(module, addresses, state, serve, refusal)
    return module


def _match(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """Plan* match(table, count, objects, tensors): the first plan of the table that is for these arguments, or null.

    tensors: the TF_Tensor of each argument, null of one that is no tensor.
    """
    c = Code(module, "match", ll.FunctionType(P64, (P64, I64, PPTR, PPTR)), addresses)
    b = c.b
    table, count, objects, tensors = c.args
    plans = b.gep(table, (I64(table_word("plans")),))
    cursor = b.alloca(P64)
    with c.loop(c.load(table, table_word("count"))) as i:
        plan = b.inttoptr(c.load(plans, i), P64)
        following = c.function.append_basic_block("following")
        fits = c.function.append_basic_block("fits")
        b.cbranch(b.icmp_signed("==", count, c.load(plan, plan_word("argument_count"))), fits, following)
        b.position_at_end(fits)
        b.store(b.inttoptr(c.load(plan, plan_word("arguments")), P64), cursor)
        with c.loop(count) as k:
            _match_argument(c, cursor, c.load(objects, k), c.load(tensors, k), following)
        b.ret(plan)
        b.position_at_end(following)
    b.ret(P64(None))
    return c.function


def _match_argument(c: Code, cursor: ll.Value, value: ll.Value, tensor: ll.Value, otherwise: ll.Block) -> None:
    """Go on where an argument is as the row under the cursor has it, which moves to the next row. Rows: CONSTANT and
    the object; TENSOR, dtype, rank, dims."""
    b = c.b
    row = b.load(cursor)
    is_tensor = b.icmp_signed("!=", tensor, PTR(None))
    constant, described, there, sized, following = (
        c.function.append_basic_block(n) for n in ("constant", "described", "there", "sized", "argument_fits")
    )
    b.cbranch(b.icmp_signed("==", c.load(row, 0), I64(CONSTANT)), constant, described)
    b.position_at_end(constant)
    b.store(b.gep(row, (I64(2),)), cursor)
    b.cbranch(b.icmp_signed("==", value, b.inttoptr(c.load(row, 1), PTR)), following, otherwise)
    b.position_at_end(described)
    b.cbranch(is_tensor, there, otherwise)
    b.position_at_end(there)
    rank = c.load(row, 2)
    same_type = b.icmp_signed("==", b.sext(c.api("TF_TensorType", tensor), I64), c.load(row, 1))
    same_rank = b.icmp_signed("==", b.sext(c.api("TF_NumDims", tensor), I64), rank)
    b.cbranch(b.and_(same_type, same_rank), sized, otherwise)
    b.position_at_end(sized)
    with c.loop(rank) as axis:
        equal = b.icmp_signed("==", c.api("TF_Dim", tensor, b.trunc(axis, I32)), c.load(row, b.add(axis, I64(3))))
        further = c.function.append_basic_block("further")
        b.cbranch(equal, further, otherwise)
        b.position_at_end(further)
    b.store(b.gep(row, (b.add(rank, I64(3)),)), cursor)
    b.branch(following)
    b.position_at_end(following)


def _resolve(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """TF_Tensor* resolve(handle, host, status): that of a handle on the device of that name, null for another's.

    Waits where TensorFlow is still computing it.
    """
    c = Code(module, "resolve", ll.FunctionType(PTR, (PTR, PTR, PTR)), addresses)
    b = c.b
    handle, host, status = c.args
    name = c.api("TFE_TensorHandleDeviceName", handle, status)
    tensor = b.alloca(PTR)
    b.store(PTR(None), tensor)
    with (
        b.if_then(b.icmp_signed("!=", name, PTR(None)), likely=True),
        b.if_then(b.icmp_signed("==", c.api("strcmp", name, host), I32(0)), likely=True),
    ):
        b.store(c.api("TFE_TensorHandleResolve", handle, status), tensor)
    b.ret(b.load(tensor))
    return c.function


def _execute(
    module: ll.Module, addresses: Mapping[str, int], find: ll.Function, run: ll.Function, resolve: ll.Function
) -> ll.Function:
    """i1 execute(plan, host, count, tensors, results, status): run the plan's executable for these arguments; the
    handles of its results go to `results`. False where there is no executable, or it failed.

    A call is under way before it looks whether the plan may be taken still, and who ends a plan looks for calls then.
    """
    kind = ll.FunctionType(I1, (P64, PTR, I64, PPTR, PPTR, PTR))
    c = Code(module, "execute", kind, addresses)
    b = c.b
    plan, host, count, tensors, results, status = c.args
    program = b.inttoptr(c.load(plan, plan_word("program")), P64)
    under_way = b.gep(program, (I64(program_word("in_flight")),))
    done = b.alloca(I1)
    b.store(I1(0), done)
    b.atomic_rmw("add", under_way, I64(1), "seq_cst")
    live = b.load_atomic(b.inttoptr(c.load(plan, plan_word("live")), P64), "seq_cst", 8)
    with b.if_then(b.icmp_signed("!=", live, I64(0)), likely=True):
        captures, inputs, given = _inputs(c, plan, host, count, tensors, resolve)
        entry = b.alloca(P64)
        b.store(P64(None), entry)
        with b.if_then(b.not_(c.failed(status)), likely=True):
            b.store(b.call(find, (program, inputs, I64(HOST_DEVICE), PTR(None))), entry)
        with (
            b.if_then(b.icmp_signed("!=", b.load(entry), P64(None)), likely=True),
            b.if_then(b.icmp_signed("!=", c.load(b.load(entry), entry_word("record")), I64(0)), likely=True),
        ):
            b.call(run, (b.bitcast(results, PTR), program, b.load(entry), inputs, status))
            b.store(b.not_(c.failed(status)), done)
            with b.if_then(b.load(done), likely=True):
                b.atomic_rmw("add", b.gep(program, (I64(program_word("executions")),)), I64(1), "monotonic")
        with c.loop(captures) as i:
            _delete_tensor(c, c.load(inputs, b.add(given, i)))
    b.atomic_rmw("sub", under_way, I64(1), "seq_cst")
    b.ret(b.load(done))
    return c.function


def _inputs(
    c: Code, plan: ll.Value, host: ll.Value, count: ll.Value, tensors: ll.Value, resolve: ll.Function
) -> tuple[ll.Value, ll.Value, ll.Value]:
    """(captures, the executable's inputs, how many of them were given): the arguments that are tensors, behind them
    the captures; null of a capture that is not there, `status` says why."""
    b, status = c.b, c.args[5]
    captures = c.load(plan, plan_word("capture_count"))
    inputs, number = b.alloca(PTR, b.add(b.add(count, captures), I64(1))), b.alloca(I64)
    b.store(I64(0), number)
    with c.loop(count) as i:
        tensor = c.load(tensors, i)
        with b.if_then(b.icmp_signed("!=", tensor, PTR(None))):
            c.store(tensor, inputs, b.load(number))
            b.store(b.add(b.load(number), I64(1)), number)
    given = b.load(number)
    handles = b.inttoptr(c.load(plan, plan_word("captures")), PPTR)
    with c.loop(captures) as i:
        tensor = b.call(resolve, (c.load(handles, i), host, status))
        c.store(tensor, inputs, b.add(given, i))
        lacking = b.and_(b.icmp_signed("==", tensor, PTR(None)), b.not_(c.failed(status)))
        with b.if_then(lacking, likely=False):
            c.api("TF_SetStatus", status, I32(RESOURCE_EXHAUSTED), c.text("A captured tensor lies elsewhere"))
    return captures, inputs, given


def _delete_tensor(c: Code, tensor: ll.Value) -> None:
    with c.b.if_then(c.b.icmp_signed("!=", tensor, PTR(None)), likely=True):
        c.api("TF_DeleteTensor", tensor)


def _wrap(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """PyObject* wrap(pack, count, handles): what the function returns; takes the handles. pack: called with the list
    of results, null: there is one, which is returned itself. Null where Python raised."""
    c = Code(module, "wrap", ll.FunctionType(PTR, (PTR, I64, PPTR)), addresses)
    b = c.b
    pack, count, handles = c.args
    with b.if_then(b.icmp_signed("==", pack, PTR(None)), likely=True):
        b.ret(c.api("EagerTensorFromHandle", c.load(handles, 0), I1(0)))
    results = c.api("PyList_New", count)
    with c.loop(count) as i:
        c.api("PyList_SetItem", results, i, c.api("EagerTensorFromHandle", c.load(handles, i), I1(0)))
    packed = c.api("PyObject_CallOneArg", pack, results)
    c.api("Py_DecRef", results)
    b.ret(packed)
    return c.function


def _serve(
    module: ll.Module,
    addresses: Mapping[str, int],
    match: ll.Function,
    resolve: ll.Function,
    execute: ll.Function,
    wrap: ll.Function,
) -> ll.Function:
    """i1 serve(table, count, objects, result): find and run the plan for these arguments; false: nothing was done.
    `result` gets what the function returns, null where Python raised. The GIL is held on entry and exit only."""
    c = Code(module, "serve", ll.FunctionType(I1, (P64, I64, PPTR, PPTR)), addresses)
    b = c.b
    table, count, objects, result = c.args
    tensors = b.alloca(PTR, b.add(count, I64(1)))
    with c.loop(count) as i:  # handles first: an argument's object says which are tensors
        value = c.load(objects, i)
        c.store(PTR(None), tensors, i)
        with b.if_then(c.api("EagerTensor_CheckExact", value), likely=True):
            c.store(c.api("EagerTensor_Handle", value), tensors, i)
    thread = c.api("PyEval_SaveThread")
    status = c.api("TF_NewStatus")
    host = b.inttoptr(c.load(table, table_word("host")), PTR)
    missing = b.alloca(I1)
    b.store(I1(0), missing)
    with c.loop(count) as i:
        handle = c.load(tensors, i)
        with b.if_then(b.icmp_signed("!=", handle, PTR(None)), likely=True):
            tensor = b.call(resolve, (handle, host, status))
            c.store(tensor, tensors, i)
            b.store(b.or_(b.load(missing), b.icmp_signed("==", tensor, PTR(None))), missing)
    plan, done = b.alloca(P64), b.alloca(I1)
    b.store(P64(None), plan)
    b.store(I1(0), done)
    with b.if_then(b.not_(b.load(missing)), likely=True):
        b.store(b.call(match, (table, count, objects, tensors)), plan)
    handles, outputs = b.alloca(PPTR), b.alloca(I64)
    with b.if_then(b.icmp_signed("!=", b.load(plan), P64(None)), likely=True):
        b.store(c.load(b.inttoptr(c.load(b.load(plan), plan_word("program")), P64), program_word("outputs")), outputs)
        b.store(b.alloca(PTR, b.add(b.load(outputs), I64(1))), handles)
        with c.loop(b.load(outputs)) as i:
            c.store(PTR(None), b.load(handles), i)
        b.store(b.call(execute, (b.load(plan), host, count, tensors, b.load(handles), status)), done)
        with b.if_then(b.not_(b.load(done)), likely=False), c.loop(b.load(outputs)) as i:
            handle = c.load(b.load(handles), i)
            with b.if_then(b.icmp_signed("!=", handle, PTR(None))):
                c.api("TFE_DeleteTensorHandle", handle)
    with c.loop(count) as i:
        _delete_tensor(c, c.load(tensors, i))
    c.api("TF_DeleteStatus", status)
    c.api("PyEval_RestoreThread", thread)
    with b.if_then(b.load(done), likely=True):
        pack = b.inttoptr(c.load(b.load(plan), plan_word("pack")), PTR)
        b.store(b.call(wrap, (pack, b.load(outputs), b.load(handles))), result)
    b.ret(b.load(done))
    return c.function


def _direct(
    module: ll.Module, addresses: Mapping[str, int], state: ll.Function, serve: ll.Function, refusal: int
) -> None:
    """PyObject* tfxla_direct(self, arguments): a builtin's function (METH_O). self: an int, the address of the slot
    with the table and how many calls it served; arguments: a tuple."""
    c = Code(module, "tfxla_direct", ll.FunctionType(PTR, (PTR, PTR)), addresses)
    b = c.b
    slot = b.bitcast(c.api("PyLong_AsVoidPtr", c.args[0]), P64)
    result, done = b.alloca(PTR), b.alloca(I1)
    b.store(I1(0), done)
    table = b.inttoptr(c.load(slot, 0), P64)
    count = c.api("PyTuple_Size", c.args[1])
    fits = b.and_(b.icmp_signed(">=", count, I64(0)), b.icmp_signed("<=", count, I64(MAX_ARGUMENTS)))
    with b.if_then(b.and_(fits, b.icmp_signed("!=", table, P64(None))), likely=True):
        owner = b.inttoptr(c.load(table, table_word("owner")), PTR)
        c.api("Py_IncRef", owner)  # another thread may put a new table into the slot, and drop this one
        state_rows = b.inttoptr(c.load(table, table_word("state")), P64)
        with b.if_then(b.call(state, (state_rows,)), likely=True):
            objects = b.alloca(PTR, b.add(count, I64(1)))
            with c.loop(count) as i:
                c.store(c.api("PyTuple_GetItem", c.args[1], i), objects, i)
            b.store(b.call(serve, (table, count, objects, result)), done)
        c.api("Py_DecRef", owner)
    with b.if_then(b.load(done), likely=True):
        c.store(b.add(c.load(slot, 1), I64(1)), slot, 1)
        b.ret(b.load(result))
    refused = b.inttoptr(I64(refusal), PTR)
    c.api("Py_IncRef", refused)
    b.ret(refused)
