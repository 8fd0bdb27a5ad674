"""Machine code of launchers: generated once, kept in a store on disk, loaded into this process for good."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir

from ...errors import InternalError
from ...ir import size_operators
from ...ir.guard import facts
from ...target import Target
from ..store import Store
from .records import Retire

_KIND = "runtime"  # of store entry


def object_code(
    name: str, build: Callable[[], ir.Module], sources: Sequence[Path], target: Target, store: Store | None
) -> bytes:
    """The object code of the launcher `name`: from the store on disk where there is one and it has it. `sources`: the
    modules that `build` generates it from, besides those of this room."""
    if store is None:
        return _compile(build(), target)
    shared = (*sorted(Path(__file__).parent.glob("*.py")), Path(size_operators.__file__))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (*shared, *sources))).hexdigest()
    key = facts({"launcher": name, "sources": digest, "target": target, "llvmlite": llvmlite.__version__})
    found = store.get(key, _KIND).sections
    if found is not None:
        return found["object"]
    code = _compile(build(), target)
    store.put(key, _KIND, {"object": code})
    return code


def _compile(module: ir.Module, target: Target) -> bytes:
    """Object code of a launcher for the CPU `target`. Quick code generation after `sroa`: 25 ns a step of a plan
    where the full optimiser gets 14, but a process starts 100 ms earlier."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The large model has no 32-bit relocations, which overflow where LLVM's loader maps parts far apart.
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=target.arch, features=target.features, opt=0, reloc="static", codemodel="large"
    )
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    for function in parsed.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return bytes(machine.emit_object(parsed))


def load_object(code: bytes, externals: Sequence[str]) -> Any:
    """The engine that holds the code; `externals`: functions of the process that it calls."""
    for name in externals:
        llvm.add_symbol(name, _process_symbol(name))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def retire_function(engine: Any) -> Retire:
    """The loaded function of `step_walk.emit_retire`."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address("record_retire"))


def _process_symbol(name: str) -> int:
    """The address of a C library function; InternalError where the process has none."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except AttributeError:
        problem = f"this C library has no function '{name}'"
        raise InternalError(problem, "Linux with glibc is needed") from None
