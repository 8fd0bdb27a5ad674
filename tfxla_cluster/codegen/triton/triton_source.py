"""The Triton text of a kernel, and what compiling and launching it must know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TritonSource:
    """`text` defines the jitted function `function`; its parameters are the input pointers, the output
    pointers, then the sizes (i64). `pointers`: their types; `sixteens`: the sizes known to be multiples of 16;
    `lanes`: elements of the largest block; `reduces`: whether a block is reduced."""

    function: str
    text: str
    pointers: tuple[str, ...]
    sizes: int
    sixteens: tuple[int, ...]
    lanes: int
    reduces: bool


def num_warps(source: TritonSource) -> int:
    """Warps of a program, by the size of its largest block: reductions take longer rows a thread."""
    return max(1, min(16, source.lanes // (512 if source.reduces else 256)))
