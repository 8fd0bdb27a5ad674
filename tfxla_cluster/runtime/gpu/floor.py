"""What a GPU does at best, from what its driver says of it."""

from __future__ import annotations

from ..floor import Floor
from .driver import Device

# Operations a cycle of a multiprocessor's matrix units, factors of bf16 (NVIDIA's white papers of A100 and H100).
_OPERATIONS = {"sm_80": 2048, "sm_90": 4096}
_PER_CLOCK = 2  # transfers of memory


def floor(device: Device) -> Floor | None:
    """By the bandwidth of its memory; the rate of products is not known of each. None where the driver does not say how
    fast the memory is."""
    bytes_a_ms = _PER_CLOCK * device.memory_khz * device.memory_bits // 8
    if not bytes_a_ms:
        return None
    known = _OPERATIONS.get(device.arch)
    operations = None if known is None else float(known * device.multiprocessors * device.core_khz)
    return Floor(((bytes_a_ms, 1.0),), operations)
