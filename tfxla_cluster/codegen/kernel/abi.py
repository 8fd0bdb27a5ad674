"""The calling convention of kernels: the context's fields and how a task's scratch memory is laid out."""

from __future__ import annotations

from .ir import Kernel

# Fields of the context, eight bytes each, in order.
TASK_BEGIN, TASK_END, SCRATCH, THREAD_INDEX, RUNTIME, STATUS = range(6)
CONTEXT_FIELDS = 6
SCRATCH_ALIGN = 64


def scratch_layout(kernel: Kernel) -> tuple[tuple[int, ...], int]:
    """(byte offset of each scratch buffer, total bytes a thread needs); each starts 64-byte aligned."""
    offsets, total = [], 0
    for buffer in kernel.scratch:
        offsets.append(total)
        total += -(-buffer.elements * buffer.dtype.itemsize // SCRATCH_ALIGN) * SCRATCH_ALIGN
    return tuple(offsets), total
