"""The Triton text of a kernel, and what compiling and launching it must know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TritonSource:
    """`text` defines the jitted function `function`; its parameters are the input pointers, the output
    pointers, then the sizes (i64). `pointers`: their types; `sixteens`: the sizes known to be multiples of 16;
    `warps` of a program."""

    function: str
    text: str
    pointers: tuple[str, ...]
    sizes: int
    sixteens: tuple[int, ...]
    warps: int
