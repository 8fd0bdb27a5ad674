"""Kernels to machine code: LLVM IR text, then an object file's bytes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import llvmlite.binding as llvm

from ...target import Target
from ..kernel.ir import Kernel
from .emitter import emit


@dataclass(frozen=True)
class KernelCode:
    """Machine code of one kernel: `object` is a relocatable file that defines `symbol`.

    `assembly()` gives the same code as text.
    """

    symbol: str
    llvm_ir: str
    object: bytes
    assembly: Callable[[], str]


def machine(target: Target) -> llvm.TargetMachine:
    """A target machine for position-independent code; each thread takes its own."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(
        cpu=target.arch, features=target.features, opt=2, reloc="pic", codemodel="small")


def compile_kernel(kernel: Kernel, target: Target, symbol: str) -> KernelCode:
    """Machine code for `kernel` under the name `symbol`; UnsupportedError names what has no rule."""
    text = emit(kernel, target, symbol)
    return KernelCode(symbol, text, assemble(text, target), lambda: assembly(text, target))


def _parse(text: str) -> llvm.ModuleRef:
    return llvm.parse_assembly(text, llvm.create_context())


def assemble(text: str, target: Target) -> bytes:
    """The object file of an LLVM IR module."""
    return bytes(machine(target).emit_object(_parse(text)))


def assembly(text: str, target: Target) -> str:
    """The assembly of an LLVM IR module."""
    return str(machine(target).emit_assembly(_parse(text)))


def compile_kernels(
    kernels: Sequence[tuple[Kernel, str]], target: Target, threads: int = 2
) -> list[KernelCode]:
    """Each (kernel, symbol) compiled, side by side on `threads` threads, in the order given."""
    if threads < 2 or len(kernels) < 2:
        return [compile_kernel(kernel, target, symbol) for kernel, symbol in kernels]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda item: compile_kernel(item[0], target, item[1]), kernels))
