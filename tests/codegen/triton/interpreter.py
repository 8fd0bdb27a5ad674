"""Runs generated Triton source on NumPy arrays in Triton's interpreter (its own process: the switch is
an environment variable read at import)."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np

from tfxla_cluster.codegen.triton.source import TritonSource


def run(source: TritonSource, inputs: list[np.ndarray], outputs: list[np.ndarray], sizes: list[int], tasks: int):
    """The output arrays after `tasks` programs ran."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "job.pickle")
        with open(path, "wb") as file:
            pickle.dump((source, inputs, outputs, sizes, tasks), file)
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        subprocess.run([sys.executable, "-m", "tests.codegen.triton.interpreter", path], check=True, env=environment)
        with open(path, "rb") as file:
            return pickle.load(file)


class _Tensor:
    """What Triton's interpreter asks of a torch tensor and its storage, over a NumPy array.

    "Device" and host copy are the same memory, so copying back is nothing.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)
        self.dtype = _Name(self.array.dtype.name.replace("bool", "int8"))

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return _Tensor(self.array[:0])

    def set_(self, storage, *_):
        self.array = storage.array

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def copy_(self, other):
        assert other.array is self.array


class _Name(str):
    """A dtype whose text is what Triton's mangling looks up."""

    def __str__(self) -> str:
        return str.__str__(self)


def main(path: str) -> None:
    from tfxla_cluster.codegen.triton.artefacts import load

    with open(path, "rb") as file:
        source, inputs, outputs, sizes, tasks = pickle.load(file)
    tensors = [_Tensor(a.copy()) for a in (*inputs, *outputs)]
    load(source)[source.function][(tasks,)](*tensors, *sizes, BLOCK=source.block)
    with open(path, "wb") as file:
        pickle.dump([t.array for t in tensors[len(inputs) :]], file)


if __name__ == "__main__":
    main(sys.argv[1])
