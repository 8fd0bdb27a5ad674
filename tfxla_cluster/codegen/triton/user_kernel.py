"""The Triton text of a kernel that its user wrote: his own, called by a function with the launcher's parameters."""

from __future__ import annotations

from ..kernel.ir import Buffer, Kernel, TritonCall
from .triton_source import TritonSource
from .types import pointer


def render(kernel: Kernel, call: TritonCall) -> TritonSource:
    """UnsupportedError where Triton has no type of a buffer's elements."""
    buffers = [*kernel.inputs, *kernel.outputs]
    function = f"tfxla_call_{call.function}"
    given = ", ".join(f"{name}={_name(a) if isinstance(a, Buffer) else a}" for name, a in call.arguments)
    head = f"@triton.jit\ndef {function}({', '.join(map(_name, buffers))}):"
    return TritonSource(
        function,
        f"{call.text}\n\n{head}\n    {call.function}({given})\n",
        tuple(f"*{pointer(b.dtype)}" for b in buffers),
        0,
        (),
        kernel.warps,
        call.options,
        call.grid,
        call.places,
    )


def _name(buffer: Buffer) -> str:
    return f"{buffer.role}{buffer.index}"
