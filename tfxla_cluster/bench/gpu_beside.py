"""The peers that run beside TensorFlow in a process of their own, as the process with TensorFlow asks them."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..child_process import Child
from ..errors import UsageError
from . import handed_arrays
from .gpu_timing import Samples

LIBRARIES = {"torch": "PyTorch, eager and compiled", "jax": "XLA through JAX"}
Arrays = Mapping[str, Sequence[tuple[str, np.ndarray]]]


def check_installed() -> None:
    """UsageError where a library that rows are compared with is missing."""
    for library, what in LIBRARIES.items():
        if importlib.util.find_spec(library) is None:
            raise UsageError(f"{library} is not installed: {what} is what rows are compared with", "Install 'bench'")


class Peers:
    """A gpu_timing.Side whose contenders are the other process'."""

    def __init__(self, child: Child, directory: Path) -> None:
        self._child, self._directory = child, directory

    def make(self, case: str, arrays: Arrays, module: bytes) -> tuple[dict[str, str], dict[str, float]]:
        """(peer -> why it has no figure, peer -> its error) of a row; `arrays`: as handed_arrays.write takes them."""
        handed_arrays.write(self._directory, case, arrays, module)
        answer = self._child.ask("row")
        return answer["failed"], answer["errors"]

    def start(self) -> None:
        self._child.ask("start")

    def round(self) -> None:
        self._child.ask("round")

    def stop(self) -> Samples:
        samples: Samples = self._child.ask("stop")["samples"]
        return samples

    def turn(self, calls: int) -> Mapping[str, float]:
        ms: Mapping[str, float] = self._child.ask(f"turn {calls}")["ms"]
        return ms


@contextmanager
def peers() -> Iterator[Peers]:
    """The process, in a `with` block."""
    with tempfile.TemporaryDirectory() as directory:
        child = Child("peers", "tfxla_cluster.bench.gpu_peer_process", [directory])
        try:
            yield Peers(child, Path(directory))
        finally:
            child.close()
