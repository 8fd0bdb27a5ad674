"""Triton source to ttir, ttgir, ptx and cubin, with no GPU; and the source's function for the interpreter."""

from __future__ import annotations

import hashlib
import importlib
import linecache
from types import ModuleType
from typing import Any

from ...errors import UnsupportedError
from ...target import Target
from .triton_source import TritonSource

STAGES = ("ttir", "ttgir", "ptx", "cubin")


def _triton() -> ModuleType:
    try:
        return importlib.import_module("triton")
    except ImportError:
        raise UnsupportedError("Triton is not installed", "pip install 'triton>=3.9'") from None


def load(source: TritonSource) -> dict[str, Any]:
    """The plain Python functions of `source` before jitting, by name.

    Triton reads a function's text through linecache, so the text gets an entry there.
    """
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:16]
    filename = f"<tfxla-triton-{digest}>"
    linecache.cache[filename] = (len(source.text), None, source.text.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": f"tfxla_triton_{digest}"}
    # Our own generated text, never a file's: nothing read from disk is executed.
    exec(compile(source.text, filename, "exec"), namespace)
    return namespace


def compile_source(source: TritonSource, target: Target, warps: int = 0) -> dict[str, Any]:
    """Every stage of STAGES (text, cubin as bytes) for `target`, e.g. arch 'sm_90'; and 'metadata'.

    `warps`: 0 for those of `source`. Pointers are taken to be multiples of 16 bytes.
    """
    triton = _triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = load(source)[source.function]
    types = [*source.pointers, *["i64"] * source.sizes]
    first = len(source.pointers)
    aligned = [*range(first), *(first + n for n in source.sixteens)]
    made = triton.compile(
        ASTSource(
            function, dict(zip(function.arg_names, types)), {}, {(n,): [["tt.divisibility", 16]] for n in aligned}
        ),
        target=GPUTarget("cuda", int(target.arch.removeprefix("sm_")), 32),
        options={"num_warps": warps or source.warps, "enable_fp_fusion": False},
    )
    return {**{stage: made.asm[stage] for stage in STAGES}, "metadata": made.metadata}
