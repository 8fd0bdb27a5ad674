"""PyTorch's build for CPUs in a process of its own, beside the rows' other peers: what is asked, and who answers.

PyTorch and TensorFlow each bring thread pools and LLVM; a process each keeps both as their users have them. `python -m
tfxla_cluster.bench.torch_process DIRECTORY` answers, on the arrays that lie there.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..child_process import Child, serve
from ..ir.dtype import from_numpy
from . import handed_arrays
from .row import Row
from .rows import torch_fn

TORCH = "torch.compile"
_REST_S = 0.01  # after a call its threads spin on for a while, which the next contender is not to feel


def is_installed() -> bool:
    return importlib.util.find_spec("torch") is not None


class Peer:
    """The process as the process with TensorFlow asks it; `cpu_s`: seconds of processors that it took in calls."""

    def __init__(self, child: Child, directory: Path) -> None:
        self._child, self._directory, self.cpu_s = child, directory, 0.0

    def make(self, row: Row, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
        """Compiles a row and compares its results; why it has no figure, or ''."""
        arrays = {"inputs": _named(inputs), "expected": _named(expected)}
        handed_arrays.write(self._directory, row.case, arrays, b"")
        return str(self._child.ask("row").get("failed", ""))

    def milliseconds(self) -> float:
        """Of one call, by the other process' clock."""
        answer = self._child.ask("call")
        self.cpu_s += answer["cpu_s"]
        return float(answer["ms"])


@contextmanager
def peer() -> Iterator[Peer | None]:
    """The process, in a `with` block; None where PyTorch is not installed."""
    if not is_installed():
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        child = Child(TORCH, __name__, [directory])
        try:
            yield Peer(child, Path(directory))
        finally:
            child.close()


def _named(arrays: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    return [(from_numpy(array.dtype).name, array) for array in arrays]


class Served:
    """One row at a time. Questions are its public methods by name."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._run = directory, _nothing

    def answer(self, question: str) -> Mapping[str, Any]:
        """What the method that the question names gives; {"failed": why} where it raises."""
        try:
            found: Mapping[str, Any] = getattr(self, question)()
        except Exception as error:  # noqa: BLE001 - it is told and fails the run
            return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        return found

    def row(self) -> dict[str, Any]:
        """Compiles the row that lies in the directory; AssertionError where its results are others."""
        import torch

        case, inputs, expected = handed_arrays.read(self._directory)
        form = torch_fn(case)
        tensors, wanted = ([handed_arrays.tensor(array, "cpu") for array in arrays] for arrays in (inputs, expected))
        torch.compiler.reset()  # of the rows before: it stops compiling one form again and again
        fn = torch.compile(lambda *args: form(torch, *args), dynamic=False)
        self._run = lambda: fn(*tensors)
        found = self._run()
        for ours, theirs in zip(found if isinstance(found, tuple) else [found], wanted, strict=True):
            loose = 2e-2 if ours.dtype == torch.bfloat16 else 2e-3
            torch.testing.assert_close(ours, theirs, rtol=loose, atol=0.5 if loose > 1e-2 else 2e-3)
        return {}

    def call(self) -> dict[str, float]:
        """Milliseconds of a call, and the seconds of processors it took."""
        cpu, start = time.process_time(), time.perf_counter()
        self._run()
        took = (time.perf_counter() - start) * 1e3
        time.sleep(_REST_S)
        return {"ms": took, "cpu_s": time.process_time() - cpu}


def _nothing() -> None:
    raise RuntimeError("no row was made")


if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no workers that outlive a row
    serve(Served(Path(sys.argv[1])).answer)
