"""The peers of `tfxla-bench gpu` through TensorFlow, in a process of their own: PyTorch, eager and compiled, and XLA
through JAX.

PyTorch compiles by Triton, which no process can import beside TensorFlow: both bring LLVM's global symbols. `python -m
tfxla_cluster.bench.gpu_peer_process DIRECTORY` answers what gpu_beside.Peers asks, on the arrays that lie there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..child_process import serve
from ..ir import proto
from . import gpu_peers, gpu_suite, handed_arrays
from .gpu_timing import TorchSide


class Served:
    """The peers of one row at a time. Questions are its public methods by name, with numbers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._side = self._without_product = TorchSide({})

    def answer(self, question: str) -> Mapping[str, Any]:
        """What the method that the question names gives."""
        name, *numbers = question.split()
        found: Mapping[str, Any] = getattr(self, name)(*map(int, numbers))
        return found

    def row(self) -> dict[str, Any]:
        """Makes the peers of the row that lies in the directory: which have no figure and why, and their errors."""
        case, inputs, expected = handed_arrays.read(self._directory)
        (row,) = [row for row in gpu_suite.all_rows() if row.case == case]
        result = gpu_suite.Result(row.case, row.family, flops=row.flops)
        tensors, wanted = ([handed_arrays.tensor(array, "cuda") for array in arrays] for arrays in (inputs, expected))
        module = proto.read(handed_arrays.module(self._directory))
        makers = gpu_peers.makers(row, tensors)
        makers[gpu_suite.XLA] = lambda: gpu_peers.xla(module, tensors)
        calls: dict[str, gpu_peers.Call] = {}
        for name, make in makers.items():
            found = gpu_suite.checked(name, make, wanted, row.tolerance, result, gpu_suite.STOCK)
            if found is not None:
                calls[name] = found[0]
        self._without_product = TorchSide(dict(calls))
        if row.flops:
            calls[gpu_suite.PRODUCT] = gpu_suite.product(tensors)
        self._side = TorchSide(calls)
        return {"failed": result.failed, "errors": result.errors}

    def start(self) -> dict[str, Any]:
        self._side.start()
        return {}

    def round(self) -> dict[str, Any]:
        self._side.round()
        return {}

    def stop(self) -> dict[str, Any]:
        """The samples, in milliseconds."""
        return {"samples": self._side.stop()}

    def turn(self, calls: int) -> dict[str, Any]:
        """Milliseconds a call."""
        return {"ms": self._without_product.turn(calls)}


if __name__ == "__main__":
    serve(Served(Path(sys.argv[1])).answer)
