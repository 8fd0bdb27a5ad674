"""Triton source to ttir, ttgir, ptx and cubin, with no GPU; and the source's function for the interpreter.

For processes of their own (`workers`): where TensorFlow is, importing Triton ends the process, for both bring an LLVM
whose options are registered by name.
"""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

from .triton_source import LANGUAGES, Artefacts, TritonSource


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


def compile_source(source: TritonSource, arch: str) -> Artefacts:
    """What Triton makes of `source` for `arch`, e.g. 'sm_90'. Pointers are taken to be multiples of 16 bytes."""
    import triton
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
        target=GPUTarget("cuda", int(arch.removeprefix("sm_")), 32),
        options={"num_warps": source.warps, "enable_fp_fusion": False},
    )
    texts = {language: str(made.asm[language]) for language in LANGUAGES}
    said = made.metadata
    return Artefacts(
        texts,
        made.asm["cubin"],
        said.name,
        said.num_warps,
        said.shared,
        said.num_ctas,
        said.global_scratch_size,
        said.global_scratch_align,
        said.launch_pdl,
        said.launch_cooperative_grid,
    )
