"""How many blocks of a kernel fit on a multiprocessor of a GPU, and what keeps it from more."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What one has: warps, blocks, and bytes of shared memory."""

    warps: int
    blocks: int
    shared: int


# By compute capability: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_MULTIPROCESSORS = {
    "70": Multiprocessor(64, 32, 96 * 1024),
    "75": Multiprocessor(32, 16, 64 * 1024),
    "80": Multiprocessor(64, 32, 164 * 1024),
    "86": Multiprocessor(48, 16, 100 * 1024),
    "87": Multiprocessor(48, 16, 164 * 1024),
    "89": Multiprocessor(48, 24, 100 * 1024),
    "90": Multiprocessor(64, 32, 228 * 1024),
    "100": Multiprocessor(64, 32, 228 * 1024),
    "120": Multiprocessor(48, 24, 100 * 1024),
}
_REGISTERS = 64 * 1024  # of each
_REGISTER_UNIT = 256  # a warp's registers come in multiples of this
_OWN_SHARED = 1024  # bytes that the system takes of each block's


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`blocks` of the kernel at once, `share` of the warps that there are; `limit`: what there is no more of."""

    blocks: int
    share: float
    limit: str


def occupancy(arch: str, warps: int, registers: int, shared: int) -> Occupancy | None:
    """Of a kernel of `warps` a block, `registers` a thread and `shared` bytes a block; None for a GPU not known."""
    number = re.sub(r"\D", "", arch.replace(".", ""))
    has = _MULTIPROCESSORS.get(number)
    if has is None or warps <= 0:
        return None
    of_warp = -(-max(registers, 1) * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
    limits = {
        "warps": has.warps // warps,
        "blocks": has.blocks,
        "registers": _REGISTERS // (of_warp * warps),
        "shared memory": has.shared // (shared + _OWN_SHARED),
    }
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps / has.warps, limit)
