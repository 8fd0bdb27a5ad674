"""Machine code of the native ops: what runs on each execution, with no Python and no GIL.

An execution gets its input tensors, finds the entry whose guards they satisfy (asking Python on a miss),
allocates the outputs and calls the entry's record through the runtime's entry point.
"""
from __future__ import annotations

from collections.abc import Mapping

import llvmlite.ir as ll

from .native_builder import (
    CANCELLED,
    DIM_OPERATORS,
    EXECUTE,
    I1,
    I8,
    I32,
    I64,
    INTERNAL,
    INVALID_ARGUMENT,
    MISS,
    P64,
    PPTR,
    PTR,
    STACK_SLOTS,
    VOID,
    Code,
    entry_word,
    program_word,
)

TF_BOOL = 10
MAX_RANK = 64


def build(addresses: Mapping[str, int], table: int, capacity: int, miss: int, stopped: int) -> ll.Module:
    """The module with `tfxla_create`, `tfxla_compute`, `tfxla_ready`, `tfxla_delete`.

    addresses: C_API names -> addresses. table: address of `capacity` words, program addresses by number.
    miss: address of the Python callback. stopped: address of a word that is 1 once Python shuts down.
    """
    module = ll.Module("tfxla_native_op")
    matches = _matches(module, addresses)
    find = _find(module, addresses, matches)
    dim = _dim(module, addresses)
    run = _run(module, addresses, dim)
    _create(module, addresses, table, capacity)
    _delete(module, addresses)
    _compute(module, addresses, find, run, miss, stopped)
    _ready(module, addresses, find, miss, stopped)
    return module


def _create(module: ll.Module, addresses: Mapping[str, int], table: int, capacity: int) -> None:
    """void* tfxla_create(construction): the program named by attribute `program` (serial << 20 | number).

    A number that no live program of this process has (a graph from elsewhere) fails the construction.
    """
    c = Code(module, "tfxla_create", ll.FunctionType(PTR, (PTR,)), addresses)
    b, status = c.b, c.api("TF_NewStatus")
    slot = b.alloca(I64)
    b.store(I64(-1), slot)
    c.api("TF_OpKernelConstruction_GetAttrInt64", c.args[0], c.text("program"), slot, status)
    token = b.load(slot)
    number = b.and_(token, I64(capacity - 1))
    address = c.load(I64(table).inttoptr(P64), number)
    result = b.alloca(PTR)
    b.store(PTR(None), result)
    with b.if_then(b.icmp_signed("!=", address, I64(0))):
        program = b.inttoptr(address, P64)
        same = b.icmp_signed("==", c.load(program, program_word("serial")), token)
        with b.if_then(same):
            b.atomic_rmw("add", b.gep(program, (I64(program_word("references")),)), I64(1), "seq_cst")
            b.store(b.inttoptr(address, PTR), result)
    with b.if_then(b.icmp_signed("==", b.load(result), PTR(None))):
        c.api("TF_SetStatus", status, I32(INVALID_ARGUMENT), c.text(
            "This graph was rewritten by tfxla_cluster in another process, or its function is gone. "
            "Save or send the original function instead"))
        c.api("TF_OpKernelConstruction_Failure", c.args[0], status)
    c.api("TF_DeleteStatus", status)
    b.ret(b.load(result))


def _delete(module: ll.Module, addresses: Mapping[str, int]) -> None:
    """void tfxla_delete(kernel): drop the kernel's reference (Python frees programs that have none)."""
    c = Code(module, "tfxla_delete", ll.FunctionType(VOID, (PTR,)), addresses)
    with c.b.if_then(c.b.icmp_signed("!=", c.args[0], PTR(None))):
        program = c.b.bitcast(c.args[0], P64)
        c.b.atomic_rmw("sub", c.b.gep(program, (I64(program_word("references")),)), I64(1), "seq_cst")
    c.b.ret_void()


def _matches(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """i1 matches(guards, tensors, inputs): every input has the guarded dtype, dims and value."""
    c = Code(module, "matches", ll.FunctionType(I1, (P64, PPTR, I64)), addresses)
    b = c.b
    guards, tensors, inputs = c.args
    cursor = b.alloca(P64)
    b.store(guards, cursor)
    no = c.function.append_basic_block("no")
    with c.loop(inputs) as i:
        guard, tensor = b.load(cursor), c.load(tensors, i)
        dtype = b.sext(c.api("TF_TensorType", tensor), I64)
        rank = b.sext(c.api("TF_NumDims", tensor), I64)
        wrong = b.or_(b.icmp_signed("!=", dtype, c.load(guard, 0)), b.icmp_signed("!=", rank, c.load(guard, 1)))
        _leave(c, wrong, no)
        with c.loop(rank) as axis:
            want = c.load(guard, b.add(axis, I64(2)))
            have = c.api("TF_Dim", tensor, b.trunc(axis, I32))
            _leave(c, b.and_(b.icmp_signed(">=", want, I64(0)), b.icmp_signed("!=", want, have)), no)
        after = b.gep(guard, (b.add(rank, I64(2)),))
        length = c.load(after, 0)
        with b.if_then(b.icmp_signed(">=", length, I64(0))):
            _leave(c, b.icmp_signed("!=", length, c.api("TF_TensorByteSize", tensor)), no)
            want_bytes = b.inttoptr(c.load(after, 1), PTR)
            have_bytes = c.api("TF_TensorData", tensor)
            with c.loop(length) as k:
                _leave(c, b.icmp_signed("!=", c.load(want_bytes, k), c.load(have_bytes, k)), no)
        b.store(b.gep(after, (I64(2),)), cursor)
    b.ret(I1(1))
    b.position_at_end(no)
    b.ret(I1(0))
    return c.function


def _leave(c: Code, condition: ll.Value, target: ll.Block) -> None:
    """Branch to `target` when `condition`, else go on."""
    go_on = c.function.append_basic_block("go_on")
    c.b.cbranch(condition, target, go_on)
    c.b.position_at_end(go_on)


def _find(module: ll.Module, addresses: Mapping[str, int], matches: ll.Function) -> ll.Function:
    """Entry* find(program, tensors): the first published entry whose guards hold, or null."""
    c = Code(module, "find", ll.FunctionType(P64, (P64, PPTR)), addresses)
    b = c.b
    program, tensors = c.args
    head = b.gep(program, (I64(program_word("list")),))
    entries = b.inttoptr(b.load_atomic(head, "acquire", 8), P64)
    inputs = c.load(program, program_word("inputs"))
    with c.loop(c.load(entries, 0)) as i:
        entry = b.inttoptr(c.load(entries, b.add(i, I64(1))), P64)
        guards = b.inttoptr(c.load(entry, entry_word("guards")), P64)
        with b.if_then(b.call(matches, (guards, tensors, inputs))):
            b.ret(entry)
    b.ret(P64(None))
    return c.function


def _dim(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
    """i64 dim(words, sizes): the value of a dim's postfix program."""
    c = Code(module, "dim", ll.FunctionType(I64, (P64, P64)), addresses)
    b = c.b
    words, sizes = c.args
    stack, top = b.alloca(I64, STACK_SLOTS), b.alloca(I64)
    b.store(I64(0), top)
    with c.loop(c.load(words, 0)) as i:
        at = b.add(b.mul(i, I64(2)), I64(1))
        operator, operand = c.load(words, at), c.load(words, b.add(at, I64(1)))
        height = b.load(top)
        is_leaf = b.icmp_signed("<", operator, I64(2))
        with b.if_else(is_leaf) as (leaf, binary):
            with leaf:
                with b.if_else(b.icmp_signed("==", operator, I64(0))) as (constant, size):
                    with constant:
                        c.store(operand, stack, height)
                    with size:
                        c.store(c.load(sizes, operand), stack, height)
                b.store(b.add(height, I64(1)), top)
            with binary:
                below = b.sub(height, I64(2))
                left, right = c.load(stack, below), c.load(stack, b.sub(height, I64(1)))
                c.store(_binary(c, operator, left, right), stack, below)
                b.store(b.sub(height, I64(1)), top)
    b.ret(c.load(stack, 0))
    return c.function


def _binary(c: Code, operator: ll.Value, left: ll.Value, right: ll.Value) -> ll.Value:
    """left OP right; floordiv and mod round as Python's."""
    b = c.b
    zero = b.icmp_signed("==", right, I64(0))
    safe = b.select(zero, I64(1), right)
    quotient, rest = b.sdiv(left, safe), b.srem(left, safe)
    uneven = b.and_(b.icmp_signed("!=", rest, I64(0)), b.icmp_signed("<", b.xor(rest, safe), I64(0)))
    values = {
        "add": b.add(left, right),
        "mul": b.mul(left, right),
        "floordiv": b.sub(quotient, b.zext(uneven, I64)),
        "mod": b.add(rest, b.select(uneven, safe, I64(0))),
        "max": b.select(b.icmp_signed(">", left, right), left, right),
        "min": b.select(b.icmp_signed("<", left, right), left, right),
    }
    result: ll.Value = I64(0)
    for name, value in values.items():
        result = b.select(b.icmp_signed("==", operator, I64(DIM_OPERATORS.index(name))), value, result)
    return result


def _run(module: ll.Module, addresses: Mapping[str, int], dim: ll.Function) -> ll.Function:
    """void run(context, program, entry, tensors, status): allocate outputs, execute the record."""
    c = Code(module, "run", ll.FunctionType(VOID, (PTR, P64, P64, PPTR, PTR)), addresses)
    b = c.b
    context, program, entry, tensors, status = c.args
    sizes = _read_sizes(c, entry, tensors)
    count = c.load(program, program_word("outputs"))
    held = b.alloca(PTR, count)
    results = b.alloca(PTR, b.add(c.load(entry, entry_word("result_count")), I64(1)))
    inputs = b.alloca(PTR, b.add(c.load(entry, entry_word("parameter_count")), I64(1)))
    with c.loop(count) as i:
        c.store(PTR(None), held, i)
    _allocate_outputs(c, dim, sizes, held, results, count)
    with b.if_then(b.not_(c.failed(status))):
        parameters = b.inttoptr(c.load(entry, entry_word("parameters")), P64)
        with c.loop(c.load(entry, entry_word("parameter_count"))) as k:
            source = c.load(parameters, k)
            c.store(PTR(None), inputs, k)
            with b.if_then(b.icmp_signed(">=", source, I64(0)), likely=True):
                c.store(c.api("TF_TensorData", c.load(tensors, source)), inputs, k)
        execute = b.inttoptr(c.load(entry, entry_word("execute")), EXECUTE.as_pointer())
        record = b.inttoptr(c.load(entry, entry_word("record")), PTR)
        code = b.call(execute, (record, inputs, results, sizes))
        with b.if_then(b.icmp_signed("!=", code, I32(0))):
            c.api("TF_SetStatus", status, I32(INTERNAL), c.text(
                "Compiled code of tfxla_cluster reported a failure. Please report it with the dump directory"))
        b.atomic_rmw("add", b.gep(entry, (I64(entry_word("executions")),)), I64(1), "monotonic")
    with c.loop(count) as i:
        tensor = c.load(held, i)
        with b.if_then(b.icmp_signed("!=", tensor, PTR(None))):
            c.api("TF_DeleteTensor", tensor)
    b.ret_void()
    return c.function


def _read_sizes(c: Code, entry: ll.Value, tensors: ll.Value) -> ll.Value:
    """An array with the value of each size symbol, read from the inputs' dims (0: one the code produces)."""
    b = c.b
    count = c.load(entry, entry_word("size_count"))
    sources = b.inttoptr(c.load(entry, entry_word("sizes")), P64)
    sizes = b.alloca(I64, b.add(count, I64(1)))
    with c.loop(count) as i:
        at = b.mul(i, I64(2))
        source = c.load(sources, at)
        c.store(I64(0), sizes, i)
        with b.if_then(b.icmp_signed(">=", source, I64(0)), likely=True):
            axis = b.trunc(c.load(sources, b.add(at, I64(1))), I32)
            c.store(c.api("TF_Dim", c.load(tensors, source), axis), sizes, i)
    return sizes


def _allocate_outputs(
    c: Code, dim: ll.Function, sizes: ll.Value, held: ll.Value, results: ll.Value, count: ll.Value
) -> None:
    """Allocate (or pass through) each op output; stops doing so once `status` holds a failure."""
    b = c.b
    context, _, entry, tensors, status = c.args
    cursor = b.alloca(P64)
    b.store(b.inttoptr(c.load(entry, entry_word("outputs")), P64), cursor)
    dims, total = b.alloca(I64, MAX_RANK), b.alloca(I64)
    with c.loop(count) as i:
        row, number = b.load(cursor), b.trunc(i, I32)
        source, result, dtype, bytes_, rank = (c.load(row, k) for k in range(5))
        b.store(b.gep(row, (I64(5),)), cursor)
        b.store(bytes_, total)
        with c.loop(rank) as axis:
            words = b.load(cursor)
            value = b.call(dim, (words, sizes))
            c.store(value, dims, axis)
            b.store(b.mul(b.load(total), value), total)
            b.store(b.gep(words, (b.add(b.mul(c.load(words, 0), I64(2)), I64(1)),)), cursor)
        with b.if_else(b.icmp_signed(">=", source, I64(0))) as (passed, made):
            with passed:
                c.api("TF_SetOutput", context, number, c.load(tensors, source), status)
            with made:
                tensor = c.api("TF_AllocateOutput", context, number, b.trunc(dtype, I32), dims,
                               b.trunc(rank, I32), b.load(total), status)
                c.store(tensor, held, i)
                with b.if_then(b.not_(c.failed(status))):
                    c.store(c.api("TF_TensorData", tensor), results, result)


def _inputs(c: Code, program: ll.Value, status: ll.Value) -> tuple[ll.Value, ll.Value]:
    """(count, array): TF_Tensor of each input; null where TF_GetInput failed."""
    count = c.load(program, program_word("inputs"))
    tensors = c.b.alloca(PTR, c.b.add(count, I64(1)))
    with c.loop(count) as i:
        c.store(PTR(None), tensors, i)
        c.api("TF_GetInput", c.args[1], c.b.trunc(i, I32), c.b.gep(tensors, (i,)), status)
    return count, tensors


def _find_or_compile(
    c: Code, find: ll.Function, program: ll.Value, count: ll.Value, tensors: ll.Value, status: ll.Value,
    miss: int, stopped: int, refusal_is_answer: bool,
) -> ll.Value:
    """A slot with the entry for these inputs (null: `status` says why), calling Python on a miss."""
    b = c.b
    slot = b.alloca(P64)
    b.store(b.call(find, (program, tensors)), slot)
    lacking = b.icmp_signed("==", b.load(slot), P64(None))
    if not refusal_is_answer:
        lacking = _or_refused(c, lacking, slot)
    with b.if_then(lacking, likely=False):
        b.store(P64(None), slot)
        gone = b.icmp_signed("!=", b.load(I64(stopped).inttoptr(P64)), I64(0))
        with b.if_else(gone) as (over, ask):
            with over:
                c.api("TF_SetStatus", status, I32(CANCELLED), c.text("The Python interpreter is shutting down"))
            with ask:
                callback = b.inttoptr(I64(miss), MISS.as_pointer())
                again, over = c.function.append_basic_block("again"), c.function.append_basic_block("answered")
                b.branch(again)
                b.position_at_end(again)
                code = b.call(callback, (b.bitcast(program, PTR), count, tensors, status, I64(int(refusal_is_answer))))
                done = b.icmp_signed("!=", code, I64(0))
                with b.if_then(b.not_(done)):
                    b.store(b.call(find, (program, tensors)), slot)
                # Another thread may have dropped the executable since: then ask again.
                b.cbranch(b.or_(done, b.icmp_signed("!=", b.load(slot), P64(None))), over, again)
                b.position_at_end(over)
    return slot


def _or_refused(c: Code, lacking: ll.Value, slot: ll.Value) -> ll.Value:
    """lacking, or the entry found is a refusal (the callback then states its reason again)."""
    b = c.b
    answer = b.alloca(I1)
    b.store(lacking, answer)
    with b.if_then(b.not_(lacking)):
        b.store(b.icmp_signed("==", c.load(b.load(slot), entry_word("record")), I64(0)), answer)
    return b.load(answer)


def _finish(c: Code, program: ll.Value, count: ll.Value, tensors: ll.Value, status: ll.Value) -> None:
    """Report a failure, free what was taken, return."""
    b = c.b
    with b.if_then(c.failed(status), likely=False):
        c.api("TF_OpKernelContext_Failure", c.args[1], status)
    with c.loop(count) as i:
        tensor = c.load(tensors, i)
        with b.if_then(b.icmp_signed("!=", tensor, PTR(None))):
            c.api("TF_DeleteTensor", tensor)
    c.api("TF_DeleteStatus", status)
    b.atomic_rmw("sub", b.gep(program, (I64(program_word("in_flight")),)), I64(1), "seq_cst")
    b.ret_void()


def _begin(c: Code) -> tuple[ll.Value, ll.Value]:
    """(program, status), the program marked as in use."""
    program = c.b.bitcast(c.args[0], P64)
    c.b.atomic_rmw("add", c.b.gep(program, (I64(program_word("in_flight")),)), I64(1), "seq_cst")
    return program, c.api("TF_NewStatus")


def _compute(
    module: ll.Module, addresses: Mapping[str, int], find: ll.Function, run: ll.Function, miss: int, stopped: int
) -> None:
    """void tfxla_compute(kernel, context): the compute function of TfxlaRun."""
    c = Code(module, "tfxla_compute", ll.FunctionType(VOID, (PTR, PTR)), addresses)
    b = c.b
    program, status = _begin(c)
    count, tensors = _inputs(c, program, status)
    with b.if_then(b.not_(c.failed(status)), likely=True):
        slot = _find_or_compile(c, find, program, count, tensors, status, miss, stopped, False)
        entry = b.load(slot)
        with b.if_then(b.icmp_signed("!=", entry, P64(None)), likely=True):
            b.call(run, (c.args[1], program, entry, tensors, status))
            b.atomic_rmw("add", b.gep(program, (I64(program_word("executions")),)), I64(1), "monotonic")
    _finish(c, program, count, tensors, status)


def _ready(module: ll.Module, addresses: Mapping[str, int], find: ll.Function, miss: int, stopped: int) -> None:
    """void tfxla_ready(kernel, context): output 0 = whether an executable for these inputs exists or was made."""
    c = Code(module, "tfxla_ready", ll.FunctionType(VOID, (PTR, PTR)), addresses)
    b = c.b
    program, status = _begin(c)
    count, tensors = _inputs(c, program, status)
    with b.if_then(b.not_(c.failed(status)), likely=True):
        slot = _find_or_compile(c, find, program, count, tensors, status, miss, stopped, True)
        entry, answer = b.load(slot), b.alloca(I1)
        b.store(I1(0), answer)
        with b.if_then(b.icmp_signed("!=", entry, P64(None)), likely=True):
            b.store(b.icmp_signed("!=", c.load(entry, entry_word("record")), I64(0)), answer)
        with b.if_then(b.not_(c.failed(status)), likely=True):
            no_dims = b.alloca(I64)
            tensor = c.api("TF_AllocateOutput", c.args[1], I32(0), I32(TF_BOOL), no_dims, I32(0), I64(1), status)
            with b.if_then(b.icmp_signed("!=", tensor, PTR(None)), likely=True):
                b.store(b.zext(b.load(answer), I8), c.api("TF_TensorData", tensor))
                c.api("TF_DeleteTensor", tensor)
    _finish(c, program, count, tensors, status)
