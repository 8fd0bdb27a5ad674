"""Kernels to machine code: LLVM IR text, then an object file's bytes."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ...target import Target
from ..kernel.ir import Kernel
from .emitter import Text, emit, module_text

# A module costs about as much as some hundred lines: kernels share modules of at least this many lines.
_MODULE_LINES = 400


@dataclass(frozen=True)
class KernelCode:
    """Machine code of one kernel: `object` is a relocatable file that defines `symbol`.

    Kernels compiled together share one object file. `assembly()` gives this kernel's code as text.
    """

    symbol: str
    llvm_ir: str
    object: bytes
    assembly: Callable[[], str]


class _Machines(threading.local):
    """This thread's target machines."""

    def __init__(self) -> None:
        self.known: dict[Target, llvm.TargetMachine] = {}


_MACHINES = _Machines()


def machine(target: Target) -> llvm.TargetMachine:
    """A target machine for position-independent code, which takes no part in other threads' work."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(
        cpu=target.arch, features=target.features, opt=2, reloc="pic", codemodel="small")


def _own_machine(target: Target) -> llvm.TargetMachine:
    if target not in _MACHINES.known:
        _MACHINES.known[target] = machine(target)
    return _MACHINES.known[target]


def compile_kernel(kernel: Kernel, target: Target, symbol: str) -> KernelCode:
    """Machine code for `kernel` under the name `symbol`; UnsupportedError names what has no rule."""
    return _compile([(symbol, emit(kernel, target, symbol))], target)[0]


def compile_kernels(
    kernels: Sequence[tuple[Kernel, str]], target: Target, threads: int = 2
) -> list[KernelCode]:
    """Each (kernel, symbol) compiled, in the order given, by up to `threads` threads."""
    if threads < 2:
        return [code for group in _groups(kernels, target) for code in _compile(group, target)]
    with ThreadPoolExecutor(threads) as pool:
        jobs: list[Future[list[KernelCode]]] = [
            pool.submit(_compile, group, target) for group in _groups(kernels, target)]
        return [code for job in jobs for code in job.result()]


def _groups(kernels: Sequence[tuple[Kernel, str]], target: Target) -> Iterator[list[tuple[str, Text]]]:
    """(symbol, text) of the kernels of one module after the other."""
    group: list[tuple[str, Text]] = []
    lines = 0
    for kernel, symbol in kernels:
        text = emit(kernel, target, symbol)
        group.append((symbol, text))
        lines += text.function.count("\n")
        if lines >= _MODULE_LINES:
            yield group
            group, lines = [], 0
    if group:
        yield group


def _compile(group: Sequence[tuple[str, Text]], target: Target) -> list[KernelCode]:
    data = assemble(module_text([text for _, text in group]), target)
    codes = []
    for symbol, text in group:
        alone = module_text([text])
        codes.append(KernelCode(symbol, alone, data, lambda ir=alone: assembly(ir, target)))  # type: ignore[misc]
    return codes


def assemble(text: str, target: Target) -> bytes:
    """The object file of an LLVM IR module."""
    module = llvm.parse_assembly(text, llvm.create_context())
    return _emit_object(_own_machine(target), module)


def assembly(text: str, target: Target) -> str:
    """The assembly of an LLVM IR module."""
    return str(_own_machine(target).emit_assembly(llvm.parse_assembly(text, llvm.create_context())))


def _emit_object(owner: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`owner.emit_object(module)` without llvmlite's lock, which lets one thread at a time into LLVM.

    That is sound because neither object is shared: the module has its context, the thread its machine.
    """
    handle = getattr(ffi.lib, "_lib_handle", None)
    if handle is None:
        return bytes(owner.emit_object(module))
    with ffi.OutputString() as message:
        buffer = handle.LLVMPY_TargetMachineEmitToMemory(owner, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
