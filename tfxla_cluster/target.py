"""What code is generated for: a frozen description, no probing (runtime.cpu.host makes this machine's)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """`backend` 'cpu' or 'gpu'; `arch` an LLVM CPU name ('znver3') or 'sm_90'; `features` LLVM's string.

    `vector_bits`: width of the widest vector register used; `cores`: threads a launch may use;
    `l2_bytes`: of the cache that the blocks of a contraction stay in. `any_order`: updates of a scatter that meet may
    be added in the order in which they come, which is another one in each run.
    """

    backend: str
    arch: str
    features: str = ""
    vector_bits: int = 256
    cores: int = 2
    l2_bytes: int = 512 * 1024
    any_order: bool = False

    @property
    def dump_name(self) -> str:
        """The word XLA puts before `_after_optimizations`: 'cpu', or 'sm_9.0_gpu'."""
        if self.backend == "cpu":
            return "cpu"
        digits = self.arch.removeprefix("sm_")
        return f"sm_{digits[:-1]}.{digits[-1]}_gpu"
