"""Kernels to machine code: LLVM IR text, then an object file's bytes."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ... import trace
from ...target import Target
from ..kernel.code import Listing
from ..kernel.ir import Kernel
from . import listing as listings
from .emitter import emit
from .texts import Text, called_text, module_text, shared_text

# A module costs about as much as some hundred lines: kernels share modules of at least this many lines.
_MODULE_LINES = 400


@dataclass(frozen=True)
class KernelCode:
    """Machine code of one kernel: `object` is a relocatable file that defines `symbol`.

    Kernels compiled together share one object file; `parts` are object files of functions that it calls.
    `assembly`: this kernel's code as text, where it was asked for, and that of what it calls.
    """

    symbol: str
    object: bytes
    assembly: str = ""
    parts: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class _Object:
    """An object file, and the assembly of its functions where that was asked for."""

    data: bytes
    functions: Mapping[str, str]


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
    llvm.initialize_native_asmparser()
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(
        cpu=target.arch, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


def _own_machine(target: Target, level: int = _BEST) -> llvm.TargetMachine:
    if (target, level) not in _MACHINES.known:
        _MACHINES.known[target, level] = machine(target, level)
    return _MACHINES.known[target, level]


def compile_kernel(kernel: Kernel, target: Target, symbol: str, assembly: bool = False) -> KernelCode:
    """Machine code for `kernel` under the name `symbol`, in one object; UnsupportedError names what has no rule."""
    made = _object(module_text([emit(kernel, target, symbol)]), target, _BEST, assembly)
    return KernelCode(symbol, made.data, listings.listing(symbol, made.functions) if assembly else "")


def compile_kernels(
    kernels: Sequence[tuple[Kernel, str]],
    target: Target,
    threads: int = 2,
    quick: Container[str] = (),
    listing: Listing | None = None,
) -> list[KernelCode]:
    """Each (kernel, symbol) compiled, in the order given, by up to `threads` threads.

    `quick`: symbols of kernels that run too briefly to repay careful code. `listing`: is told LLVM IR before any is
    compiled (otherwise a module is compiled while the next is written), and assembly.
    """
    parts: dict[str, Future[_Object]] = {}
    groups, assembly = _groups(kernels, target, quick), listing is not None
    if listing is not None:
        known = list(groups)
        with trace.phase("dump"):
            _list_sources(known, [symbol for _, symbol in kernels], listing)
        groups = iter(known)
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        jobs = []
        for group, level in groups:
            for name, function in ((n, f) for _, text in group for n, f in text.shared.items()):
                if name not in parts:
                    parts[name] = pool.submit(_shared_object, shared_text(function), target, assembly)
            jobs.append((group, pool.submit(_object, _group_text(group), target, level, assembly)))
        with trace.phase("assembler"):  # what is left to wait for: it began while modules were written
            codes = [code for group, job in jobs for code in _codes(group, job.result(), parts, assembly)]
    by_symbol = {code.symbol: code for code in codes}
    ordered = [by_symbol[symbol] for _, symbol in kernels]
    if listing is not None:
        with trace.phase("dump"):
            listing("s", [(f"kernel {code.symbol}", code.assembly) for code in ordered])
    return ordered


_Group = list[tuple[str, Text]]


def _list_sources(groups: Sequence[tuple[_Group, int]], symbols: Sequence[str], listing: Listing) -> None:
    """Each kernel as emitted, a module by itself; then the modules that are compiled, their parts in order."""
    texts = {symbol: text for group, _ in groups for symbol, text in group}
    listing("ir-no-opt.ll", [(f"kernel {s}", "\n".join([texts[s].listed, called_text([texts[s]])])) for s in symbols])
    compiled: list[tuple[str, str]] = []
    for number, (group, level) in enumerate(groups):
        compiled.append((f"module {number} at code generation level {level}", ""))
        compiled += [(f"kernel {symbol}", text.listed) for symbol, text in group]
        compiled.append(("called by these", called_text([text for _, text in group], whole=False)))
    shared = {name: function for text in texts.values() for name, function in text.shared.items()}
    compiled += [
        (f"module {name} at code generation level {_BEST}", shared_text(function)) for name, function in shared.items()
    ]
    listing("ir-with-opt.ll", compiled)


def _group_text(group: Sequence[tuple[str, Text]]) -> str:
    return module_text([text for _, text in group], whole=False)


@functools.lru_cache(maxsize=64)
def _shared_object(text: str, target: Target, with_assembly: bool) -> _Object:
    """The object of a large function, compiled once a process."""
    return _object(text, target, _BEST, with_assembly)


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
    group: Sequence[tuple[str, Text]], made: _Object, parts: Mapping[str, Future[_Object]], with_assembly: bool
) -> Iterator[KernelCode]:
    """The kernels of one object file."""
    for symbol, text in group:
        called = [parts[name].result() for name in text.shared]
        known = dict(made.functions)
        for part in called:
            known.update(part.functions)
        yield KernelCode(
            symbol, made.data, listings.listing(symbol, known) if with_assembly else "", tuple(p.data for p in called)
        )


def _object(text: str, target: Target, level: int, with_assembly: bool) -> _Object:
    if not with_assembly:
        return _Object(assemble(text, target, level), {})
    code = assembly(text, target, level)
    return _Object(assemble(listings.module_of(code), target, level), listings.functions(code))


def assemble(text: str, target: Target, level: int = _BEST) -> bytes:
    """The object file of an LLVM IR module."""
    return _emit(text, _own_machine(target, level), _OBJECT)


def assembly(text: str, target: Target, level: int = _BEST) -> str:
    """The assembly of an LLVM IR module."""
    return _emit(text, _own_machine(target, level), _ASSEMBLY).decode()


_ASSEMBLY, _OBJECT = 0, 1  # LLVM's LLVMCodeGenFileType


def _emit(text: str, owner: llvm.TargetMachine, kind: int) -> bytes:
    """`owner.emit_object(module)` or `emit_assembly` without llvmlite's lock, which lets one thread at a time into
    LLVM.

    That is sound because neither object is shared: the module has its context, the thread its machine.
    """
    module = llvm.parse_assembly(text, llvm.create_context())
    handle = getattr(ffi.lib, "_lib_handle", None)
    if handle is None:
        return bytes(owner.emit_object(module)) if kind == _OBJECT else str(owner.emit_assembly(module)).encode()
    with ffi.OutputString() as message:
        buffer = handle.LLVMPY_TargetMachineEmitToMemory(owner, module, kind, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
