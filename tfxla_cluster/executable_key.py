"""The key of an executable in memory, on disk and between workers."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import TYPE_CHECKING

from . import __version__, user_kernels
from .backends.backend import Backend, NativeExecutable
from .code_version import code_version
from .codegen.triton import workers
from .dynamic.families import Choice
from .ir import guard
from .ir.node import Module
from .options import CompileOptions
from .runtime.cache import Key

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest


def about(request: CompileRequest, module: Module) -> dict[str, str]:
    """An executable in words, for who lists the store."""
    names = request.named or tuple(param.name for param in module.entry.params)
    inputs = (f"{name} {param.shape}" for name, param in zip(names, module.entry.params))
    return {"function": request.title or request.name, "inputs": ", ".join(inputs)}


def cache_key(choice: Choice, backend: Backend[NativeExecutable], options: CompileOptions) -> Key:
    """Named guards: all that can change the machine code of a module."""
    import tensorflow

    facts: dict[str, object] = {
        "hlo": choice.digest,
        "backend": backend.name,
        "target": backend.target,
        "tfxla_cluster": __version__,
        "code": code_version(),
        "llvmlite": _version("llvmlite"),
        "tensorflow": tensorflow.__version__,
    }
    if backend.target.backend == "gpu" and workers.usable():
        facts["triton"] = _version("triton")
    flagged = (guard.Guard("flag", name, str(value)) for name, value in options.key())
    return (*guard.facts(facts), *_constexprs(choice.module), *flagged)


_version = functools.cache(version)  # which reads files


def _constexprs(module: Module) -> tuple[guard.Guard, ...]:
    """What each constexpr of the module's Triton kernels is, so that a miss names the one that changed."""
    found: dict[str, str] = {}
    for instr in (i for comp in module.computations() for i in comp.instrs if i.opcode == "custom-call"):
        if instr.attrs.get("custom_call_target") == user_kernels.TARGET:
            call = user_kernels.from_json(instr.attrs.get("backend_config", ""))
            for name, value in call.constexprs.items():
                key = f"{call.name}.{name}"
                found[key] = f"{found[key]}, {value}" if key in found else value
    return tuple(guard.Guard("constexpr", name, value) for name, value in found.items())
