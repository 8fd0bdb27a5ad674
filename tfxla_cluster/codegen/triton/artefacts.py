"""Triton source to ttir, ttgir, ptx and cubin, with no GPU; and the source's function for the interpreter.

For processes of their own (`workers`): where TensorFlow is, importing Triton ends the process, for both bring an LLVM
whose options are registered by name.
"""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

from .triton_source import LANGUAGES, Artefacts, Rejected, TritonSource

POINTER_ALIGN = 16  # bytes


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
    """What Triton makes of `source` for `arch`, e.g. 'sm_90'. Pointers are taken to be multiples of POINTER_ALIGN."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = load(source)[source.function]
    types = [*source.pointers, *["i64"] * source.sizes]
    first = len(source.pointers)
    multiples = [*((n, POINTER_ALIGN) for n in range(first)), *((first + n, m) for n, m in source.multiples)]
    made = triton.compile(
        ASTSource(
            function, dict(zip(function.arg_names, types)), {}, {(n,): [["tt.divisibility", m]] for n, m in multiples}
        ),
        target=GPUTarget("cuda", int(arch.removeprefix("sm_")), 32),
        options={"num_warps": source.warps, "enable_fp_fusion": False, **dict(source.options)},
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


def compile_users(source: TritonSource, arch: str) -> Artefacts | Rejected:
    """As `compile_source`, of a text that a user wrote: what is wrong with it is an answer."""
    try:
        return compile_source(source, arch)
    except Exception as error:  # noqa: BLE001 - whatever a user's text makes Triton raise
        return _rejected(source, error)


def _rejected(source: TritonSource, error: BaseException) -> Rejected:
    """The innermost error, at the line of the innermost function of the user's."""
    where, innermost = "", error
    chain: BaseException | None = error
    while chain is not None:
        where, innermost = _place(source, chain) or where, chain
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
    said = getattr(innermost, "error_message", None) or str(innermost) or type(innermost).__name__
    return Rejected(said.strip(), where)


def _place(source: TritonSource, error: BaseException) -> str:
    """file:line that a CompilationError of Triton's points to, in the program that the text came from."""
    text, node = getattr(error, "src", None), getattr(error, "node", None)
    for function, file, line in source.places:
        if isinstance(text, str) and text.lstrip().startswith(f"def {function}(") and node is not None:
            return f"{file}:{line + node.lineno - 1}"
    return ""
