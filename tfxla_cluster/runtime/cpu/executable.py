"""An executable: a launch plan and its machine code, laid out for `tfxla_execute`."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...held import Held
from ...ir.dim import make
from ...locks import ForkSafeLock
from .. import foreign
from ..arrays import ALIGN, aligned_copy, bind_sizes, empty_outputs, trimmed
from ..launcher import records
from ..launcher.encode import Encoded, Runs, encode
from ..launcher.opened import Opened, status_error
from ..launcher.record_layout import RECORD
from ..launcher.step_times import StepTimes
from ..plan import CopyStep, KernelStep, LaunchPlan, LibraryStep, walk
from . import foreign_routine, native
from .pool import DEFAULTS

_SHARED_CONSTANT = 4096  # bytes from which equal constants of all executables share memory


class Code(Protocol):
    """Loaded machine code; lives as long as this object."""

    def address(self, symbol: str) -> int:
        """Where `symbol` starts, 0 when it is not there."""


def entry() -> int:
    """Address of `int32_t tfxla_execute(void* record, void** inputs, void** outputs, int64_t* sizes)`.

    Any number of threads may call it, with no GIL. Returns 0, a kernel's positive status, or
    record_layout.STATUS_CLOSED (retired: treat as a cache miss) or STATUS_NO_MEMORY. `sizes` holds one
    number for each of plan.sizes; those that an instruction produces are written back to it.
    """
    return native.runtime().execute


class Executable(Opened["_Body"]):
    """Runs `plan`; the steps of the first `timed` executions are timed."""

    def __init__(self, plan: LaunchPlan, code: Code, timed: int = 0) -> None:
        body = _Body(plan, code, encode(plan, lambda step: _address(step, code)), timed)
        runtime = native.runtime()
        super().__init__(plan, body, runtime.execute, runtime.retire)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on NumPy arrays; UsageError where one does not fit, TfxlaError where a kernel says so."""
        inputs = [np.asarray(a, order="C") for a in arrays]
        sizes = bind_sizes(self.plan, inputs)
        outputs = empty_outputs(self.plan, sizes)
        self.call([a.ctypes.data for a in inputs], [a.ctypes.data for a in outputs], sizes)
        env = dict(zip((s.symbol for s in self.plan.sizes), map(int, sizes)))
        return trimmed(self.plan, outputs, env)

    def hold(self, literals: Sequence[bytes]) -> tuple[Held, ...]:
        """As backends.backend.NativeExecutable."""
        arrays = [_constant(literal) for literal in literals]
        return tuple(Held(array.ctypes.data, array) for array in arrays)

    def call(self, inputs: Sequence[int], outputs: Sequence[int], sizes: np.ndarray) -> None:
        """Run on addresses; raises as `run`."""
        status = _entry_function()(self.record, _pointers(inputs), _pointers(outputs), sizes.ctypes.data)
        if status:
            raise status_error(status, self.plan.name)


def _address(step: Runs, code: Code) -> int:
    """Of what the step runs; 0 where it is not there."""
    if isinstance(step, KernelStep):
        return code.address(step.symbol)
    name = foreign_routine.ROUTINE if foreign.is_foreign(step.routine) else step.routine
    return native.runtime().routines.get(name, 0)


def trim_memory() -> int:
    """Give the memory of idle execution blocks back to the system; bytes."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(native.runtime().trim)())


class _Body:
    """A records.Body of the CPU."""

    def __init__(self, plan: LaunchPlan, code: Code, encoded: Encoded, timed: int) -> None:
        self.code, self.encoded = code, encoded
        self.constants = [_constant(data) for data in plan.constants]
        self.constant_table = np.array([c.ctypes.data for c in self.constants] or [0], np.int64)
        self._text, self.names = _names([step.name for step in encoded.timed])
        self.times = StepTimes(encoded.timed, timed) if timed else None
        self.plan = plan

    def words(self) -> dict[int, int]:
        scratch_word = -(-(len(self.encoded.values) + self.encoded.argument_words) // 8) * 8  # 64-byte aligned
        fields = {
            **records.program_fields(self.encoded, self.plan),
            "front_words": scratch_word + -(-self.encoded.scratch_bytes // ALIGN) * 8,
            "scratch_word": scratch_word,
            "constants": self.constant_table.ctypes.data,
            "timings": 0 if self.times is None else self.times.address,
            "names": self.names.ctypes.data,
            "parallel": int(may_share(self.plan)),
        }
        return {RECORD[name]: value for name, value in fields.items()}


def _names(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Names in memory, each ended by a null, and s64[n, 2]: the address and bytes of each."""
    encoded = [name.encode() for name in names]
    text = np.frombuffer(b"\0".join([*encoded, b""]), np.uint8)
    sizes = np.array([len(name) for name in encoded], np.int64)
    starts = text.ctypes.data + np.cumsum(sizes + 1) - sizes - 1
    return text, np.stack([starts, sizes], 1)


def may_share(plan: LaunchPlan) -> bool:
    """Whether workers may be of use: only then does an execution keep them awake."""
    for step in walk(plan.steps):
        if isinstance(step, CopyStep):
            return True
        if isinstance(step, (KernelStep, LibraryStep)) and step.tasks != 1:
            work = make("mul", step.tasks, step.cost)
            if not isinstance(work, int) or work >= DEFAULTS["parallel_cost"]:
                return True
    return False


_lock = ForkSafeLock()
_constants: weakref.WeakValueDictionary[tuple[int, bytes], np.ndarray] = weakref.WeakValueDictionary()


def _constant(data: bytes) -> np.ndarray:
    """`data` in aligned memory; equal large constants share it."""
    if len(data) < _SHARED_CONSTANT:
        return aligned_copy(data)
    key = (len(data), hashlib.sha256(data).digest())
    with _lock:
        found = _constants.get(key)
        if found is None:
            found = _constants[key] = aligned_copy(data)
        return found


def _pointers(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def _entry_function() -> ctypes._FuncPointer:
    return _ENTRY_TYPE(entry())


_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
