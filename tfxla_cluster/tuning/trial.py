"""One executable under trial: inputs in place, outputs poisoned, both between zones that it must not write to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..backends.backend import Launcher
from ..runtime.arrays import aligned_bytes, bind_sizes, empty_outputs, trimmed
from ..runtime.cpu.executable import Executable
from ..runtime.gpu.executable import Executable as GpuExecutable
from .check import same_bits
from .gpu_trial import GpuTrial

ZONE = 4096  # bytes before and after each array
PATTERN = 0xA5  # of which the zones are made


class Trial(Protocol):
    """Not for several threads at once."""

    def outputs(self, poison: int) -> list[np.ndarray]:
        """What one run leaves in outputs whose bytes were all `poison`; raises where it fails."""
        ...

    def overrun(self) -> str:
        """What runs so far wrote outside the outputs, in words; '' for nothing."""
        ...

    def seconds(self, count: int) -> float:
        """Of one run, the mean of `count` in a row."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


class CpuTrial:
    """A Trial of machine code on this machine's cores."""

    def __init__(self, executable: Launcher, arrays: Sequence[np.ndarray]) -> None:
        assert isinstance(executable, Executable)
        self._executable, plan = executable, executable.plan
        self._sizes = bind_sizes(plan, arrays)
        self._given = [np.array(a, order="C") for a in arrays]
        self._shared = {i for _, i in plan.aliases}
        self._inputs = [_Guarded(a) for a in self._given]
        self._outputs = [_Guarded(a) for a in empty_outputs(plan, self._sizes)]

    def outputs(self, poison: int) -> list[np.ndarray]:
        for output in self._outputs:
            output.bytes[:] = poison
        sizes = self._run()
        env = dict(zip((s.symbol for s in self._executable.plan.sizes), map(int, sizes)))
        return [a.copy() for a in trimmed(self._executable.plan, [o.array for o in self._outputs], env)]

    def _run(self) -> np.ndarray:
        sizes = self._sizes.copy()
        self._executable.call([i.address for i in self._inputs], [o.address for o in self._outputs], sizes)
        return sizes

    def overrun(self) -> str:
        for name, arrays in (("input", self._inputs), ("output", self._outputs)):
            for number, array in enumerate(arrays):
                if not array.intact():
                    return f"bytes beside {name} {number} were written"
        for number, (now, given) in enumerate(zip(self._inputs, self._given)):
            if number not in self._shared and not same_bits(now.array, given):
                return f"input {number} was written"
        return ""

    def seconds(self, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            self._run()
        return (time.perf_counter() - start) / count

    def close(self) -> None:
        self._executable.close()


class _Guarded:
    """A copy of an array between two zones."""

    def __init__(self, array: np.ndarray) -> None:
        self._whole = aligned_bytes(array.nbytes + 2 * ZONE)
        self._whole[:] = PATTERN
        self.bytes = self._whole[ZONE : ZONE + array.nbytes]
        self.array = self.bytes.view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.address = self.bytes.ctypes.data

    def intact(self) -> bool:
        return bool(
            (self._whole[:ZONE] == PATTERN).all() and (self._whole[ZONE + self.bytes.nbytes :] == PATTERN).all()
        )


class PlainTrial:
    """A Trial of any launcher, by its `run` alone: memory is the launcher's, so nothing is poisoned or guarded."""

    def __init__(self, launcher: Launcher, arrays: Sequence[np.ndarray]) -> None:
        self._launcher, self._arrays = launcher, arrays

    def outputs(self, poison: int) -> list[np.ndarray]:
        return self._launcher.run(self._arrays)

    def overrun(self) -> str:
        return ""

    def seconds(self, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            self._launcher.run(self._arrays)
        return (time.perf_counter() - start) / count

    def close(self) -> None:
        pass


def trial(launcher: Launcher, arrays: Sequence[np.ndarray]) -> Trial:
    """The trial that fits the launcher."""
    if isinstance(launcher, Executable):
        return CpuTrial(launcher, arrays)
    return GpuTrial(launcher, arrays) if isinstance(launcher, GpuExecutable) else PlainTrial(launcher, arrays)
