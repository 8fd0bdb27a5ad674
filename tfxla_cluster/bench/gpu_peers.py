"""The peers of a GPU row as callables on the same inputs: PyTorch eager and compiled, XLA on the row's own HLO, a copy
of as many bytes.

Each call enqueues its work; none waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ..ir import proto
from ..ir.node import Module
from ..replay import xla as replay_xla
from .gpu_rows import Draw, GpuRow
from .handed_arrays import TORCH_DTYPES

Call = Callable[[], Any]


def drawn(inputs: Sequence[Draw]) -> list[Any]:
    """Tensors on the GPU, the same for the same row."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    found = []
    for draw in inputs:
        dtype = getattr(torch, TORCH_DTYPES[draw.dtype])
        if draw.below:
            values = torch.randint(draw.below, draw.shape, generator=generator, device="cuda")
        else:
            values = torch.randn(draw.shape, generator=generator, device="cuda") * draw.scale
        found.append(values.to(dtype))
    return found


def makers(row: GpuRow, tensors: Sequence[Any]) -> dict[str, Callable[[], Call]]:
    """PyTorch's forms of a row by name, the eager one first, each made when it is asked for."""
    import torch

    def form(fn: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: fn(torch, *args)

    def compiled() -> Call:
        torch.compiler.reset()  # of the rows before: it stops compiling one form again and again
        mode = "max-autotune-no-cudagraphs" if row.flops else None
        fn = torch.compile(form(row.torch_fn), mode=mode, dynamic=False, fullgraph=True)
        return lambda: fn(*tensors)

    def named(fn: Callable[..., Any]) -> Callable[[], Call]:
        return lambda: lambda: fn(torch, *tensors)

    forms = {name: named(fn) for name, fn in row.peers.items()}
    return {"torch": named(row.torch_fn), "torch.compile": compiled, **forms}


def xla(module: Module, tensors: Sequence[Any]) -> Call:
    """XLA's executable of the module, through JAX's client; inputs are the tensors' own memory."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    from jaxlib import xla_client

    executable = replay_xla.load(proto.write(module), "cuda", xla_client.CompileOptions())
    arrays = [jax.dlpack.from_dlpack(tensor) for tensor in tensors]
    return lambda: executable.execute(arrays)


def copier(moved: int) -> Call:
    """A copy that moves `moved` bytes, read plus written."""
    import torch

    source = torch.ones(max(moved // 8, 1), dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def product(size: int, dtype: Any) -> Call:
    """A product of two square matrices by PyTorch's library."""
    import torch

    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    return lambda: a @ b


def tensors_of(result: Any) -> list[Any]:
    """The tensors of a result, XLA's arrays as PyTorch tensors."""
    import torch

    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    return [part if isinstance(part, torch.Tensor) else torch.from_dlpack(part) for part in parts]


def error(found: Any, expected: Any) -> float:
    """The largest difference of two results as a part of the largest element; infinite where NaN or shapes differ."""
    import torch

    worst = 0.0
    for a, b in zip(tensors_of(found), tensors_of(expected), strict=True):
        if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
            return float("inf")
        scale = max(float(b.double().abs().nan_to_num().max()), 1e-30) if b.numel() else 1.0
        worst = max(worst, float((a.double() - b.double()).abs().nan_to_num().max()) / scale if b.numel() else 0.0)
    return worst
