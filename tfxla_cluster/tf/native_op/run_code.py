"""Machine code of one execution: allocate the outputs at their sizes and run the record of the entry found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import llvmlite.ir as ll

from ...ir.size_operators import HIGHEST, OPERATORS
from .builder import (
    DIM_OPERATORS,
    EXECUTE,
    I1,
    I32,
    I64,
    INTERNAL,
    LAUNCH_WORDS,
    MAX_RANK,
    NO_MEMORY,
    P64,
    PPTR,
    PTR,
    RESOURCE_EXHAUSTED,
    STACK_SLOTS,
    VOID,
    Code,
    entry_word,
    program_word,
)


def dim_function(module: ll.Module, addresses: Mapping[str, int]) -> ll.Function:
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
    """left OP right."""
    result: ll.Value = I64(0)
    for name, row in OPERATORS.items():
        chosen = c.b.icmp_signed("==", operator, I64(DIM_OPERATORS.index(name)))
        result = c.b.select(chosen, row.emit(c.b, left, right), result)
    return result


class Caller(Protocol):
    """Who runs an executable: where outputs come from and go to. `context` is the code's first argument."""

    def allocate(self, c: Code, out: Output) -> ll.Value:
        """A TF_Tensor for an output, null where there is no memory (`status` may say so)."""

    def pass_on(self, c: Code, out: Output, tensor: ll.Value) -> None:
        """An output is an input itself."""

    def deliver(self, c: Code, number: ll.Value, tensor: ll.Value) -> None:
        """An output that `allocate` made is complete; the tensor is deleted behind this."""

    def explain(self, c: Code, code: ll.Value) -> None:
        """`status` says that the executable's entry returned `code`: say more."""


class Kernel:
    """A kernel of TensorFlow's. stopped: address of a word that is 1 once Python shuts down."""

    def __init__(self, stopped: int) -> None:
        self.stopped = stopped

    def allocate(self, c: Code, out: Output) -> ll.Value:
        context, status = c.args[0], c.args[4]
        number = c.b.trunc(out.number, I32)
        return c.api("TF_AllocateOutput", context, number, out.dtype, out.dims, out.rank, out.bytes, status)

    def pass_on(self, c: Code, out: Output, tensor: ll.Value) -> None:
        c.api("TF_SetOutput", c.args[0], c.b.trunc(out.number, I32), tensor, c.args[4])

    def deliver(self, c: Code, number: ll.Value, tensor: ll.Value) -> None:
        """TensorFlow has the tensor since it was allocated."""

    def explain(self, c: Code, code: ll.Value) -> None:
        """Python knows the words."""
        b = c.b
        with b.if_then(b.icmp_signed("==", b.load(I64(self.stopped).inttoptr(P64)), I64(0))):
            c.api("failed", c.args[4], b.sext(code, I64), c.load(c.args[1], program_word("serial")))


def build(module: ll.Module, addresses: Mapping[str, int], caller: Caller) -> ll.Function:
    """void run(context, program, entry, tensors, status): allocate outputs, execute the record.

    A result whose size the run produces goes to a tensor of the largest size, and from there to the output.
    """
    dim = dim_function(module, addresses)
    c = Code(module, "run", ll.FunctionType(VOID, (PTR, P64, P64, PPTR, PTR)), addresses)
    b = c.b
    _, program, entry, tensors, status = c.args
    sizes = _read_sizes(c, dim, entry, tensors)
    count = c.load(program, program_word("outputs"))
    held = b.alloca(PTR, count)
    results = b.alloca(PTR, b.add(c.load(entry, entry_word("result_count")), I64(1)))
    inputs = b.alloca(PTR, b.add(c.load(entry, entry_word("parameter_count")), I64(1)))
    launch = _begin_launch(c)
    with c.loop(count) as i:
        c.store(PTR(None), held, i)
    with _outputs(c, dim, sizes, count) as out:
        _allocate(c, caller, out, held, results, launch)
    with b.if_then(b.not_(c.failed(status))):
        parameters = b.inttoptr(c.load(entry, entry_word("parameters")), P64)
        with c.loop(c.load(entry, entry_word("parameter_count"))) as k:
            at = b.mul(k, I64(2))
            source = c.load(parameters, at)
            c.store(b.inttoptr(c.load(parameters, b.add(at, I64(1))), PTR), inputs, k)
            with b.if_then(b.icmp_signed(">=", source, I64(0)), likely=True):
                c.store(c.api("TF_TensorData", c.load(tensors, source)), inputs, k)
        execute = b.inttoptr(c.load(entry, entry_word("execute")), EXECUTE.as_pointer())
        record = b.inttoptr(c.load(entry, entry_word("record")), PTR)
        _report(c, caller, b.call(execute, (record, inputs, results, sizes, launch)))
        b.atomic_rmw("add", b.gep(entry, (I64(entry_word("executions")),)), I64(1), "monotonic")
        with _outputs(c, dim, sizes, count) as out, b.if_then(out.produced, likely=False):
            _copy_produced(c, caller, out, held, results)
    with c.loop(count) as i:
        tensor = c.load(held, i)
        with b.if_then(b.icmp_signed("!=", tensor, PTR(None))):
            caller.deliver(c, i, tensor)
            c.api("TF_DeleteTensor", tensor)
    if c.on_gpu:
        c.api("tfxla_end", launch)
    b.ret_void()
    return c.function


def _begin_launch(c: Code) -> ll.Value:
    """The words of a launch; null on the CPU."""
    if not c.on_gpu:
        return P64(None)
    launch = c.b.alloca(I64, LAUNCH_WORDS)
    c.api("tfxla_begin", c.args[0], launch)
    return launch


def _report(c: Code, caller: Caller, code: ll.Value) -> None:
    """`status` says what the executable's entry returned, where that is not 0."""
    b, status = c.b, c.args[4]
    has_memory = b.icmp_signed("!=", code, I32(NO_MEMORY))
    with b.if_then(b.not_(has_memory), likely=False):
        c.api("TF_SetStatus", status, I32(RESOURCE_EXHAUSTED), c.text("No memory for temporaries"))
    with b.if_then(b.and_(has_memory, b.icmp_signed("!=", code, I32(0))), likely=False):
        c.api("TF_SetStatus", status, I32(INTERNAL), c.text("Compiled code of tfxla_cluster reported a failure"))
        caller.explain(c, code)


def _read_sizes(c: Code, dim: ll.Function, entry: ll.Value, tensors: ll.Value) -> ll.Value:
    """An array with the value of each size symbol, read from the inputs' dims; after these, of each that the run
    produces its bound."""
    b = c.b
    count = c.load(entry, entry_word("size_count"))
    sources = b.inttoptr(c.load(entry, entry_word("sizes")), P64)
    sizes = b.alloca(I64, b.add(count, I64(1)))
    with c.loop(count) as i:
        at = b.mul(i, I64(2))
        source = c.load(sources, at)
        axis = c.load(sources, b.add(at, I64(1)))
        with b.if_else(b.icmp_signed(">=", source, I64(0)), likely=True) as (given, produced):
            with given:
                c.store(c.api("TF_Dim", c.load(tensors, source), b.trunc(axis, I32)), sizes, i)
            with produced:
                c.store(b.call(dim, (b.inttoptr(axis, P64), sizes)), sizes, i)
    return sizes


@dataclass(frozen=True)
class Output:
    """An op output in a loop over them: its row's words, and `dims` and `bytes` at the sizes now known."""

    number: ll.Value
    source: ll.Value
    result: ll.Value
    dtype: ll.Value
    produced: ll.Value
    rank: ll.Value
    dims: ll.Value
    bytes: ll.Value


@contextmanager
def _outputs(c: Code, dim: ll.Function, sizes: ll.Value, count: ll.Value) -> Iterator[Output]:
    """for each op output: the body is the `with` block."""
    b, entry = c.b, c.args[2]
    cursor = b.alloca(P64)
    b.store(b.inttoptr(c.load(entry, entry_word("outputs")), P64), cursor)
    dims, total = b.alloca(I64, MAX_RANK), b.alloca(I64)
    with c.loop(count) as i:
        row = b.load(cursor)
        source, result, dtype, bytes_, produced, rank = (c.load(row, k) for k in range(6))
        b.store(b.gep(row, (I64(6),)), cursor)
        b.store(bytes_, total)
        with c.loop(rank) as axis:
            words = b.load(cursor)
            value = b.call(dim, (words, sizes))
            c.store(value, dims, axis)
            b.store(_bytes(b, b.load(total), value), total)
            b.store(b.gep(words, (b.add(b.mul(c.load(words, 0), I64(2)), I64(1)),)), cursor)
        yield Output(
            i,
            source,
            result,
            b.trunc(dtype, I32),
            b.icmp_signed("!=", produced, I64(0)),
            b.trunc(rank, I32),
            dims,
            b.load(total),
        )


def _bytes(b: ll.IRBuilder, total: ll.Value, size: ll.Value) -> ll.Value:
    """`total` times the next size; HIGHEST, which it keeps, for a size below 0 and for more than 64 bits hold."""
    none = b.or_(b.icmp_signed("==", total, I64(HIGHEST)), b.icmp_signed("<", size, I64(0)))
    return b.select(none, I64(HIGHEST), OPERATORS["mul"].emit(b, total, size))


def _allocate(c: Code, caller: Caller, out: Output, held: ll.Value, results: ll.Value, launch: ll.Value) -> None:
    """Allocate (or pass through) an op output, unless one before it failed; `status` then holds a failure, if any. Of
    a produced size: memory that is large enough."""
    b = c.b
    tensors, status = c.args[3], c.args[4]
    fine, passes = b.not_(c.failed(status)), b.icmp_signed(">=", out.source, I64(0))
    with b.if_then(fine, likely=True), b.if_else(passes) as (passed, made):
        with passed:
            caller.pass_on(c, out, c.load(tensors, out.source))
        with made:
            there = b.alloca(I1)
            b.store(I1(0), there)
            with b.if_then(b.icmp_signed("!=", out.bytes, I64(HIGHEST)), likely=True):
                b.store(_allocate_result(c, caller, out, held, results, launch), there)
            with b.if_then(b.not_(b.or_(b.load(there), c.failed(status))), likely=False):
                c.api("TF_SetStatus", status, I32(RESOURCE_EXHAUSTED), c.text("No memory for a result"))


def _allocate_result(
    c: Code, caller: Caller, out: Output, held: ll.Value, results: ll.Value, launch: ll.Value
) -> ll.Value:
    """Whether the result has its memory now. TensorFlow ends the process where the number of elements leaves 64 bits,
    or a size is negative: not here."""
    b = c.b
    data = b.alloca(PTR)
    b.store(PTR(None), data)
    with b.if_else(out.produced, likely=False) as (later, now):
        with later:
            if c.on_gpu:
                b.store(c.api("tfxla_allocate", launch, out.bytes), data)
            else:
                tensor = c.api("TF_AllocateTensor", out.dtype, out.dims, out.rank, out.bytes)
                _hold(c, out, held, tensor, data)
        with now:
            _hold(c, out, held, caller.allocate(c, out), data)
    c.store(b.load(data), results, out.result)
    is_held = b.icmp_signed("!=", c.load(held, out.number), PTR(None))
    return b.or_(is_held, b.icmp_signed("!=", b.load(data), PTR(None)))


def _hold(c: Code, out: Output, held: ll.Value, tensor: ll.Value, data: ll.Value) -> None:
    """Keep a tensor (null: none) until the run is over; `data` is where its elements are (null where it has none)."""
    c.store(tensor, held, out.number)
    with c.b.if_then(c.b.icmp_signed("!=", tensor, PTR(None)), likely=True):
        c.b.store(c.api("TF_TensorData", tensor), data)


def _copy_produced(c: Code, caller: Caller, out: Output, held: ll.Value, results: ll.Value) -> None:
    """Allocate an op output at its size, now known, fill it from the memory the run wrote to, and hold it instead."""
    b = c.b
    context, status = c.args[0], c.args[4]
    with b.if_then(b.not_(c.failed(status))):
        large, tensor = c.load(held, out.number), caller.allocate(c, out)
        with b.if_then(b.icmp_signed("!=", tensor, PTR(None)), likely=True):
            data = c.load(results, out.result)
            if c.on_gpu:
                failed = c.api("tfxla_copy", context, c.api("TF_TensorData", tensor), data, out.bytes)
                with b.if_then(b.icmp_signed("!=", failed, I64(0)), likely=False):
                    c.api("TF_SetStatus", status, I32(INTERNAL), c.text("A copy on the GPU failed"))
            else:
                c.copy(c.api("TF_TensorData", tensor), data, out.bytes)
                c.api("TF_DeleteTensor", large)
            c.store(tensor, held, out.number)
