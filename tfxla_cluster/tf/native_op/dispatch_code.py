"""Machine code of the native ops: what runs on each execution, with no Python and no GIL.

An execution gets its input tensors, finds the entry whose guards they satisfy (asking Python on a miss),
allocates the outputs and calls the entry's record through the runtime's entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

import llvmlite.ir as ll

from . import guard_code, run_code
from .builder import (
    CANCELLED,
    HOST_DEVICE,
    I1,
    I8,
    I32,
    I64,
    INVALID_ARGUMENT,
    MISS,
    P64,
    PPTR,
    PTR,
    VOID,
    Code,
    entry_word,
    program_word,
)

TF_BOOL = 10


def build(addresses: Mapping[str, int], table: int, capacity: int, miss: int, stopped: int) -> ll.Module:
    """The module with `tfxla_create`, `tfxla_compute`, `tfxla_ready`, `tfxla_delete`.

    addresses: of C_API and PYTHON_API, with those of GPU_API the code of a GPU's kernels. table: address of `capacity`
    words, program addresses by number. miss: address of the Python callback. stopped: address of a word that is 1 once
    Python shuts down.
    """
    module = ll.Module("tfxla_native_op")
    hold = guard_code.build(module, addresses)
    find = build_find(module, addresses, hold)
    run = run_code.build(module, addresses, run_code.Kernel(stopped))
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
        c.api(
            "TF_SetStatus",
            status,
            I32(INVALID_ARGUMENT),
            c.text(
                "This graph was rewritten by tfxla_cluster in another process, or its function is gone. "
                "Save or send the original function instead"
            ),
        )
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


def build_find(module: ll.Module, addresses: Mapping[str, int], hold: ll.Function) -> ll.Function:
    """Entry* find(program, tensors, device, context): the first published entry for that device whose guards hold, or
    null."""
    c = Code(module, "find", ll.FunctionType(P64, (P64, PPTR, I64, PTR)), addresses)
    b = c.b
    program, tensors, device, context = c.args
    head = b.gep(program, (I64(program_word("list")),))
    entries = b.inttoptr(b.load_atomic(head, "acquire", 8), P64)
    with c.loop(c.load(entries, 0)) as i:
        entry = b.inttoptr(c.load(entries, b.add(i, I64(1))), P64)
        guards = b.inttoptr(c.load(entry, entry_word("guards")), P64)
        count = c.load(entry, entry_word("guard_count"))
        with (
            b.if_then(b.icmp_signed("==", device, c.load(entry, entry_word("device")))),
            b.if_then(b.call(hold, (guards, count, tensors, context))),
        ):
            b.ret(entry)
    b.ret(P64(None))
    return c.function


def _inputs(c: Code, program: ll.Value, status: ll.Value) -> tuple[ll.Value, ll.Value]:
    """(count, array): TF_Tensor of each input; null where TF_GetInput failed."""
    count = c.load(program, program_word("inputs"))
    tensors = c.b.alloca(PTR, c.b.add(count, I64(1)))
    with c.loop(count) as i:
        c.store(PTR(None), tensors, i)
        c.api("TF_GetInput", c.args[1], c.b.trunc(i, I32), c.b.gep(tensors, (i,)), status)
    return count, tensors


def _find_or_compile(
    c: Code,
    find: ll.Function,
    program: ll.Value,
    count: ll.Value,
    tensors: ll.Value,
    status: ll.Value,
    miss: int,
    stopped: int,
    refusal_is_answer: bool,
) -> ll.Value:
    """A slot with the entry for these inputs (null: `status` says why), calling Python on a miss."""
    b, context = c.b, c.args[1]
    device = c.api("tfxla_device", context) if c.on_gpu else I64(HOST_DEVICE)
    slot = b.alloca(P64)
    b.store(b.call(find, (program, tensors, device, context)), slot)
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
                again, answered = c.function.append_basic_block("again"), c.function.append_basic_block("answered")
                b.branch(again)
                b.position_at_end(again)
                asked = (b.bitcast(program, PTR), count, tensors, status, I64(int(refusal_is_answer)), device, context)
                done = b.icmp_signed("!=", b.call(callback, asked), I64(0))
                with b.if_then(b.not_(done)):
                    b.store(b.call(find, (program, tensors, device, context)), slot)
                # Another thread may have dropped the executable since: then ask again.
                b.cbranch(b.or_(done, b.icmp_signed("!=", b.load(slot), P64(None))), answered, again)
                b.position_at_end(answered)
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
