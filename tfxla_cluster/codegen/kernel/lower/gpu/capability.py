"""What GPUs of an architecture have: the numbers that blocks are chosen by."""

from __future__ import annotations

from .....target import Target

# Bytes of shared memory that a block may have, by compute capability times ten: the CUDA C++ Programming Guide's
# table of technical specifications. Others have what the smallest of them has.
_SHARED_BYTES = {
    75: 64 * 1024,
    80: 163 * 1024,
    86: 99 * 1024,
    87: 163 * 1024,
    89: 99 * 1024,
    90: 227 * 1024,
    100: 227 * 1024,
    103: 227 * 1024,
    120: 99 * 1024,
}
DESCRIPTOR_UNIT = 16  # bytes that rows of a matrix of blocks are apart by


def capability(target: Target) -> int:
    """Compute capability times ten: 90 of 'sm_90'."""
    return int("".join(filter(str.isdigit, target.arch.removeprefix("sm_"))))


def shared_bytes(target: Target) -> int:
    """Bytes of shared memory that a program may have."""
    return _SHARED_BYTES.get(capability(target), min(_SHARED_BYTES.values()))


def starts_early(target: Target) -> bool:
    """Whether a kernel may be on the machine before the one before it has ended."""
    return capability(target) >= 90


def has_descriptors(target: Target) -> bool:
    """Whether a unit of the machine copies blocks of matrices."""
    return capability(target) >= 90
