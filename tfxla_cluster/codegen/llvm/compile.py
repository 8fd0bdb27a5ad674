"""Kernels to machine code: LLVM IR text, then an object file's bytes."""
from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ...target import Target
from ..kernel.ir import Kernel
from .emitter import emit
from .texts import Text, module_text, shared_text

# A module costs about as much as some hundred lines: kernels share modules of at least this many lines.
_MODULE_LINES = 400


@dataclass(frozen=True)
class KernelCode:
    """Machine code of one kernel: `object` is a relocatable file that defines `symbol`.

    Kernels compiled together share one object file; `parts` are object files of functions that it calls.
    `assembly()` gives this kernel's code as text.
    """

    symbol: str
    llvm_ir: str
    object: bytes
    assembly: Callable[[], str]
    parts: tuple[bytes, ...] = ()


def object_files(codes: Iterable[KernelCode]) -> list[bytes]:
    """All object files that the kernels need, each once."""
    return list(dict.fromkeys(data for code in codes for data in (code.object, *code.parts)))


class _Machines(threading.local):
    """This thread's target machines, by target and level."""

    def __init__(self) -> None:
        self.known: dict[tuple[Target, int], llvm.TargetMachine] = {}


_MACHINES = _Machines()


# LLVM's code generation levels: level 0 takes a third of the time or less, and its code up to twice as long.
_BEST, _QUICK = 2, 0


def machine(target: Target, level: int = _BEST) -> llvm.TargetMachine:
    """A target machine for position-independent code, which takes no part in other threads' work."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(
        cpu=target.arch, features=target.features, opt=level, reloc="pic", codemodel="small")


def _own_machine(target: Target, level: int = _BEST) -> llvm.TargetMachine:
    if (target, level) not in _MACHINES.known:
        _MACHINES.known[target, level] = machine(target, level)
    return _MACHINES.known[target, level]


def compile_kernel(kernel: Kernel, target: Target, symbol: str) -> KernelCode:
    """Machine code for `kernel` under the name `symbol`, in one object; UnsupportedError names what has no rule."""
    text = emit(kernel, target, symbol)
    alone = module_text([text])
    return KernelCode(symbol, alone, assemble(alone, target), lambda: assembly(alone, target))


def compile_kernels(
    kernels: Sequence[tuple[Kernel, str]], target: Target, threads: int = 2, quick: Container[str] = ()
) -> list[KernelCode]:
    """Each (kernel, symbol) compiled, in the order given, by up to `threads` threads.

    `quick`: symbols of kernels that run too briefly to repay careful code.
    """
    parts: dict[str, Future[bytes]] = {}
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        jobs = []
        for group, level in _groups(kernels, target, quick):
            for name, function in ((n, f) for _, text in group for n, f in text.shared.items()):
                if name not in parts:
                    parts[name] = pool.submit(_shared_object, shared_text(function), target)
            jobs.append((group, level, pool.submit(assemble, _group_text(group), target, level)))
        codes = [code for group, level, job in jobs for code in _codes(group, target, level, job.result(), parts)]
    by_symbol = {code.symbol: code for code in codes}
    return [by_symbol[symbol] for _, symbol in kernels]


def _group_text(group: Sequence[tuple[str, Text]]) -> str:
    return module_text([text for _, text in group], whole=False)


@functools.lru_cache(maxsize=64)
def _shared_object(text: str, target: Target) -> bytes:
    """The object of a large function, compiled once a process."""
    return assemble(text, target)


def _groups(
    kernels: Sequence[tuple[Kernel, str]], target: Target, quick: Container[str]
) -> Iterator[tuple[list[tuple[str, Text]], int]]:
    """((symbol, text) of the kernels of a module, its level), one module after the other."""
    open_groups: dict[int, list[tuple[str, Text]]] = {_BEST: [], _QUICK: []}
    for kernel, symbol in kernels:
        level = _QUICK if symbol in quick else _BEST
        group = open_groups[level]
        group.append((symbol, emit(kernel, target, symbol)))
        if sum(text.function.count("\n") for _, text in group) >= _MODULE_LINES:
            yield group, level
            open_groups[level] = []
    yield from ((group, level) for level, group in open_groups.items() if group)


def _codes(
    group: Sequence[tuple[str, Text]], target: Target, level: int, data: bytes, parts: Mapping[str, Future[bytes]]
) -> Iterator[KernelCode]:
    """The kernels of one object file."""
    for symbol, text in group:
        alone = module_text([text])
        needed = tuple(parts[name].result() for name in text.shared)
        yield KernelCode(symbol, alone, data, partial(assembly, alone, target, level), needed)


def assemble(text: str, target: Target, level: int = _BEST) -> bytes:
    """The object file of an LLVM IR module."""
    module = llvm.parse_assembly(text, llvm.create_context())
    return _emit_object(_own_machine(target, level), module)


def assembly(text: str, target: Target, level: int = _BEST) -> str:
    """The assembly of an LLVM IR module."""
    module = llvm.parse_assembly(text, llvm.create_context())
    return str(_own_machine(target, level).emit_assembly(module))


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
