"""The Triton text of a kernel with what compiling it must know, and what was made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..kernel.makers import with_makers


@dataclass(frozen=True, slots=True)
class TritonSource:
    """`text` defines the jitted function `function`; its parameters are the input pointers, the output
    pointers, then the sizes (i64). `pointers`: their types; `multiples`: (number of a size, what
    it is known to be a multiple of);
    `warps` of a program; `options` of Triton's compiler besides. `grid`: programs along the second and third axis.
    `makers`: (name of the text, HLO instruction that it was made for), which is no part of what it is.
    `places`: (function, file, line of its `def`) of a user's functions: what Triton says about them is his mistake."""

    function: str
    text: str
    pointers: tuple[str, ...]
    sizes: int
    multiples: tuple[tuple[int, int], ...]
    warps: int
    options: tuple[tuple[str, int], ...] = ()
    grid: tuple[int, int] = (1, 1)
    places: tuple[tuple[str, str, int], ...] = ()
    makers: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def listed(self) -> str:
        """The text for people: lines say what they were made for."""
        return with_makers(self.text, dict(self.makers), "#")


LANGUAGES = ("ttir", "ttgir", "ptx")  # texts that Triton makes, in order


@dataclass(frozen=True, slots=True)
class Artefacts:
    """What Triton made: `texts` by language, `cubin` with the function `entry`, and what a launch needs to know: warps
    and shared memory of a block, blocks of a cluster, global memory for scratch (a multiple of
    `global_scratch_align`) of each block, whether it may begin before the kernel before it ends (`launch_pdl`) and
    whether all blocks must run at once (`cooperative`)."""

    texts: Mapping[str, str]
    cubin: bytes
    entry: str
    num_warps: int
    shared_bytes: int
    num_ctas: int = 1
    global_scratch_bytes: int = 0
    global_scratch_align: int = 1
    launch_pdl: bool = False
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """What Triton says against a user's kernel; `where`: file:line, '' unknown."""

    message: str
    where: str
