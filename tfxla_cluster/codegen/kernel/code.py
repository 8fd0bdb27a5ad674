"""What goes into a kernel compiler and what comes out of it, the same for every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .ir import Kernel

# Takes a language (its suffix in the dump: 'ir-no-opt.ll', 's', 'ptx', ...) and its parts, each with a heading
# ('kernel SYMBOL'): a kernel compiler tells each language before it starts on the next.
Listing = Callable[[str, Sequence[tuple[str, str]]], None]
# What a launcher has to know of a kernel besides its grid, as data: name -> number (warps, bytes of shared memory).
Params = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel to compile under the name `symbol`. `work`: scalar operations of all its launches in one execution,
    at sample sizes; None where a loop launches it. `text`: in the language that its compiler takes (LLVM IR, Triton),
    compiled as it is instead of what would be written of `kernel`; '' for that."""

    symbol: str
    kernel: Kernel
    work: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Compiled kernels.

    objects: files that the backend's loader takes, in this process or from a store in another. kernels: of a backend
    that runs kernel IR itself, by symbol. params: of the kernels whose launcher needs some, by symbol.
    """

    objects: tuple[bytes, ...] = ()
    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    params: Mapping[str, Params] = field(default_factory=dict)
