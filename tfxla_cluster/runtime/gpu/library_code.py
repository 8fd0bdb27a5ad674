"""Calls of NVIDIA's libraries in machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llvmlite import ir

from ...codegen.kernel.library import WORKSPACE_ALIGN
from ..launcher.words import Function, Value, Word
from .driver_code import LOW_HALF
from .libraries.cudnn import ADDRESS, INT64, VARIANT_PACK
from .record_layout import CONVOLUTION, PRODUCT, STATUS_CONVOLUTION, STATUS_PRODUCT

_IDENTIFIERS, _ADDRESSES, _WORKSPACE = 1000, 1001, 1003  # attributes of a variant pack


def _product(f: Function, product: Word, operands: Word, outputs: Word, stream: Word) -> None:
    """Multiply operands 0 and 1 into output 0, with output 1 as the workspace, where there is one."""
    function, handle, operation, one, zero, right, left, result, algorithm, workspace_bytes = (
        f.load(product, index) for index in PRODUCT.values()
    )
    lhs, rhs, target = f.load(operands), f.load(operands, 1), f.load(outputs)
    workspace = _workspace(f, outputs, workspace_bytes)
    factors = (one, rhs, right, lhs, left, zero, target, result, target, result)
    code = f.call(function, handle, operation, *factors, algorithm, workspace, workspace_bytes, stream) & LOW_HALF
    with f.if_(code.compare("!=", 0)):
        f.return_(f.word(STATUS_PRODUCT) - code)


def _workspace(f: Function, outputs: Word, count: Word) -> Word:
    """Output 1, aligned; null where nothing is asked for."""
    aligned = (f.load(outputs, 1) + (WORKSPACE_ALIGN - 1)) & -WORKSPACE_ALIGN
    return f.select(count.compare("==", 0), 0, aligned)


def emit_take(module: ir.Module) -> None:
    """gpu_take(lock): waits until the word is 0, and makes it 1. Who took it makes it 0."""
    f = Function(module, "gpu_take", 1)
    _take(f, f.args[0])
    f.return_()


def _take(f: Function, lock: Word) -> None:
    with f.loop():
        f.break_if(f.exchange(lock, 1).compare("==", 0))
        f.call("sched_yield")


def _convolution(f: Function, words: Word, operands: Word, outputs: Word, stream: Word) -> None:
    """Convolve operands 0 and 1 into output 0, as the plan says, with output 1 as the workspace. The handle belongs to
    one thread at a time."""
    c = {name: f.load(words, index) for name, index in CONVOLUTION.items()}
    places, workspace, pack = f.stack(3), f.stack(1), f.stack(1)
    for number, place in enumerate((f.load(operands), f.load(operands, 1), f.load(outputs))):
        f.store(places, number, place)
    f.store(workspace, 0, _workspace(f, outputs, c["workspace_bytes"]))
    f.store(pack, 0, 0)
    _take(f, c["lock"])
    status = f.local(0)

    def then(function: str, *args: Value) -> None:
        with f.if_(status.get().compare("==", 0)):
            status.set(f.call(c[function], *args) & LOW_HALF)

    then("set_stream", c["handle"], stream)
    then("create", VARIANT_PACK, pack)
    made = f.load(pack)
    then("set", made, _IDENTIFIERS, INT64, 3, c["identifiers"])
    then("set", made, _ADDRESSES, ADDRESS, 3, places)
    then("set", made, _WORKSPACE, ADDRESS, 1, workspace)
    then("finalize", made)
    then("execute", c["handle"], c["plan"], made)
    with f.if_(made.compare("!=", 0)):
        f.call(c["destroy"], made)
    f.atomic_store(c["lock"], 0)
    with f.if_(status.get().compare("!=", 0)):
        f.return_(f.word(STATUS_CONVOLUTION) - status.get())


# Word of KERNEL -> what calls the library that the word points at the words of; it takes these, the addresses of the
# operands and of the outputs, and the stream.
LIBRARY_CALLS: Mapping[str, Callable[[Function, Word, Word, Word, Word], None]] = {
    "product": _product,
    "convolution": _convolution,
}
